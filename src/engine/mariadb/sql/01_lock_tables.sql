-- SPDX-License-Identifier: MIT
--
-- mode=row: a row for each name, which exists before it is locked, and never changes. mode=session: the name of
-- each user-level lock. Both: waits of sessions that hold something, and (label NULL) leases that are waited for
-- (sql/lock_share.c).
CREATE TABLE IF NOT EXISTS `~lock_rows` (
  name VARBINARY(512) NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
CREATE TABLE IF NOT EXISTS `~lock_names` (
  lock_name VARBINARY(64) NOT NULL,
  name VARBINARY(512) NOT NULL,
  PRIMARY KEY (lock_name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
CREATE TABLE IF NOT EXISTS `~lock_waits` (
  client BIGINT NOT NULL,
  mode INT NOT NULL,
  owner BINARY(16) NOT NULL,
  name VARBINARY(512) NOT NULL,
  number BIGINT NOT NULL,
  label VARBINARY(127) NULL,
  KEY client (client)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
