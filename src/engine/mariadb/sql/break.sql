-- SPDX-License-Identifier: MIT
--
-- End exactly the lease that holds with this token now, whoever owns it; of one that lingers (flag 32) any of its tokens will do. That is an unclean end: its lock delay runs from now. A
-- claim in state L stays for its owner's listener; sweep removes it.
CREATE PROCEDURE `~break` (IN p_name VARBINARY(512), IN p_token BIGINT)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_us, v_x_holds, v_x_delay, v_x_client, v_x_until, v_ticket, v_client, v_delay, v_x_flags, v_x_token, v_token
    BIGINT DEFAULT 0;
  DECLARE v_x_owner VARBINARY(16) DEFAULT '';
  DECLARE v_permits INT DEFAULT 0;
  DECLARE v_none BOOL DEFAULT FALSE;
  DECLARE v_verdict CHAR(1) DEFAULT 'N';
  DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  START TRANSACTION;
  CALL `~settle`(p_name, v_rings);
  SELECT x_owner, x_holds, x_client, x_delay, x_flags, x_token, token
    INTO v_x_owner, v_x_holds, v_client, v_delay, v_x_flags, v_x_token, v_token
    FROM `~names` WHERE name = p_name FOR UPDATE;
  SET v_us = @NOW@;
  IF NOT v_none AND v_x_owner <> '' THEN
    IF v_x_holds = p_token OR (v_x_flags & 32 AND p_token BETWEEN v_x_token AND v_token) THEN
      SET v_verdict = 'B';
      INSERT INTO `~claims` (name, ticket, owner, client, state, permits, flags, token, tokens, ttl, delay, claim_window, since,
          until, label)
        SELECT name, ticket + 1, x_owner, x_client, 'L', 0, x_flags, x_token, x_tokens, x_ttl, x_delay, 0, v_us,
          v_us + 60000000, x_label FROM `~names` WHERE name = p_name;
      UPDATE `~names` SET ticket = ticket + 1, x_owner = '', taken = 0, holders = 0 WHERE name = p_name;
    END IF;
  ELSEIF NOT v_none THEN
    SELECT ticket, client, delay, permits INTO v_ticket, v_client, v_delay, v_permits
      FROM `~claims` WHERE name = p_name AND state IN ('G', 'H')
        AND (holds = p_token OR (flags & 32 AND p_token BETWEEN token AND v_token)) LIMIT 1 FOR UPDATE;
    IF NOT v_none THEN
      SET v_verdict = 'B';
      UPDATE `~claims` SET state = 'L', until = v_us + 60000000 WHERE name = p_name AND ticket = v_ticket;
      UPDATE `~names` SET taken = taken - v_permits, holders = holders - 1 WHERE name = p_name;
    END IF;
  END IF;
  IF v_verdict = 'B' THEN
    IF v_delay > 0 THEN
      UPDATE `~names` SET closed = GREATEST(closed, v_us + v_delay * 1000), x_delay = GREATEST(x_delay, v_delay)
        WHERE name = p_name;
    END IF;
    CALL `~settle`(p_name, v_rings);
    SET v_rings = CONCAT_WS(',', NULLIF(v_rings, ''), v_client);
  END IF;
  COMMIT;
  CALL `~ring`(v_rings);
  SELECT v_verdict;
END
