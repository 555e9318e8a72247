-- SPDX-License-Identifier: MIT
--
-- Renew leases, of many names at once, in one transaction, in the order of names. p_list: of each, the length of the name (2
-- bytes), the name, the owner (16), the ttl (8). Never re-creates: a lease whose end has passed is lost. The answer has
-- one character for each: 1 or 0; 3 is 1, and others wait for it (renew_one). The new end may be earlier than the old one. Of several leases, one whose row is locked does
-- not delay the rest: its answer is 2, and it is renewed alone.
CREATE PROCEDURE `~renew` (IN p_list LONGBLOB)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_at, v_len INT DEFAULT 1;
  DECLARE v_name VARBINARY(512);
  DECLARE v_owner VARBINARY(16);
  DECLARE v_ttl BIGINT DEFAULT 0;
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
      v_ttl = CONV(HEX(SUBSTRING(p_list, v_at + 18 + v_len, 8)), 16, 10);
    SET v_at = v_at + 26 + v_len, v_found = 1;
    IF LENGTH(p_list) > 26 + v_len THEN
      SELECT COUNT(*) INTO v_found FROM `~names` WHERE name = v_name FOR UPDATE SKIP LOCKED;
    END IF;
    IF v_found = 0 THEN
      SELECT 2 * COUNT(*) INTO v_found FROM `~names` WHERE name = v_name;
    ELSE
      CALL `~renew_one`(v_name, v_owner, v_ttl, v_found);
    END IF;
    SET v_result = CONCAT(v_result, v_found);
  END WHILE;
  COMMIT;
  SELECT v_result;
END
