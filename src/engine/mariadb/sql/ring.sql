-- SPDX-License-Identifier: MIT
--
-- Notify these clients (numbers, separated by commas), after the commit that they must see. A listener is a
-- connection that has the user lock holdfast.<client> and sleeps in ~bell; KILL QUERY ends its sleep. The lock
-- identifies the connection: a connection number in a table could mean another one after a restart. If it is
-- not allowed (another account) or there is no listener, the waiter's next heartbeat finds the grant.
CREATE PROCEDURE `~ring` (IN p_rings TEXT CHARACTER SET ascii)
  READS SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_id BIGINT UNSIGNED;
  DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
  WHILE p_rings <> '' DO
    SET v_id = IS_USED_LOCK(CONCAT('holdfast.', LOWER(HEX(CAST(SUBSTRING_INDEX(p_rings, ',', 1) AS SIGNED)))));
    IF v_id IS NOT NULL THEN
      KILL QUERY v_id;
    END IF;
    SET p_rings = IF(LOCATE(',', p_rings) > 0, SUBSTRING(p_rings, LOCATE(',', p_rings) + 1), '');
  END WHILE;
END
