-- SPDX-License-Identifier: MIT
--
-- mode=row: a row for each name, which is there before it is locked, and never changes.
-- mode=session: which name a user-level lock stands for.
CREATE TABLE IF NOT EXISTS `~lock_rows` (
  name VARBINARY(512) NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
CREATE TABLE IF NOT EXISTS `~lock_names` (
  lock_name VARBINARY(64) NOT NULL,
  name VARBINARY(512) NOT NULL,
  PRIMARY KEY (lock_name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
