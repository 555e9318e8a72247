-- SPDX-License-Identifier: MIT
--
-- Notify this client when one of these cells gets another version; the mark lasts for a window. p_list: of each, the length of the name
-- (2 bytes), the name, the version (8). The answer: of each "version,ms left or -1;". The mark is written before the read, and a session
-- that changes a cell reads the marks after its commit: so one of the two sees the other.
CREATE PROCEDURE `~cell_look` (IN p_client BIGINT, IN p_window BIGINT, IN p_list LONGBLOB)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_at, v_len INT DEFAULT 1;
  DECLARE v_name VARBINARY(512);
  DECLARE v_us, v_until BIGINT DEFAULT 0;
  DECLARE v_result LONGTEXT CHARACTER SET ascii DEFAULT '';

  SET v_us = @NOW@, v_until = v_us + p_window * 1000;
  WHILE v_at < LENGTH(p_list) DO
    SET v_len = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
    SET v_name = SUBSTRING(p_list, v_at + 2, v_len), v_at = v_at + 10 + v_len;
    INSERT INTO `~watches` (name, client, until) VALUES (v_name, p_client, v_until) ON DUPLICATE KEY UPDATE until = v_until;
    SET v_us = @NOW@;
    SET v_result = CONCAT(v_result, COALESCE((SELECT CONCAT(version, ',', IF(until = 0, -1, 1 + (until - v_us) DIV 1000))
      FROM `~cells` WHERE name = v_name AND (until = 0 OR until >= v_us)), '0,-1'), ';');
  END WHILE;
  SELECT v_result;
END
