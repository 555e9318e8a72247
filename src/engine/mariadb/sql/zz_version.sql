-- SPDX-License-Identifier: MIT
--
-- Last: a client that finds this row finds everything.
INSERT INTO `~meta` (item, number, bytes) VALUES ('schema', 1, '') ON DUPLICATE KEY UPDATE number = 1
