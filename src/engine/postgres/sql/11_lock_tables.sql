-- SPDX-License-Identifier: MIT
--
-- mode=row: a row for each name, which is there before it is locked, and never changes.
-- mode=session: which name an advisory lock's number stands for.
CREATE TABLE IF NOT EXISTS @lock_rows (name bytea PRIMARY KEY);
CREATE TABLE IF NOT EXISTS @lock_names (lock int8 PRIMARY KEY, name bytea NOT NULL);
