-- SPDX-License-Identifier: MIT
--
-- Adopt a detached lease by its owner's id and its first token, and renew it. Only detached leases can be adopted: a live process
-- keeps its own.
CREATE PROCEDURE `~adopt` (IN p_name VARBINARY(512), IN p_owner VARBINARY(16), IN p_token BIGINT, IN p_ttl BIGINT)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_us, v_ticket BIGINT DEFAULT 0;
  DECLARE v_x_owner VARBINARY(16) DEFAULT '';
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  START TRANSACTION;
  SELECT x_owner INTO v_x_owner FROM `~names` WHERE name = p_name FOR UPDATE;
  SET v_us = @NOW@;
  IF v_x_owner = p_owner THEN
    UPDATE `~names` SET x_ttl = IF(p_ttl > 0, p_ttl, x_ttl), x_until = v_us + x_ttl * 1000
      WHERE name = p_name AND x_until >= v_us AND x_token = p_token AND x_flags & 2;
  ELSE
    UPDATE `~claims` FORCE INDEX (owner) SET ttl = IF(p_ttl > 0, p_ttl, ttl), until = v_us + ttl * 1000, state = 'H'
      WHERE owner = p_owner AND name = p_name AND state IN ('G', 'H') AND until >= v_us AND token = p_token AND flags & 2;
    UPDATE `~names` SET soon = LEAST(soon, COALESCE((SELECT MIN(until) FROM `~claims`
        WHERE name = p_name AND state IN ('G', 'H')), soon)), x_ttl = GREATEST(x_ttl, p_ttl) WHERE name = p_name AND x_owner = '';
  END IF;
  COMMIT;
  SELECT x_token, x_tokens, mode, capacity, capacity AS permits, x_ttl, x_delay FROM `~names`
      WHERE name = p_name AND x_owner = p_owner AND x_until >= v_us AND x_token = p_token AND x_flags & 2
    UNION ALL SELECT c.token, c.tokens, n.mode, n.capacity, c.permits, c.ttl, c.delay
      FROM `~claims` c JOIN `~names` n ON n.name = c.name
      WHERE c.owner = p_owner AND c.name = p_name AND c.state = 'H' AND c.until >= v_us AND c.token = p_token AND c.flags & 2;
END
