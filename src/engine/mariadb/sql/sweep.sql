-- SPDX-License-Identifier: MIT
--
-- Remove what has been idle or expired for a while, of the next names (a mark moves round), so that no cron job is needed. A client sweeps
-- about as often as it makes names (sql/sweep.c).
--
-- The row of a name keeps its last token for a minute, and is never removed while anybody holds or waits. The row of the empty name then
-- keeps the time up to which tokens may have been removed, and a name that is made again begins above it (fresh), also if the clock was set
-- back meanwhile. What is simply free goes in one statement. Slots and claims of a name change only with its row locked, and a change
-- since the statement began has left a later token or a holder in it.
CREATE PROCEDURE `~sweep` (IN p_limit INT)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_name, v_from, v_to VARBINARY(512) DEFAULT '';
  DECLARE v_none BOOL DEFAULT FALSE;
  DECLARE v_us BIGINT DEFAULT @NOW@;
  DECLARE v_old, v_idle BIGINT DEFAULT 0;
  DECLARE v_count, v_names, v_some INT DEFAULT 0;
  DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_none = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  SET v_old = v_us - 3600000000, v_idle = v_us - 60000000, v_names = 8 * p_limit;
  SELECT bytes INTO v_from FROM `~meta` WHERE item = 'sweep';
  SELECT COUNT(*), COALESCE(MAX(name), '') INTO v_some, v_to
    FROM (SELECT name FROM `~names` WHERE name > v_from ORDER BY name LIMIT v_names) AS few;
  START TRANSACTION;
  DELETE FROM `~names` WHERE name > v_from AND name <= v_to AND holders = 0 AND waiters = 0 AND token < v_idle AND closed < v_idle
    AND NOT EXISTS (SELECT 1 FROM `~claims` c WHERE c.name = `~names`.name)
    AND NOT EXISTS (SELECT 1 FROM `~slots` s WHERE s.name = `~names`.name);
  SET v_count = ROW_COUNT();
  IF v_count > 0 THEN
    INSERT INTO `~names` (name, token) VALUES ('', v_idle) ON DUPLICATE KEY UPDATE token = GREATEST(token, v_idle);
  END IF;
  COMMIT;

  SET v_name = v_from, v_none = FALSE;
  WHILE NOT v_none DO
    SELECT name INTO v_name FROM `~names` n WHERE name > v_name AND name <= v_to AND token < v_idle AND closed < v_idle
      AND (x_owner = '' OR x_until < v_idle) AND (holders = (x_owner <> '') OR soon < v_idle)
      AND (holders > 0 OR waiters > 0 OR EXISTS (SELECT 1 FROM `~slots` s WHERE s.name = n.name)
        OR EXISTS (SELECT 1 FROM `~claims` c WHERE c.name = n.name)) ORDER BY name LIMIT 1;
    IF NOT v_none THEN
      START TRANSACTION;
      CALL `~settle`(v_name, v_rings);
      DELETE FROM `~claims` WHERE name = v_name AND state = 'L' AND until < v_us;
      SET v_count = v_count + ROW_COUNT();
      DELETE FROM `~names` WHERE name = v_name AND holders = 0 AND waiters = 0 AND token < v_idle AND closed < v_idle
        AND NOT EXISTS (SELECT 1 FROM `~claims` WHERE name = v_name);
      IF ROW_COUNT() > 0 THEN
        SET v_count = v_count + 1;
        DELETE FROM `~slots` WHERE name = v_name;
        INSERT INTO `~names` (name, token) VALUES ('', v_idle) ON DUPLICATE KEY UPDATE token = GREATEST(token, v_idle);
      END IF;
      COMMIT;
      CALL `~ring`(v_rings);
      SET v_rings = '', v_none = FALSE;
    END IF;
  END WHILE;
  DELETE FROM `~clients` WHERE until < v_idle LIMIT 100;
  DELETE FROM `~letters` WHERE until < v_idle LIMIT 100;
  DELETE FROM `~watches` WHERE until < v_old LIMIT 100;
  DELETE FROM `~cells` WHERE until > 0 AND until < v_old AND version < v_old LIMIT 100;
  SET v_count = v_count + ROW_COUNT();
  SET v_to = IF(v_some < v_names, '', v_to);
  INSERT INTO `~meta` (item, number, bytes) VALUES ('sweep', 0, v_to) ON DUPLICATE KEY UPDATE bytes = v_to;
  SELECT v_count;
END
