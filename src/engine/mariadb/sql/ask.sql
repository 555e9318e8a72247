-- SPDX-License-Identifier: MIT
--
-- Ask the holders of a name: T told; B it is held, and none of them listens; N nobody holds it.
CREATE PROCEDURE `~ask` (IN p_name VARBINARY(512), IN p_text VARBINARY(256))
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_holders INT DEFAULT 0;
  DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  START TRANSACTION;
  CALL `~settle`(p_name, v_rings);
  SELECT COALESCE(MAX(taken), 0) INTO v_holders FROM `~names` WHERE name = p_name FOR UPDATE;
  COMMIT;
  CALL `~ring`(v_rings);
  SET v_rings = '';
  IF v_holders > 0 THEN
    CALL `~want`(p_name, 'A', p_text, v_rings);
    CALL `~ring`(v_rings);
  END IF;
  SELECT IF(v_holders = 0, 'N', IF(v_rings = '', 'B', 'T'));
END
