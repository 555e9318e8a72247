-- SPDX-License-Identifier: MIT
--
-- End a lease, and hand the name to the next waiter, in the same transaction: all cases (release). Only the record of exactly this owner
-- goes, and only while it counts: one whose end has passed is gone already, uncleanly. An owner that still waits leaves
-- the queue. The first statement is the common case, a transaction of its own: it holds, and nobody waits.
CREATE PROCEDURE `~release_any` (IN p_name VARBINARY(512), IN p_owner VARBINARY(16))
  MODIFIES SQL DATA SQL SECURITY INVOKER
release_it: BEGIN
  DECLARE v_us BIGINT DEFAULT @NOW@;
  DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
  DECLARE v_none BOOL DEFAULT FALSE;
  DECLARE v_verdict, v_state CHAR(1) DEFAULT 'L';
  DECLARE v_x_owner VARBINARY(16) DEFAULT '';
  DECLARE v_x_until, v_until, v_ticket BIGINT DEFAULT 0;
  DECLARE v_permits INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  UPDATE `~names` SET x_owner = '', taken = 0, holders = 0
    WHERE name = p_name AND x_owner = p_owner AND waiters = 0 AND x_until >= v_us;
  IF ROW_COUNT() > 0 THEN
    SELECT 'R', 1;
    LEAVE release_it;
  END IF;

  START TRANSACTION;
  SELECT x_owner, x_until INTO v_x_owner, v_x_until FROM `~names` WHERE name = p_name FOR UPDATE;
  IF v_none THEN
    COMMIT;
    SELECT 'L', 0;
    LEAVE release_it;
  END IF;
  SET v_us = @NOW@;
  IF v_x_owner = p_owner THEN
    IF v_x_until >= v_us THEN
      UPDATE `~names` SET x_owner = '', taken = 0, holders = 0 WHERE name = p_name;
      SET v_verdict = 'R';
    END IF;
  ELSE
    SELECT state, ticket, permits, until INTO v_state, v_ticket, v_permits, v_until
      FROM `~claims` FORCE INDEX (owner) WHERE owner = p_owner AND name = p_name FOR UPDATE;
    IF NOT v_none AND v_state = 'W' THEN
      DELETE FROM `~claims` WHERE name = p_name AND ticket = v_ticket;
      UPDATE `~names` SET waiters = waiters - 1 WHERE name = p_name;
      IF (SELECT waiters = 0 AND holders > 0 FROM `~names` WHERE name = p_name) THEN
        CALL `~want`(p_name, 'U', '', v_rings);
      END IF;
    ELSEIF NOT v_none AND v_state = 'L' THEN
      DELETE FROM `~claims` WHERE name = p_name AND ticket = v_ticket;
    ELSEIF NOT v_none AND v_until >= v_us THEN
      DELETE FROM `~claims` WHERE name = p_name AND ticket = v_ticket;
      UPDATE `~names` SET taken = taken - v_permits, holders = holders - 1 WHERE name = p_name;
      SET v_verdict = 'R';
    END IF;
  END IF;
  CALL `~settle`(p_name, v_rings);
  COMMIT;
  CALL `~ring`(v_rings);
  SELECT v_verdict, 0;
END
