-- SPDX-License-Identifier: MIT
--
-- Renew leases that linger (flag 32), as renew does, and give each a further block of tokens: above every token of the name, and ending
-- at most 50 ms ahead of the clock. p_list: of each, the length of the name (2 bytes), the name, the owner (16), the ttl (8), how many
-- tokens at most (8). The answer: of each "found,token,tokens;", found as renew says it; 0 tokens: there is none.
CREATE PROCEDURE `~refill` (IN p_list LONGBLOB)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_at, v_len INT DEFAULT 1;
  DECLARE v_name VARBINARY(512);
  DECLARE v_owner VARBINARY(16);
  DECLARE v_us, v_ttl, v_tokens, v_last, v_first BIGINT DEFAULT 0;
  DECLARE v_found INT DEFAULT 0;
  DECLARE v_result LONGTEXT CHARACTER SET ascii DEFAULT '';
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  START TRANSACTION;
  WHILE v_at < LENGTH(p_list) DO
    SET v_len = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_name = SUBSTRING(p_list, v_at + 2, v_len), v_owner = SUBSTRING(p_list, v_at + 2 + v_len, 16),
      v_ttl = CONV(HEX(SUBSTRING(p_list, v_at + 18 + v_len, 8)), 16, 10),
      v_tokens = CONV(HEX(SUBSTRING(p_list, v_at + 26 + v_len, 8)), 16, 10);
    SET v_at = v_at + 34 + v_len, v_found = 1, v_last = -1, v_first = 0;
    IF LENGTH(p_list) > 34 + v_len THEN
      SELECT COUNT(*) INTO v_found FROM `~names` WHERE name = v_name FOR UPDATE SKIP LOCKED;
    END IF;
    IF v_found = 0 THEN
      SELECT 2 * COUNT(*) INTO v_found FROM `~names` WHERE name = v_name;
    ELSE
      CALL `~renew_one`(v_name, v_owner, v_ttl, v_found);
    END IF;
    IF v_found IN (1, 3) THEN
      SELECT COALESCE(MAX(token), -1) INTO v_last FROM `~names` WHERE name = v_name AND taken = capacity AND holders = 1
        AND (IF(x_owner = v_owner, x_flags & 32, 0) OR EXISTS (SELECT 1 FROM `~claims` FORCE INDEX (owner)
          WHERE owner = v_owner AND name = v_name AND state = 'H' AND flags & 32));
    END IF;
    IF v_last >= 0 THEN
      SET v_us = @NOW@;
      SET v_first = GREATEST(v_last + 1, v_us);
      SET v_tokens = LEAST(v_tokens, GREATEST(1, v_us + 50000 - v_first));
      IF v_first > 9007199254740992 - v_tokens THEN
        SET v_first = 0;
      ELSE
        UPDATE `~names` SET token = v_first + v_tokens - 1 WHERE name = v_name;
      END IF;
    END IF;
    SET v_result = CONCAT(v_result, v_found, ',', v_first, ',', IF(v_first > 0, v_tokens, 0), ';');
  END WHILE;
  COMMIT;
  SELECT v_result;
END
