-- SPDX-License-Identifier: MIT
--
-- Record the version of the procedures, which have been replaced. MySQL keeps existing ones, so there it is recorded
-- only when they are created for the first time.
INSERT INTO `~meta` (item, number, bytes) SELECT 'routines', @ROUTINES@, '' FROM DUAL
  WHERE TRUE /*!80029 AND NOT EXISTS (SELECT 1 FROM `~meta` AS m WHERE m.item = 'schema') */
  ON DUPLICATE KEY UPDATE number = @ROUTINES@
