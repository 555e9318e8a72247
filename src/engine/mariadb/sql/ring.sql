-- SPDX-License-Identifier: MIT
--
-- Ring the bells of these clients (numbers, separated by commas), after the commit that they are to see. A bell
-- is a connection that has the user lock holdfast.<client> and sleeps in ~bell; KILL QUERY ends its sleep. The
-- lock says which connection that is: there is no number of a connection in a table that could mean another one
-- after a restart. Who may not (another account) or finds nobody leaves it to the waiter's next beat.
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
