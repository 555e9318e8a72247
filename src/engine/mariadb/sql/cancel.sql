-- SPDX-License-Identifier: MIT
--
-- Give up waiting. If the grant came first the answer is that grant, with its window from now on: the caller keeps it or
-- releases it, and either way nothing is left behind.
CREATE PROCEDURE `~cancel` (IN p_name VARBINARY(512), IN p_owner VARBINARY(16))
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_us BIGINT DEFAULT 0;
  DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
  DECLARE v_none BOOL DEFAULT FALSE;
  DECLARE v_verdict, v_state CHAR(1) DEFAULT 'N';
  DECLARE v_x_owner VARBINARY(16) DEFAULT '';
  DECLARE v_until, v_ticket, v_token, v_window BIGINT DEFAULT 0;
  DECLARE v_tokens INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  START TRANSACTION;
  SELECT x_owner, x_until, x_token, x_tokens INTO v_x_owner, v_until, v_token, v_tokens
    FROM `~names` WHERE name = p_name FOR UPDATE;
  SET v_us = @NOW@;
  IF NOT v_none AND v_x_owner = p_owner THEN
    SET v_verdict = IF(v_until >= v_us, 'G', 'N');
  ELSEIF NOT v_none THEN
    SELECT state, ticket, token, tokens, until, claim_window
      INTO v_state, v_ticket, v_token, v_tokens, v_until, v_window
      FROM `~claims` FORCE INDEX (owner) WHERE owner = p_owner AND name = p_name FOR UPDATE;
    IF NOT v_none AND v_state = 'W' THEN
      DELETE FROM `~claims` WHERE name = p_name AND ticket = v_ticket;
      UPDATE `~names` SET waiters = waiters - 1 WHERE name = p_name;
      IF (SELECT waiters = 0 AND holders > 0 FROM `~names` WHERE name = p_name) THEN
        CALL `~want`(p_name, 'U', '', v_rings);
      END IF;
      SET v_verdict = 'C';
    ELSEIF NOT v_none AND v_state IN ('G', 'H') AND v_until >= v_us THEN
      SET v_until = GREATEST(v_until, v_us + v_window * 1000), v_verdict = 'G';
      UPDATE `~claims` SET until = v_until WHERE name = p_name AND ticket = v_ticket;
    END IF;
  END IF;
  IF v_verdict <> 'G' THEN
    CALL `~settle`(p_name, v_rings);
  END IF;
  COMMIT;
  CALL `~ring`(v_rings);
  IF v_verdict = 'G' THEN
    SELECT 'G', v_token, v_tokens, (v_until - v_us) DIV 1000;
  ELSE
    SELECT v_verdict, 0, 0, 0;
  END IF;
END
