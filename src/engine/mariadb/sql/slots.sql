-- SPDX-License-Identifier: MIT
--
-- The numbers of a holder's permits; no row: there is no such holder.
CREATE PROCEDURE `~slots` (IN p_name VARBINARY(512), IN p_owner VARBINARY(16))
  READS SQL DATA SQL SECURITY INVOKER
BEGIN
  SELECT GROUP_CONCAT(s.number ORDER BY s.number) FROM `~claims` c FORCE INDEX (owner)
    JOIN `~slots` s ON s.name = c.name AND s.ticket = c.ticket
    WHERE c.owner = p_owner AND c.name = p_name AND c.state IN ('G', 'H') AND c.until >= @NOW@ AND c.flags & 64
    HAVING COUNT(*) > 0;
END
