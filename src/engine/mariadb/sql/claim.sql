-- SPDX-License-Identifier: MIT
--
-- Acquire, with what most claims do not need: numbers for its permits (flag 64), or the place of a holder. The numbers are the last column of
-- the answer, or are asked for (slots).
--
-- In the place of a holder, p_replaced: it stands before all that wait, that holder's permits count as free for it, and its
-- grant removes the holder in the same transaction, so nobody comes between. N: there is no such holder. All else as acquire says it.
--
-- Safe: the holder goes only where the claim fits without it, and then at once. A claim for no more than the holder has does not even wait
-- for the end of a lock delay. Its lease does not end before that holder's would have: the client counts on that one until it has the
-- answer. Whoever waits is looked at after that (settle): so what has expired is ended first, and nobody is let in. A claim that holds
-- or waits already is what acquire_any finds. A waiter of this kind has the first token of that holder as its token (settle).
CREATE PROCEDURE `~claim` (IN p_name VARBINARY(512), IN p_owner VARBINARY(16), IN p_mode INT,
    IN p_capacity INT, IN p_permits INT, IN p_flags INT, IN p_ttl BIGINT, IN p_delay BIGINT, IN p_tokens INT, IN p_wait INT,
    IN p_window BIGINT, IN p_client BIGINT, IN p_label VARBINARY(127), IN p_replaced VARBINARY(16))
  MODIFIES SQL DATA SQL SECURITY INVOKER
claim_it: BEGIN
  DECLARE v_us, v_until, v_old, v_first, v_ticket, v_token, v_place, v_soon, v_closed, v_x_until BIGINT DEFAULT 0;
  DECLARE v_mode, v_capacity, v_taken, v_holders, v_waiters, v_own INT DEFAULT 0;
  DECLARE v_x_owner VARBINARY(16) DEFAULT '';
  DECLARE v_verdict CHAR(1) DEFAULT 'N';
  DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
  DECLARE v_none BOOL DEFAULT FALSE;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  IF p_replaced IS NULL THEN
    CALL `~acquire_any`(p_name, p_owner, p_mode, p_capacity, p_permits, p_flags, p_ttl, p_delay, p_tokens, p_wait, p_window,
      p_client, p_label);
    LEAVE claim_it;
  END IF;
  START TRANSACTION;
  SELECT waiters INTO v_waiters FROM `~names` WHERE name = p_name FOR UPDATE;
  IF v_waiters > 0 THEN
    UPDATE `~names` SET waiters = 0 WHERE name = p_name;
  END IF;
  CALL `~settle`(p_name, v_rings);
  IF v_waiters > 0 THEN
    UPDATE `~names` SET waiters = v_waiters WHERE name = p_name;
  END IF;
  SELECT mode, capacity, taken, holders, token, soon, closed, x_owner, x_until, IF(x_owner = p_replaced, x_token, 0),
      IF(x_owner = p_replaced, capacity, 0), IF(x_owner = p_replaced, x_until, 0)
    INTO v_mode, v_capacity, v_taken, v_holders, v_token, v_soon, v_closed, v_x_owner, v_x_until, v_old, v_own, v_until
    FROM `~names` WHERE name = p_name;
  SET v_us = @NOW@;
  IF v_x_owner = p_owner OR EXISTS (SELECT 1 FROM `~claims` FORCE INDEX (owner)
      WHERE owner = p_owner AND name = p_name AND state <> 'L') THEN
    COMMIT;
    CALL `~ring`(v_rings);
    CALL `~acquire_any`(p_name, p_owner, p_mode, p_capacity, p_permits, p_flags, p_ttl, p_delay, p_tokens, p_wait, p_window,
      p_client, p_label);
    LEAVE claim_it;
  END IF;

  IF v_own = 0 THEN
    SELECT token, permits, until INTO v_old, v_own, v_until FROM `~claims` FORCE INDEX (owner)
      WHERE owner = p_replaced AND name = p_name AND state IN ('G', 'H');
  END IF;
  SET v_first = GREATEST(v_token + 1, v_us);
  IF v_own = 0 THEN
    SET v_first = 0;
  ELSEIF v_mode <> p_mode OR v_capacity <> p_capacity THEN
    SET v_verdict = 'M', v_first = v_mode, p_ttl = v_capacity;
  ELSEIF v_first > 9007199254740992 - p_tokens THEN
    SET v_verdict = 'F', v_first = 0;
  ELSEIF p_permits <= v_capacity - v_taken + v_own AND (v_closed < v_us OR p_permits <= v_own) THEN
    SET v_verdict = 'G', p_tokens = LEAST(p_tokens, GREATEST(1, v_us + IF(p_flags & 32, 50000, 1000) - v_first)),
      v_until = GREATEST(v_until, v_us + p_ttl * 1000), v_taken = v_taken - v_own, v_holders = v_holders - 1;
    DELETE FROM `~claims` WHERE name = p_name AND owner = p_replaced AND state IN ('G', 'H');
    IF v_holders = 0 AND p_permits = v_capacity THEN
      UPDATE `~names` SET x_owner = p_owner, x_client = p_client, x_flags = p_flags, x_token = v_first, x_tokens = p_tokens,
          x_holds = v_first, x_tid = 0, x_ttl = (v_until - v_us) DIV 1000 + 1, x_delay = p_delay, x_since = v_us, x_until = v_until,
          x_label = p_label, taken = p_permits, holders = 1, token = v_first + p_tokens - 1
        WHERE name = p_name;
    ELSE
      INSERT INTO `~claims` (name, ticket, owner, client, state, permits, flags, token, tokens, holds, ttl, delay, claim_window,
          since, until, label)
        SELECT name, ticket + 1, p_owner, p_client, 'H', p_permits, p_flags, v_first, p_tokens, v_first,
          (v_until - v_us) DIV 1000 + 1, p_delay, p_window, v_us, v_until, p_label FROM `~names` WHERE name = p_name;
      UPDATE `~names` SET x_owner = '', taken = v_taken + p_permits, holders = v_holders + 1, token = v_first + p_tokens - 1,
          ticket = ticket + 1, soon = IF(v_holders > 0, LEAST(v_soon, v_until), v_until),
          x_ttl = GREATEST(IF(v_holders > 0, x_ttl, 0), (v_until - v_us) DIV 1000 + 1, p_window)
        WHERE name = p_name;
    END IF;
  ELSEIF p_wait THEN
    SELECT MIN(ticket) - 1 INTO v_place FROM `~claims` WHERE name = p_name;
    INSERT INTO `~claims` (name, ticket, owner, client, state, permits, flags, token, tokens, ttl, delay, claim_window, since, label)
      VALUES (p_name, v_place, p_owner, p_client, 'W', p_permits, p_flags, v_old, p_tokens, p_ttl, p_delay, p_window, v_us, p_label);
    UPDATE `~names` SET waiters = v_waiters + 1, head = v_place WHERE name = p_name;
    IF v_waiters = 0 THEN
      CALL `~want`(p_name, 'W', '', v_rings);
    END IF;
    COMMIT;
    CALL `~ring`(v_rings);
    SELECT 'Q', v_token, 0, GREATEST(1, 1 + (IF(v_closed >= v_us, v_closed, LEAST(IF(v_x_owner <> '', v_x_until, 9007199254740992),
      IF(v_holders > (v_x_owner <> ''), v_soon, 9007199254740992))) - v_us) DIV 1000), NULL;
    LEAVE claim_it;
  ELSE
    SET v_verdict = 'B', v_first = 0, p_ttl = 0;
  END IF;
  CALL `~settle`(p_name, v_rings);
  SELECT waiters INTO v_waiters FROM `~names` WHERE name = p_name;
  COMMIT;
  CALL `~ring`(v_rings);
  SELECT IF(v_verdict = 'G' AND p_flags & 16 AND v_waiters > 0, 'g', v_verdict), v_first, IF(v_verdict = 'G', p_tokens, 0), p_ttl, NULL;
END
