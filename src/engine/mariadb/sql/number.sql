-- SPDX-License-Identifier: MIT
--
-- Give the claim with this ticket the lowest numbers from 0 on that no holder of the name has. Inside the caller's transaction, which has the
-- name's row. The claim has none yet.
CREATE PROCEDURE `~number` (IN p_name VARBINARY(512), IN p_ticket BIGINT, IN p_permits INT)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  UPDATE `~slots` SET ticket = p_ticket WHERE name = p_name AND NOT EXISTS (SELECT 1 FROM `~claims` c
      WHERE c.name = p_name AND c.ticket = `~slots`.ticket AND c.state IN ('G', 'H') AND c.flags & 64)
    ORDER BY number LIMIT p_permits;
  SET p_permits = p_permits - ROW_COUNT();
  WHILE p_permits > 0 DO
    INSERT INTO `~slots` (name, number, ticket)
      SELECT p_name, COALESCE(MAX(number) + 1, 0), p_ticket FROM `~slots` WHERE name = p_name;
    SET p_permits = p_permits - 1;
  END WHILE;
END
