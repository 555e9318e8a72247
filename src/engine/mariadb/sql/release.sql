-- SPDX-License-Identifier: MIT
--
-- End a lease, and hand the name to the next waiter, in the same transaction.
--
-- Decided here: a claim that was handed over itself has all of the name, and the next waiter lives and wants all of it, replaces nobody
-- (claim) and gets no numbers (number). Whatever else
-- there is goes to release_any, which would decide this the same way. The number of statements, and of variables, is what a procedure
-- costs. The next waiter's row is locked before the clock is read, as settle does it, and its bell is rung after the commit (ring).
CREATE PROCEDURE `~release` (IN p_name VARBINARY(512), IN p_owner VARBINARY(16))
  MODIFIES SQL DATA SQL SECURITY INVOKER
release_it: BEGIN
  DECLARE v_us, v_ticket, v_token, v_place, v_window, v_ttl, v_alive, v_first BIGINT DEFAULT 0;
  DECLARE v_capacity, v_permits, v_tokens, v_ahead INT DEFAULT 0;
  DECLARE v_bell BIGINT UNSIGNED;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  START TRANSACTION;
  SELECT c.ticket, n.token, n.head, n.capacity INTO v_ticket, v_token, v_place, v_capacity
    FROM `~names` n STRAIGHT_JOIN `~claims` c FORCE INDEX (owner) ON c.owner = p_owner AND c.name = n.name
    WHERE n.name = p_name AND n.x_owner = '' AND n.waiters > 0 AND n.closed < @NOW@ AND c.state IN ('G', 'H')
      AND c.permits = n.capacity AND n.taken = n.capacity AND c.until BETWEEN @NOW@ AND @NOW@ + GREATEST(c.ttl, c.claim_window) * 1000 FOR UPDATE;
  IF v_ticket > 0 THEN
    SELECT ticket, IF(token > 0 OR flags & 64, 0, permits), claim_window, ttl, tokens, IF(flags & 32, 50000, 1000),
        GREATEST(since + claim_window * 1000, COALESCE((SELECT until FROM `~clients` k WHERE k.client = w.client), 0)),
        IS_USED_LOCK(CONCAT('holdfast.', LOWER(HEX(client))))
      INTO v_place, v_permits, v_window, v_ttl, v_tokens, v_ahead, v_alive, v_bell
      FROM `~claims` w FORCE INDEX (PRIMARY)
      WHERE name = p_name AND ticket >= v_place AND state = 'W' ORDER BY ticket LIMIT 1 FOR UPDATE;
    SET v_us = @NOW@;
    SET v_first = GREATEST(v_token + 1, v_us);
    SET v_tokens = LEAST(v_tokens, GREATEST(1, v_us + v_ahead - v_first));
    IF v_permits = v_capacity AND v_bell IS NOT NULL AND v_alive >= v_us AND v_first <= 9007199254740992 - v_tokens THEN
      UPDATE `~claims` SET state = 'G', token = v_first, tokens = v_tokens, holds = v_first, since = v_us,
        until = v_us + v_window * 1000 WHERE name = p_name AND ticket = v_place;
      UPDATE `~names` SET waiters = waiters - 1, token = v_first + v_tokens - 1, head = v_place + 1, soon = v_us + v_window * 1000,
        x_ttl = GREATEST(v_ttl, v_window) WHERE name = p_name;
      DELETE FROM `~claims` WHERE name = p_name AND ticket = v_ticket;
      COMMIT;
      BEGIN
        DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
        KILL QUERY v_bell;
      END;
      SELECT 'R', 0;
      LEAVE release_it;
    END IF;
  END IF;
  ROLLBACK;
  CALL `~release_any`(p_name, p_owner);
END
