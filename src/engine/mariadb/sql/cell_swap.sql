-- SPDX-License-Identifier: MIT
--
-- Compare and swap, one statement. A version is above the one before and not below the clock; a cell that was deleted, or whose time is over,
-- stays as a row without bytes until the clock is an hour past its version, so that no version comes twice. Whether it is over
-- is asked once the row is ours: we may have waited for it, and its time may have ended meanwhile.
CREATE PROCEDURE `~cell_swap` (IN p_name VARBINARY(512), IN p_version BIGINT, IN p_bytes LONGBLOB, IN p_ttl BIGINT)
  MODIFIES SQL DATA SQL SECURITY INVOKER
swap: BEGIN
  DECLARE v_us BIGINT DEFAULT @NOW@;
  DECLARE v_until, v_version BIGINT DEFAULT 0;
  DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
  DECLARE v_done INT DEFAULT 0;

  SET v_until = IF(p_bytes IS NULL, v_us - 1, IF(p_ttl > 0, v_us + p_ttl * 1000, 0));
  IF p_version = 0 AND p_bytes IS NULL THEN
    SET v_done = 0;
  ELSEIF p_version = 0 THEN
    INSERT INTO `~cells` (name, version, bytes, until) VALUES (p_name, LAST_INSERT_ID(v_us), p_bytes, v_until)
      ON DUPLICATE KEY UPDATE
        version = IF(until > 0 AND until < v_us, LAST_INSERT_ID(GREATEST(version + 1, v_us)), version),
        bytes = IF(until > 0 AND until < v_us, p_bytes, bytes),
        until = IF(until > 0 AND until < v_us, v_until, until);
    SET v_done = ROW_COUNT();
  ELSE
    UPDATE `~cells` SET version = LAST_INSERT_ID(GREATEST(version + 1, v_us)), bytes = p_bytes, until = v_until
      WHERE name = p_name AND version = p_version AND (until = 0 OR until >= @NOW@);
    SET v_done = ROW_COUNT();
  END IF;
  SET v_version = LAST_INSERT_ID();
  IF v_done = 0 THEN
    SET v_version = COALESCE((SELECT version FROM `~cells` WHERE name = p_name AND (until = 0 OR until >= v_us)), 0);
    IF p_version = 0 AND p_bytes IS NULL AND v_version = 0 THEN
      SELECT 'C', 0;
    ELSE
      SELECT 'V', v_version;
    END IF;
    LEAVE swap;
  END IF;
  SELECT COALESCE(GROUP_CONCAT(client), '') INTO v_rings FROM `~watches` WHERE name = p_name AND until >= v_us;
  CALL `~ring`(v_rings);
  SELECT 'C', IF(p_bytes IS NULL, 0, v_version);
END
