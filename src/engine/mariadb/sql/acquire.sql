-- SPDX-License-Identifier: MIT
--
-- Acquire, join the queue, or refuse.
--
-- Decided here: others have all of it, nothing of that has expired, and the caller may wait: it joins the queue. Whatever else there is
-- goes to acquire_any, which would decide this the same way. The number of statements, and of variables, is what a procedure costs.
CREATE PROCEDURE `~acquire` (IN p_name VARBINARY(512), IN p_owner VARBINARY(16), IN p_mode INT,
    IN p_capacity INT, IN p_permits INT, IN p_flags INT, IN p_ttl BIGINT, IN p_delay BIGINT, IN p_tokens INT, IN p_wait INT,
    IN p_window BIGINT, IN p_client BIGINT, IN p_label VARBINARY(127))
  MODIFIES SQL DATA SQL SECURITY INVOKER
acquire: BEGIN
  DECLARE v_token, v_next, v_watched BIGINT DEFAULT 0;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  IF p_wait THEN
    START TRANSACTION;
    UPDATE `~names` SET waiters = waiters + 1, ticket = LAST_INSERT_ID(ticket + 1), head = IF(waiters = 1, ticket, head)
      WHERE name = p_name AND taken = capacity AND mode = p_mode AND capacity = p_capacity AND x_owner <> p_owner
        AND token < 9007199254740992 - p_tokens
        AND IF(x_owner <> '', x_until, soon) BETWEEN @NOW@ AND @NOW@ + x_ttl * 1000;
    IF ROW_COUNT() > 0 THEN
      INSERT INTO `~claims` (name, ticket, owner, client, state, permits, flags, tokens, ttl, delay, claim_window, since, label)
        SELECT p_name, LAST_INSERT_ID(), p_owner, p_client, 'W', p_permits, p_flags, p_tokens, p_ttl, p_delay, p_window, @NOW@,
          p_label FROM DUAL
          WHERE NOT EXISTS (SELECT 1 FROM `~claims` FORCE INDEX (owner) WHERE owner = p_owner AND name = p_name);
      IF ROW_COUNT() > 0 THEN
        SELECT token, IF(waiters > 1, 0, GREATEST(1, 1 + (GREATEST(closed, IF(x_owner <> '', x_until, soon)) - @NOW@) DIV 1000)),
            IF(waiters > 1, 0, IF(x_owner <> '', x_flags & 16, EXISTS (SELECT 1 FROM `~claims` WHERE name = p_name
              AND state IN ('G', 'H') AND flags & 16)))
          INTO v_token, v_next, v_watched FROM `~names` WHERE name = p_name;
        IF v_watched THEN
          BEGIN
            DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
            CALL `~want`(p_name, 'W', '', v_rings);
            COMMIT;
            CALL `~ring`(v_rings);
          END;
        END IF;
        COMMIT;
        SELECT 'Q', v_token, 0, v_next, 0;
        LEAVE acquire;
      END IF;
    END IF;
    ROLLBACK;
  END IF;
  CALL `~acquire_any`(p_name, p_owner, p_mode, p_capacity, p_permits, p_flags, p_ttl, p_delay, p_tokens, p_wait, p_window,
    p_client, p_label);
END
