-- SPDX-License-Identifier: MIT
--
-- Recheck: end what has expired, and hand over. Returns the ms until the next recheck is useful; 0: nobody waits. It does not
-- wait for a locked row: that would delay waiters of other names. The session that has the row mostly does the same; if not,
-- the next recheck does.
CREATE PROCEDURE `~poke` (IN p_name VARBINARY(512))
  MODIFIES SQL DATA SQL SECURITY INVOKER
poke: BEGIN
  DECLARE v_us, v_next BIGINT DEFAULT 0;
  DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
  DECLARE v_none BOOL DEFAULT FALSE;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  START TRANSACTION;
  SELECT COUNT(*) INTO v_next FROM `~names` WHERE name = p_name FOR UPDATE SKIP LOCKED;
  IF v_next = 0 THEN
    COMMIT;
    SELECT 250 * COUNT(*) FROM `~names` WHERE name = p_name;
    LEAVE poke;
  END IF;
  CALL `~settle`(p_name, v_rings);
  SET v_us = @NOW@;
  SELECT IF(waiters = 0 OR (taken = 0 AND closed < v_us), 0, GREATEST(1, 1 + (IF(closed >= v_us, closed,
      LEAST(IF(x_owner <> '', x_until, 9007199254740992), IF(holders > (x_owner <> ''), soon, 9007199254740992)))
      - v_us) DIV 1000))
    INTO v_next FROM `~names` WHERE name = p_name;
  COMMIT;
  CALL `~ring`(v_rings);
  SELECT v_next;
END
