-- SPDX-License-Identifier: MIT
--
-- Bring a name up to date, inside the caller's transaction: end what has expired, remove dead waiters from the front of the
-- queue, and grant to waiters that fit. io_rings: the clients to notify after the commit.
--
-- Why two conflicting claims can never hold at the same time: every change of `taken` happens under the row lock of the name
-- together with the change of the record, and a grant is made only where it fits beside `taken`.
--
-- An end that is further ahead than its ttl was written by a clock that has been set back since. It becomes a ttl from now: a
-- live holder has renewed at most a ttl ago, so its lease does not end before it knows; and a dead holder does not keep the name
-- until the clock has reached that time again.
--
-- The lock of a waiter's row is taken before the clock is read. BEAT takes it too: what it answers "still
-- waiting" has its grant's window begin later than that beat was sent.
--
-- A waiter is dead when its client sent no heartbeat for a window, or when the client's listener connection is gone, and with it
-- its user lock (listener.c, ring.sql). Such a waiter is removed without a grant: if its client only reconnects, the answer to
-- its next heartbeat is "forgotten", and it asks again.
--
-- A waiter that replaces a holder (claim) has that one's first token. It gets that one's place, if it is still there: its permits are free
-- for it, and it goes in the same step. The lease lasts at least for as long as that one's would have.
CREATE PROCEDURE `~settle` (IN p_name VARBINARY(512), INOUT io_rings TEXT CHARACTER SET ascii)
  MODIFIES SQL DATA SQL SECURITY INVOKER
settle: BEGIN
  DECLARE v_none, v_changed BOOL DEFAULT FALSE;
  DECLARE v_us, v_token, v_head, v_soon, v_closed, v_x_until, v_x_ttl, v_x_delay, v_first, v_alive BIGINT DEFAULT 0;
  DECLARE v_capacity, v_taken, v_holders, v_waiters, v_dead, v_dead_permits, v_granted INT DEFAULT 0;
  DECLARE v_x_owner VARBINARY(16) DEFAULT '';
  DECLARE v_ticket, v_client, v_window, v_ttl, v_since, v_delayed, v_delay, v_old, v_old_until BIGINT DEFAULT 0;
  DECLARE v_permits, v_tokens, v_flags, v_own INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;

  SELECT capacity, taken, holders, waiters, token, head, soon, closed, x_owner, x_until, x_ttl, x_delay
    INTO v_capacity, v_taken, v_holders, v_waiters, v_token, v_head, v_soon, v_closed, v_x_owner, v_x_until, v_x_ttl,
      v_x_delay
    FROM `~names` WHERE name = p_name FOR UPDATE;
  IF v_none THEN
    LEAVE settle;
  END IF;
  SET v_us = @NOW@;

  IF v_closed > v_us + v_x_delay * 1000 THEN
    SET v_closed = v_us + v_x_delay * 1000 - 1, v_changed = TRUE;
  END IF;
  IF v_x_owner <> '' AND v_x_until > v_us + v_x_ttl * 1000 THEN
    SET v_x_until = v_us + v_x_ttl * 1000, v_changed = TRUE;
  END IF;
  IF v_x_owner <> '' AND v_x_until < v_us THEN
    IF v_x_delay > 0 THEN
      SET v_closed = GREATEST(v_closed, v_x_until + v_x_delay * 1000);
    END IF;
    SET v_x_owner = '', v_taken = v_taken - v_capacity, v_holders = v_holders - 1, v_changed = TRUE;
  END IF;

  IF v_holders > (v_x_owner <> '') AND (v_soon < v_us OR (v_soon > v_us + v_x_ttl * 1000 AND v_soon < 9007199254740991)) THEN
    UPDATE `~claims` SET until = v_us + GREATEST(ttl, claim_window) * 1000
      WHERE name = p_name AND state IN ('G', 'H') AND until > v_us + GREATEST(ttl, claim_window) * 1000;
    SELECT COUNT(*), COALESCE(SUM(permits), 0), COALESCE(MAX(IF(delay > 0, until + delay * 1000, 0)), 0), COALESCE(MAX(delay), 0)
      INTO v_dead, v_dead_permits, v_delayed, v_delay
      FROM `~claims` WHERE name = p_name AND state IN ('G', 'H') AND until < v_us;
    IF v_dead > 0 THEN
      DELETE FROM `~claims` WHERE name = p_name AND state IN ('G', 'H') AND until < v_us;
      SET v_taken = v_taken - v_dead_permits, v_holders = v_holders - v_dead,
        v_closed = GREATEST(v_closed, v_delayed), v_x_delay = GREATEST(v_x_delay, v_delay);
    END IF;
    SELECT COALESCE(MIN(until), 0), COALESCE(MAX(IF(permits > 0, GREATEST(ttl, claim_window), 0)), 0) INTO v_soon, v_x_ttl
      FROM `~claims` WHERE name = p_name AND state IN ('G', 'H');
    SET v_changed = TRUE;
  END IF;

  WHILE v_waiters > 0 AND v_taken < v_capacity DO
    SET v_none = FALSE;
    SELECT ticket, client, permits, tokens, claim_window, ttl, since, flags, token, 0
      INTO v_ticket, v_client, v_permits, v_tokens, v_window, v_ttl, v_since, v_flags, v_old, v_own
      FROM `~claims` FORCE INDEX (PRIMARY)
      WHERE name = p_name AND ticket >= v_head AND state = 'W' ORDER BY ticket LIMIT 1 FOR UPDATE;
    IF v_none THEN
      SET v_waiters = 0, v_changed = TRUE;
      UPDATE `~names` SET waiters = 0 WHERE name = p_name;
    ELSE
      SET v_us = @NOW@, v_alive = 0;
      SELECT until INTO v_alive FROM `~clients` WHERE client = v_client;
      IF GREATEST(v_alive, v_since + v_window * 1000) < v_us OR
          IS_USED_LOCK(CONCAT('holdfast.', LOWER(HEX(v_client)))) IS NULL THEN
        DELETE FROM `~claims` WHERE name = p_name AND ticket = v_ticket;
        SET v_waiters = v_waiters - 1, v_head = v_ticket + 1, v_changed = TRUE;
      ELSE
        SET v_first = GREATEST(v_token + 1, v_us);
        SET v_tokens = LEAST(v_tokens, GREATEST(1, v_us + IF(v_flags & 32, 50000, 1000) - v_first));
        IF v_old > 0 THEN
          SELECT COALESCE(MAX(permits), 0), COALESCE(MAX(until), 0) INTO v_own, v_old_until
            FROM `~claims` WHERE name = p_name AND token = v_old AND state IN ('G', 'H');
        END IF;
        IF v_closed >= v_us OR v_permits > v_capacity - v_taken + v_own OR v_first > 9007199254740992 - v_tokens THEN
          IF v_changed THEN
            UPDATE `~names` SET taken = v_taken, holders = v_holders, waiters = v_waiters, token = v_token,
              head = v_head, soon = v_soon, closed = v_closed, x_owner = v_x_owner, x_until = v_x_until, x_ttl = v_x_ttl,
              x_delay = v_x_delay WHERE name = p_name;
          END IF;
          LEAVE settle;
        END IF;
        IF v_own > 0 THEN
          DELETE FROM `~claims` WHERE name = p_name AND token = v_old AND state IN ('G', 'H');
          SET v_taken = v_taken - v_own, v_holders = v_holders - 1,
            v_window = GREATEST(v_window, (v_old_until - v_us) DIV 1000 + 1);
        END IF;
        IF v_flags & 64 THEN
          CALL `~number`(p_name, v_ticket, v_permits);
        END IF;
        UPDATE `~claims` SET state = 'G', token = v_first, tokens = v_tokens, holds = v_first, since = v_us,
          claim_window = v_window, until = v_us + v_window * 1000 WHERE name = p_name AND ticket = v_ticket;
        SET v_soon = IF(v_holders > (v_x_owner <> ''), LEAST(v_soon, v_us + v_window * 1000), v_us + v_window * 1000),
          v_x_ttl = IF(v_holders > 0, GREATEST(v_x_ttl, v_ttl, v_window), GREATEST(v_ttl, v_window)),
          v_taken = v_taken + v_permits, v_holders = v_holders + 1, v_waiters = v_waiters - 1,
          v_token = v_first + v_tokens - 1, v_head = v_ticket + 1, v_changed = TRUE, v_granted = v_granted + 1,
          io_rings = CONCAT_WS(',', NULLIF(io_rings, ''), v_client);
      END IF;
    END IF;
  END WHILE;
  IF v_changed THEN
    UPDATE `~names` SET taken = v_taken, holders = v_holders, waiters = v_waiters, token = v_token,
      head = v_head, soon = v_soon, closed = v_closed, x_owner = v_x_owner, x_until = v_x_until, x_ttl = v_x_ttl,
      x_delay = v_x_delay WHERE name = p_name;
  END IF;
  IF v_granted > 0 AND v_waiters = 0 AND v_holders > v_granted THEN -- those that hold beside the winners
    CALL `~want`(p_name, 'U', '', io_rings);
  END IF;
END
