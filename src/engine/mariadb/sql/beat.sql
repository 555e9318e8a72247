-- SPDX-License-Identifier: MIT
--
-- We live: our waiters count for one window more. p_list: of each that we think waits, the length of the name (2 bytes),
-- the name, the owner (16). The answer: of each "verdict,token,tokens,ms;".
--
-- Each item is a transaction of its own that needs the lock of the waiter's row: a transaction that grants to it has that lock,
-- and reads the clock after taking it. So a heartbeat holds one lock at a time, and two names never wait for each other.
--
-- "Q" carries the name's last token as it was before that look. A waiter may have been granted before, expired, and been queued
-- again by a late copy of its acquire; the listener's answer with that grant may still be under way. Its token is not larger,
-- or it was granted after this call was sent, and then its window counts from a send that was before it.
CREATE PROCEDURE `~beat` (IN p_client BIGINT, IN p_window BIGINT, IN p_list LONGBLOB)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_at, v_len INT DEFAULT 1;
  DECLARE v_name VARBINARY(512);
  DECLARE v_owner VARBINARY(16);
  DECLARE v_none BOOL DEFAULT FALSE;
  DECLARE v_state CHAR(1);
  DECLARE v_us, v_ticket, v_token, v_until, v_next, v_last BIGINT DEFAULT 0;
  DECLARE v_tokens INT DEFAULT 0;
  DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
  DECLARE v_result LONGTEXT CHARACTER SET ascii DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;

  SET v_us = @NOW@ + p_window * 1000;
  INSERT INTO `~clients` (client, until) VALUES (p_client, v_us) ON DUPLICATE KEY UPDATE until = v_us;
  DELETE FROM `~letters` WHERE client = p_client AND until < @NOW@;
  WHILE v_at < LENGTH(p_list) DO
    SET v_len = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_name = SUBSTRING(p_list, v_at + 2, v_len), v_owner = SUBSTRING(p_list, v_at + 2 + v_len, 16);
    SET v_at = v_at + 18 + v_len, v_next = 0, v_last = 0;
    SELECT token INTO v_last FROM `~names` WHERE name = v_name;
    SET v_none = FALSE;
    SELECT state, ticket, token, tokens, until INTO v_state, v_ticket, v_token, v_tokens, v_until
      FROM `~claims` FORCE INDEX (owner) WHERE owner = v_owner AND name = v_name FOR UPDATE;
    IF v_none THEN
      SET v_none = FALSE, v_state = 'G';
      SELECT x_token, x_tokens, x_until INTO v_token, v_tokens, v_until
        FROM `~names` WHERE name = v_name AND x_owner = v_owner;
    END IF;
    SET v_us = @NOW@;
    IF v_none OR v_state = 'L' OR (v_state <> 'W' AND v_until < v_us) THEN
      SET v_result = CONCAT(v_result, 'N,0,0,0;');
    ELSEIF v_state <> 'W' THEN
      SET v_result = CONCAT(v_result, 'G,', v_token, ',', v_tokens, ',', (v_until - v_us) DIV 1000, ';');
    ELSE
      -- An end that is too far ahead is handled at once: the clock was set back, and every later check would find it just as
      -- far ahead. The first live waiter rechecks the name; if it does not, the next one that finds it overdue does.
      SELECT IF(closed >= v_us, IF(closed > v_us + x_delay * 1000, v_us, closed), IF(soon_end > v_us + x_ttl * 1000, v_us, soon_end))
        INTO v_next FROM (SELECT closed, x_delay, x_ttl, LEAST(IF(x_owner <> '', x_until, 9007199254740992),
          IF(holders > (x_owner <> ''), soon, 9007199254740992)) AS soon_end FROM `~names` WHERE name = v_name) AS n;
      IF v_next + 1000000 >= v_us AND EXISTS (SELECT 1 FROM `~claims` w LEFT JOIN `~clients` c ON c.client = w.client
          WHERE w.name = v_name AND w.ticket < v_ticket AND w.state = 'W' AND
            GREATEST(COALESCE(c.until, 0), w.since + w.claim_window * 1000) >= v_us) THEN
        SET v_next = 0;
      ELSE
        SET v_next = GREATEST(1, 1 + (v_next - v_us) DIV 1000), v_rings = '';
        CALL `~want`(v_name, 'W', '', v_rings);
        CALL `~ring`(v_rings);
      END IF;
      SET v_result = CONCAT(v_result, 'Q,', v_last, ',0,', v_next, ';');
    END IF;
  END WHILE;
  SELECT v_result;
END
