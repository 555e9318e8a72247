-- SPDX-License-Identifier: MIT
--
-- A procedure keeps the mode of whoever made it for good: ours, also if somebody runs the printed SQL. (In
-- SIMULTANEOUS_ASSIGNMENT a token would be made from the one before last.) As in connection.c.
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_UNSIGNED_SUBTRACTION';
