-- SPDX-License-Identifier: MIT
--
-- A block of tokens above all that the name ever had, for mode=row and mode=session: one statement, committed. No row: none is left.
CREATE PROCEDURE `~token` (IN p_name VARBINARY(512), IN p_tokens INT)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_us BIGINT DEFAULT @NOW@;
  INSERT INTO `~names` (name, token) VALUES (p_name, LAST_INSERT_ID(v_us) + p_tokens - 1)
    ON DUPLICATE KEY UPDATE token = IF(GREATEST(token + 1, v_us) <= 9007199254740992 - p_tokens,
      LAST_INSERT_ID(GREATEST(token + 1, v_us)) + p_tokens - 1, token);
  IF ROW_COUNT() > 0 THEN
    SELECT LAST_INSERT_ID();
  END IF;
END
