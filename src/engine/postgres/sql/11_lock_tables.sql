-- SPDX-License-Identifier: MIT
--
-- mode=row: a row for each name, which exists before it is locked, and never changes. mode=session: the name of
-- each advisory lock's number.
CREATE TABLE IF NOT EXISTS @lock_rows (name bytea PRIMARY KEY);
CREATE TABLE IF NOT EXISTS @lock_names (lock int8 PRIMARY KEY, name bytea NOT NULL);
-- Both: waits of sessions that hold something, and (label NULL) leases that are waited for (sql/lock_share.c).
CREATE TABLE IF NOT EXISTS @lock_waits (
    client int8 NOT NULL,
    mode int8 NOT NULL,
    owner bytea NOT NULL,
    name bytea NOT NULL,
    number int8 NOT NULL,
    label bytea
);
