-- SPDX-License-Identifier: MIT
--
-- A block of tokens above all that the name ever had, for mode=row and mode=session, committed. No row: none is left. The first statement is the
-- common case, a transaction of its own: the name has a row.
CREATE PROCEDURE `~token` (IN p_name VARBINARY(512), IN p_tokens INT)
  MODIFIES SQL DATA SQL SECURITY INVOKER
token_it: BEGIN
  DECLARE v_us BIGINT DEFAULT @NOW@;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;
  UPDATE `~names` SET token = LAST_INSERT_ID(GREATEST(token + 1, v_us)) + p_tokens - 1
    WHERE name = p_name AND GREATEST(token + 1, v_us) <= 9007199254740992 - p_tokens;
  IF ROW_COUNT() > 0 THEN
    SELECT LAST_INSERT_ID();
    LEAVE token_it;
  END IF;
  START TRANSACTION;
  CALL `~fresh`(p_name);
  UPDATE `~names` SET token = LAST_INSERT_ID(GREATEST(token + 1, v_us)) + p_tokens - 1
    WHERE name = p_name AND GREATEST(token + 1, v_us) <= 9007199254740992 - p_tokens;
  IF ROW_COUNT() > 0 THEN
    COMMIT;
    SELECT LAST_INSERT_ID();
  ELSE
    COMMIT;
  END IF;
END
