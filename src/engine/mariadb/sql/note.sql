-- SPDX-License-Identifier: MIT
--
-- Which token of its block a lease that was passed on locally holds with now. p_list: of each, the length of the name (2 bytes), the
-- name, the owner (16), the token (8), the thread (8; -1: none, it lingers).
CREATE PROCEDURE `~note` (IN p_list LONGBLOB)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_at, v_len INT DEFAULT 1;
  DECLARE v_name VARBINARY(512);
  DECLARE v_owner VARBINARY(16);
  DECLARE v_token, v_tid BIGINT DEFAULT 0;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  START TRANSACTION;
  WHILE v_at < LENGTH(p_list) DO
    SET v_len = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_name = SUBSTRING(p_list, v_at + 2, v_len), v_owner = SUBSTRING(p_list, v_at + 2 + v_len, 16),
      v_token = CONV(HEX(SUBSTRING(p_list, v_at + 18 + v_len, 8)), 16, 10),
      v_tid = CONV(HEX(SUBSTRING(p_list, v_at + 26 + v_len, 8)), 16, -10);
    SET v_at = v_at + 34 + v_len;
    UPDATE `~names` SET x_holds = v_token, x_tid = v_tid WHERE name = v_name AND x_owner = v_owner;
    IF ROW_COUNT() = 0 THEN
      UPDATE `~claims` FORCE INDEX (owner) SET holds = v_token, tid = v_tid
        WHERE owner = v_owner AND name = v_name AND state IN ('G', 'H');
    END IF;
  END WHILE;
  COMMIT;
END
