-- SPDX-License-Identifier: MIT
--
-- Procedures of another version were replaced: of which version they are now. MySQL has kept them if they were there, so
-- there it is said only of procedures that are made for the first time.
INSERT INTO `~meta` (item, number, bytes) SELECT 'routines', @ROUTINES@, '' FROM DUAL
  WHERE TRUE /*!80029 AND NOT EXISTS (SELECT 1 FROM `~meta` AS m WHERE m.item = 'schema') */
  ON DUPLICATE KEY UPDATE number = @ROUTINES@
