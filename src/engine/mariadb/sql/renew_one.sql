-- SPDX-License-Identifier: MIT
--
-- Renew one lease (renew, refill), inside the caller's transaction. o_found: 1 or 0; 3 is 1, and others wait for it (flag 16).
CREATE PROCEDURE `~renew_one` (IN p_name VARBINARY(512), IN p_owner VARBINARY(16), IN p_ttl BIGINT, OUT o_found INT)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_us BIGINT DEFAULT 0;
  DECLARE v_watched INT DEFAULT 0;

  SELECT COUNT(*) INTO o_found FROM `~names` WHERE name = p_name AND x_owner = p_owner FOR UPDATE;
  SET v_us = @NOW@;
  IF o_found > 0 THEN
    SELECT COUNT(*), COALESCE(MAX(x_flags & 16), 0) INTO o_found, v_watched
      FROM `~names` WHERE name = p_name AND x_owner = p_owner AND x_until >= v_us;
    UPDATE `~names` SET x_until = v_us + p_ttl * 1000, x_ttl = p_ttl
      WHERE name = p_name AND x_owner = p_owner AND x_until >= v_us;
  ELSE
    SELECT COUNT(*) INTO o_found FROM `~names` WHERE name = p_name FOR UPDATE;
    SET v_us = @NOW@;
    SELECT COUNT(*), COALESCE(MAX(flags & 16), 0) INTO o_found, v_watched FROM `~claims` FORCE INDEX (owner)
      WHERE owner = p_owner AND name = p_name AND state IN ('G', 'H') AND until >= v_us FOR UPDATE;
    IF o_found > 0 THEN
      UPDATE `~claims` FORCE INDEX (owner) SET until = v_us + p_ttl * 1000, ttl = p_ttl, state = 'H'
        WHERE owner = p_owner AND name = p_name AND state IN ('G', 'H');
      UPDATE `~names` SET soon = LEAST(soon, v_us + p_ttl * 1000), x_ttl = GREATEST(x_ttl, p_ttl) WHERE name = p_name;
    END IF;
  END IF;
  IF o_found = 1 AND v_watched THEN
    SELECT IF(EXISTS (SELECT 1 FROM `~claims` w LEFT JOIN `~clients` c ON c.client = w.client WHERE w.name = p_name AND w.state = 'W'
      AND GREATEST(COALESCE(c.until, 0), w.since + w.claim_window * 1000) >= v_us), 3, 1) INTO o_found;
  END IF;
END
