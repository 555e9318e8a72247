-- SPDX-License-Identifier: MIT
--
-- A procedure keeps the sql_mode of the session that created it: so it is set here, also for the printed
-- SQL. (In SIMULTANEOUS_ASSIGNMENT a token would be computed from the one before last.) As in
-- connection.c.
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_UNSIGNED_SUBTRACTION';
