-- SPDX-License-Identifier: MIT
--
-- Remove what has been idle and expired for long, of the next few names (a mark moves round), so that no cron job is needed. The row
-- of a name is removed only when the clock has passed its last token by an hour: a new row then begins above it.
CREATE PROCEDURE `~sweep` (IN p_limit INT)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_name, v_from VARBINARY(512) DEFAULT '';
  DECLARE v_none BOOL DEFAULT FALSE;
  DECLARE v_us BIGINT DEFAULT @NOW@;
  DECLARE v_old BIGINT DEFAULT 0;
  DECLARE v_count, v_left INT DEFAULT 0;
  DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  SET v_old = v_us - 3600000000, v_left = 8 * p_limit;
  SELECT bytes INTO v_from FROM `~meta` WHERE item = 'sweep';
  SET v_none = FALSE;
  WHILE v_left > 0 AND NOT v_none DO
    SELECT name INTO v_name FROM `~names` WHERE name > v_from ORDER BY name LIMIT 1;
    IF v_none THEN
      SET v_from = '';
    ELSE
      SET v_from = v_name, v_left = v_left - 1;
      START TRANSACTION;
      CALL `~settle`(v_name, v_rings);
      DELETE FROM `~claims` WHERE name = v_name AND state = 'L' AND until < v_us;
      SET v_count = v_count + ROW_COUNT();
      DELETE FROM `~names` WHERE name = v_name AND holders = 0 AND waiters = 0 AND token < v_old AND closed < v_old
        AND NOT EXISTS (SELECT 1 FROM `~claims` WHERE name = v_name);
      IF ROW_COUNT() > 0 THEN
        SET v_count = v_count + 1;
        DELETE FROM `~slots` WHERE name = v_name;
      END IF;
      COMMIT;
      CALL `~ring`(v_rings);
      SET v_rings = '', v_none = FALSE;
    END IF;
  END WHILE;
  DELETE FROM `~clients` WHERE until < v_old LIMIT 100;
  SET v_count = v_count + ROW_COUNT();
  DELETE FROM `~letters` WHERE until < v_old LIMIT 100;
  SET v_count = v_count + ROW_COUNT();
  DELETE FROM `~watches` WHERE until < v_old LIMIT 100;
  SET v_count = v_count + ROW_COUNT();
  DELETE FROM `~cells` WHERE until > 0 AND until < v_old AND version < v_old LIMIT 100;
  SET v_count = v_count + ROW_COUNT();
  INSERT INTO `~meta` (item, number, bytes) VALUES ('sweep', 0, v_from) ON DUPLICATE KEY UPDATE bytes = v_from;
  SELECT v_count;
END
