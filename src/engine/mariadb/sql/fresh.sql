-- SPDX-License-Identifier: MIT
--
-- Make the row of a name, inside the caller's transaction. If it was removed before (sweep), it begins above all tokens that it had: the row of
-- the empty name, which nobody can lock, keeps the time up to which tokens may have been removed. It is read after the row was made:
-- that waits for the transaction that removed the one before it, and what that one said is seen then.
CREATE PROCEDURE `~fresh` (IN p_name VARBINARY(512))
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_floor BIGINT DEFAULT 0;
  INSERT INTO `~names` (name) VALUES (p_name) ON DUPLICATE KEY UPDATE mode = mode;
  SELECT COALESCE(MAX(token), 0) INTO v_floor FROM `~names` WHERE name = '';
  IF v_floor > 0 THEN
    UPDATE `~names` SET token = v_floor WHERE name = p_name AND token < v_floor;
  END IF;
END
