-- SPDX-License-Identifier: MIT
--
-- Last: whoever finds this finds everything.
INSERT INTO `~meta` (item, number, bytes) VALUES ('schema', 1, '') ON DUPLICATE KEY UPDATE number = 1
