-- SPDX-License-Identifier: MIT
--
-- Acquire, join the queue, or refuse: all cases (acquire).
--
-- The common case is the first statement, which is a transaction of its own: nobody holds, nobody waits, and we want
-- all of it. (call.c tries just that first, where it is likely. The last column of the answer is 1 if it would have done.)
--
-- Otherwise it is granted only if it fits after expired claims were removed, and (unless it may barge) only if nobody
-- waits. Whoever does not wait and meets a lease that lingers (flag 32), where nobody waits, is told so: B with 1 as tokens. An owner that holds or waits already is found by its id and gets the same answer again.
CREATE PROCEDURE `~acquire_any` (IN p_name VARBINARY(512), IN p_owner VARBINARY(16), IN p_mode INT,
    IN p_capacity INT, IN p_permits INT, IN p_flags INT, IN p_ttl BIGINT, IN p_delay BIGINT, IN p_tokens INT, IN p_wait INT,
    IN p_window BIGINT, IN p_client BIGINT, IN p_label VARBINARY(127))
  MODIFIES SQL DATA SQL SECURITY INVOKER
acquire: BEGIN
  DECLARE v_us BIGINT DEFAULT @NOW@;
  DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
  DECLARE v_none BOOL DEFAULT FALSE;
  DECLARE v_mode, v_capacity, v_taken, v_holders, v_waiters, v_x_tokens INT DEFAULT 0;
  DECLARE v_token, v_ticket, v_soon, v_closed, v_x_until, v_x_token, v_until, v_first, v_place BIGINT DEFAULT 0;
  DECLARE v_x_owner VARBINARY(16) DEFAULT '';
  DECLARE v_state CHAR(1) DEFAULT '';
  DECLARE v_tokens INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  IF p_permits = p_capacity AND p_flags & 64 = 0 THEN
    UPDATE `~names` SET x_owner = p_owner, mode = p_mode, capacity = p_capacity, taken = p_permits, x_flags = p_flags,
        x_ttl = p_ttl, x_since = v_us, x_until = v_us + p_ttl * 1000, x_delay = p_delay, x_tokens = p_tokens, x_client = p_client,
        x_label = p_label, x_token = GREATEST(token + 1, v_us), token = x_token + p_tokens - 1, x_holds = x_token,
        x_tid = 0, holders = 1
      WHERE name = p_name AND holders = 0 AND waiters = 0 AND closed < v_us AND token < 9007199254740992 - p_tokens
        AND token < v_us + IF(p_flags & 32, 50000, 1000) - p_tokens;
    IF ROW_COUNT() > 0 THEN
      SELECT x_token INTO v_first FROM `~names` WHERE name = p_name AND x_owner = p_owner;
      IF NOT v_none THEN
        SELECT 'G', v_first, p_tokens, p_ttl, 1;
        LEAVE acquire;
      END IF;
    END IF;
  END IF;

  START TRANSACTION;
  CALL `~settle`(p_name, v_rings);
  REPEAT
    SET v_none = FALSE;
    SELECT mode, capacity, taken, holders, waiters, token, ticket, soon, closed, x_owner, x_until, x_token, x_tokens
      INTO v_mode, v_capacity, v_taken, v_holders, v_waiters, v_token, v_ticket, v_soon, v_closed, v_x_owner, v_x_until,
        v_x_token, v_x_tokens
      FROM `~names` WHERE name = p_name FOR UPDATE;
    IF v_none THEN
      CALL `~fresh`(p_name);
    END IF;
  UNTIL NOT v_none END REPEAT;
  SET v_us = @NOW@;

  -- The same owner again.
  IF v_x_owner = p_owner THEN
    SET v_until = GREATEST(v_x_until, v_us + p_ttl * 1000);
    UPDATE `~names` SET x_until = v_until WHERE name = p_name;
    COMMIT;
    CALL `~ring`(v_rings);
    SELECT 'G', v_x_token, v_x_tokens, (v_until - v_us) DIV 1000, 0;
    LEAVE acquire;
  END IF;
  SELECT state, ticket, token, tokens, until INTO v_state, v_place, v_first, v_tokens, v_until
    FROM `~claims` FORCE INDEX (owner) WHERE owner = p_owner AND name = p_name FOR UPDATE;
  IF v_state IN ('G', 'H') THEN
    SET v_until = GREATEST(v_until, v_us + p_ttl * 1000);
    UPDATE `~claims` SET until = v_until, state = 'H' WHERE name = p_name AND ticket = v_place;
    COMMIT;
    CALL `~ring`(v_rings);
    SELECT 'G', v_first, v_tokens, (v_until - v_us) DIV 1000, 0;
    LEAVE acquire;
  END IF;
  IF v_state = 'L' THEN
    DELETE FROM `~claims` WHERE name = p_name AND ticket = v_place;
    SET v_state = '';
  END IF;

  -- Another kind. (Waiters that keep it closed to other kinds may all be dead.) A size that was set counts instead of what is asked for.
  IF v_state = '' AND (v_holders > 0 OR v_waiters > 0) AND (v_mode <> p_mode OR (v_capacity <> p_capacity AND (p_permits > v_capacity
      OR NOT EXISTS (SELECT 1 FROM `~claims` FORCE INDEX (owner) WHERE owner = x'00000000000000000000000000000000'
        AND name = p_name)))) THEN
    COMMIT;
    CALL `~ring`(v_rings);
    SELECT 'M', v_mode, 0, v_capacity, 0;
    LEAVE acquire;
  END IF;
  IF v_holders = 0 AND v_waiters = 0 THEN
    SET v_mode = p_mode, v_capacity = p_capacity, v_taken = 0;
  END IF;

  IF v_state = '' AND v_closed < v_us AND p_permits <= v_capacity - v_taken AND (v_waiters = 0 OR p_flags & 1) THEN
    SET v_first = GREATEST(v_token + 1, v_us);
    SET p_tokens = LEAST(p_tokens, GREATEST(1, v_us + IF(p_flags & 32, 50000, 1000) - v_first));
    IF v_first > 9007199254740992 - p_tokens THEN
      COMMIT;
      CALL `~ring`(v_rings);
      SELECT 'F', 0, 0, 0, 0;
      LEAVE acquire;
    END IF;
    SET v_until = v_us + p_ttl * 1000;
    IF p_permits = v_capacity AND v_holders = 0 AND p_flags & 64 = 0 THEN
      UPDATE `~names` SET x_owner = p_owner, x_client = p_client, x_flags = p_flags, x_token = v_first, x_tokens = p_tokens,
          x_holds = v_first, x_tid = 0, x_ttl = p_ttl, x_delay = p_delay, x_since = v_us, x_until = v_until, x_label = p_label,
          mode = v_mode, capacity = v_capacity, taken = p_permits, holders = 1, token = v_first + p_tokens - 1
        WHERE name = p_name;
    ELSE
      INSERT INTO `~claims` (name, ticket, owner, client, state, permits, flags, token, tokens, holds, ttl, delay, claim_window,
          since, until, label)
        VALUES (p_name, v_ticket + 1, p_owner, p_client, 'H', p_permits, p_flags, v_first, p_tokens, v_first, p_ttl, p_delay,
          p_window, v_us, v_until, p_label);
      UPDATE `~names` SET mode = v_mode, capacity = v_capacity, taken = v_taken + p_permits, holders = v_holders + 1,
          token = v_first + p_tokens - 1, ticket = v_ticket + 1,
          soon = IF(v_holders > 0, LEAST(v_soon, v_until), v_until),
          x_ttl = IF(v_holders > 0, GREATEST(x_ttl, p_ttl, p_window), GREATEST(p_ttl, p_window))
        WHERE name = p_name;
      IF p_flags & 64 THEN
        CALL `~number`(p_name, v_ticket + 1, p_permits);
        COMMIT;
        CALL `~ring`(v_rings);
        SELECT IF(p_flags & 16 AND v_waiters > 0, 'g', 'G'), v_first, p_tokens, p_ttl,
          (SELECT GROUP_CONCAT(number ORDER BY number) FROM `~slots` WHERE name = p_name AND ticket = v_ticket + 1);
        LEAVE acquire;
      END IF;
    END IF;
    COMMIT;
    CALL `~ring`(v_rings);
    SELECT IF(p_flags & 16 AND v_waiters > 0, 'g', 'G'), v_first, p_tokens, p_ttl, 0;
    LEAVE acquire;
  END IF;

  IF v_state = '' AND NOT p_wait THEN
    COMMIT;
    CALL `~ring`(v_rings);
    SELECT 'B', 0, v_waiters = 0 AND EXISTS (SELECT 1 FROM `~names` WHERE name = p_name AND x_owner <> '' AND x_flags & 32
      UNION ALL SELECT 1 FROM `~claims` WHERE name = p_name AND state IN ('G', 'H') AND flags & 32), 0, 0;
    LEAVE acquire;
  END IF;
  IF GREATEST(v_token + 1, v_us) > 9007199254740992 - p_tokens THEN
    COMMIT;
    CALL `~ring`(v_rings);
    SELECT 'F', 0, 0, 0, 0;
    LEAVE acquire;
  END IF;
  IF v_state = 'W' THEN
    UPDATE `~claims` SET since = v_us, client = p_client, claim_window = p_window WHERE name = p_name AND ticket = v_place;
    SET v_place = (SELECT COUNT(*) FROM `~claims` WHERE name = p_name AND state = 'W' AND ticket < v_place);
  ELSE
    INSERT INTO `~claims` (name, ticket, owner, client, state, permits, flags, tokens, ttl, delay, claim_window, since, label)
      VALUES (p_name, v_ticket + 1, p_owner, p_client, 'W', p_permits, p_flags, p_tokens, p_ttl, p_delay, p_window, v_us,
        p_label);
    UPDATE `~names` SET mode = v_mode, capacity = v_capacity, ticket = v_ticket + 1, waiters = v_waiters + 1,
      head = IF(v_waiters = 0, v_ticket + 1, head) WHERE name = p_name;
    SET v_place = v_waiters;
    IF v_waiters = 0 AND v_holders > 0 THEN
      CALL `~want`(p_name, 'W', '', v_rings);
    END IF;
  END IF;
  COMMIT;
  CALL `~ring`(v_rings);
  SELECT 'Q', v_token, 0, IF(v_place > 0 OR (v_taken = 0 AND v_closed < v_us), 0, GREATEST(1, 1 + (IF(v_closed >= v_us, v_closed,
    LEAST(IF(v_x_owner <> '', v_x_until, 9007199254740992), IF(v_holders > (v_x_owner <> ''), v_soon, 9007199254740992)))
    - v_us) DIV 1000)), 0;
END
