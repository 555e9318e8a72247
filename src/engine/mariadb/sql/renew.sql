-- SPDX-License-Identifier: MIT
--
-- Renew leases, of many names at once, in one transaction, in the order of names. p_list: of each, the length of the name (2
-- bytes), the name, the owner (16), the ttl (8). Never re-creates: a lease whose end has passed is lost. The answer has
-- one character for each: 1 or 0; 3 is 1, and others wait for it (of those that asked to know: flag 16). The new end may be earlier than the old one. Of several leases, one whose row is locked does
-- not delay the rest: its answer is 2, and it is renewed alone.
CREATE PROCEDURE `~renew` (IN p_list LONGBLOB)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_at, v_len INT DEFAULT 1;
  DECLARE v_name VARBINARY(512);
  DECLARE v_owner VARBINARY(16);
  DECLARE v_us, v_ttl BIGINT DEFAULT 0;
  DECLARE v_found, v_watched INT DEFAULT 0;
  DECLARE v_result LONGTEXT CHARACTER SET ascii DEFAULT '';
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  START TRANSACTION;
  WHILE v_at < LENGTH(p_list) DO
    SET v_len = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_name = SUBSTRING(p_list, v_at + 2, v_len), v_owner = SUBSTRING(p_list, v_at + 2 + v_len, 16),
      v_ttl = CONV(HEX(SUBSTRING(p_list, v_at + 18 + v_len, 8)), 16, 10);
    SET v_at = v_at + 26 + v_len, v_found = 1, v_watched = 0;
    IF LENGTH(p_list) > 26 + v_len THEN
      SELECT COUNT(*) INTO v_found FROM `~names` WHERE name = v_name FOR UPDATE SKIP LOCKED;
    END IF;
    IF v_found = 0 THEN
      SELECT 2 * COUNT(*) INTO v_found FROM `~names` WHERE name = v_name;
    ELSE
      SELECT COUNT(*) INTO v_found FROM `~names` WHERE name = v_name AND x_owner = v_owner FOR UPDATE;
      SET v_us = @NOW@;
      IF v_found > 0 THEN
        SELECT COUNT(*), COALESCE(MAX(x_flags & 16), 0) INTO v_found, v_watched
          FROM `~names` WHERE name = v_name AND x_owner = v_owner AND x_until >= v_us;
        UPDATE `~names` SET x_until = v_us + v_ttl * 1000, x_ttl = v_ttl
          WHERE name = v_name AND x_owner = v_owner AND x_until >= v_us;
      ELSE
        SELECT COUNT(*) INTO v_found FROM `~names` WHERE name = v_name FOR UPDATE;
        SET v_us = @NOW@;
        SELECT COUNT(*), COALESCE(MAX(flags & 16), 0) INTO v_found, v_watched FROM `~claims` FORCE INDEX (owner)
          WHERE owner = v_owner AND name = v_name AND state IN ('G', 'H') AND until >= v_us FOR UPDATE;
        IF v_found > 0 THEN
          UPDATE `~claims` FORCE INDEX (owner) SET until = v_us + v_ttl * 1000, ttl = v_ttl, state = 'H'
            WHERE owner = v_owner AND name = v_name AND state IN ('G', 'H');
          UPDATE `~names` SET soon = LEAST(soon, v_us + v_ttl * 1000), x_ttl = GREATEST(x_ttl, v_ttl) WHERE name = v_name;
        END IF;
      END IF;
    END IF;
    IF v_found = 1 AND v_watched THEN
      SELECT IF(EXISTS (SELECT 1 FROM `~claims` w LEFT JOIN `~clients` c ON c.client = w.client WHERE w.name = v_name AND w.state = 'W'
        AND GREATEST(COALESCE(c.until, 0), w.since + w.claim_window * 1000) >= v_us), 3, 1) INTO v_found;
    END IF;
    SET v_result = CONCAT(v_result, v_found);
  END WHILE;
  COMMIT;
  SELECT v_result;
END
