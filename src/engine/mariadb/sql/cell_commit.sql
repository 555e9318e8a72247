-- SPDX-License-Identifier: MIT
--
-- Several cells in one step, one transaction. p_list, sorted by name: of each the length of the name (2 bytes), the name, the expected
-- version (8; 0: there is none), what to do (8; 0 nothing, 1 write, 2 delete), the length of the bytes (8), the bytes, the ttl in ms (8).
-- The answer: of each "C,version;" if all were done, "V,version;" with what was found if none was.
--
-- First all rows are locked, in the order of their names, so that two commits never wait for each other. A row that is not there cannot
-- be locked: where none is expected, one is made that counts as absent (without bytes, its end is past), and the sweep removes
-- it. The clock is read when all are ours: whether a cell's time is over is decided for all of them at that moment. Versions and deleted
-- rows are those of cell_swap.
CREATE PROCEDURE `~cell_commit` (IN p_list LONGBLOB)
  MODIFIES SQL DATA SQL SECURITY INVOKER
commit_it: BEGIN
  DECLARE v_at, v_len, v_size, v_act, v_pass INT DEFAULT 0;
  DECLARE v_name VARBINARY(512);
  DECLARE v_us, v_expected, v_ttl, v_version, v_until BIGINT DEFAULT 0;
  DECLARE v_none, v_other, v_writes BOOL DEFAULT FALSE;
  DECLARE v_found, v_result, v_rings, v_more LONGTEXT CHARACTER SET ascii DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  START TRANSACTION;
  -- 1: lock; 2: compare; 3: write; 4: whom to tell
  WHILE v_pass < 4 DO
    SET v_pass = v_pass + 1, v_at = 1, v_us = IF(v_pass = 2, @NOW@, v_us);
    WHILE v_at < LENGTH(p_list) DO
      SET v_len = CONV(HEX(SUBSTRING(p_list, v_at, 2)), 16, 10);
      SET v_name = SUBSTRING(p_list, v_at + 2, v_len), v_at = v_at + 2 + v_len;
      SET v_expected = CONV(HEX(SUBSTRING(p_list, v_at, 8)), 16, 10), v_act = CONV(HEX(SUBSTRING(p_list, v_at + 8, 8)), 16, 10),
        v_size = CONV(HEX(SUBSTRING(p_list, v_at + 16, 8)), 16, 10), v_at = v_at + 24;
      SET v_ttl = CONV(HEX(SUBSTRING(p_list, v_at + v_size, 8)), 16, 10);
      IF v_pass = 1 THEN
        IF v_expected = 0 THEN
          INSERT INTO `~cells` (name, version, bytes, until) VALUES (v_name, 0, NULL, 1) ON DUPLICATE KEY UPDATE until = until;
        END IF;
        SELECT version INTO v_version FROM `~cells` WHERE name = v_name FOR UPDATE;
        SET v_writes = v_writes OR v_act > 0;
      ELSEIF v_pass = 2 THEN
        SET v_version = 0;
        SELECT version INTO v_version FROM `~cells` WHERE name = v_name AND (until = 0 OR until >= v_us);
        SET v_other = v_other OR v_version <> v_expected, v_found = CONCAT(v_found, 'V,', v_version, ';'),
          v_result = CONCAT(v_result, 'C,', v_version, ';');
      ELSEIF v_pass = 3 THEN
        SELECT GREATEST(version + 1, v_us) INTO v_version FROM `~cells` WHERE name = v_name;
        SET v_until = IF(v_act = 2, v_us - 1, IF(v_ttl > 0, v_us + v_ttl * 1000, 0));
        IF v_act > 0 THEN
          UPDATE `~cells` SET version = v_version, bytes = IF(v_act = 2, NULL, SUBSTRING(p_list, v_at, v_size)), until = v_until
            WHERE name = v_name;
        END IF;
        SET v_result = CONCAT(v_result, 'C,', IF(v_act = 0, v_expected, IF(v_act = 2, 0, v_version)), ';');
      ELSEIF v_act > 0 THEN
        SELECT COALESCE(GROUP_CONCAT(client), '') INTO v_more FROM `~watches` WHERE name = v_name AND until >= v_us;
        SET v_rings = CONCAT(v_rings, IF(v_rings <> '' AND v_more <> '', ',', ''), v_more);
      END IF;
      SET v_at = v_at + v_size + 8;
    END WHILE;
    IF v_pass = 2 AND (v_other OR NOT v_writes) THEN
      ROLLBACK;
      SELECT IF(v_other, v_found, v_result);
      LEAVE commit_it;
    END IF;
    IF v_pass = 2 THEN
      SET v_result = '';
    ELSEIF v_pass = 3 THEN
      COMMIT; -- a client that begins to wait now reads the new versions
    END IF;
  END WHILE;
  CALL `~ring`(v_rings);
  SELECT v_result;
END
