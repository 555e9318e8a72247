-- SPDX-License-Identifier: MIT
--
-- The size of a semaphore from now on, whatever capacity claims ask for, until it is set again; 0: as claims say, once nobody holds or
-- waits. R done; M it is in use as another kind, which is told. Nobody loses anything: waiters that fit now are granted, in their order, in
-- this transaction; if more is taken than the new size, nothing is granted until enough was given back (settle).
--
-- The claim that says so (00_tables.sql) never ends: so the name's row is never free for one that does not look. A lease in the name's row
-- becomes a claim: it has all of the name, which is a word that the size changes.
CREATE PROCEDURE `~resize` (IN p_name VARBINARY(512), IN p_capacity INT)
  MODIFIES SQL DATA SQL SECURITY INVOKER
resize_it: BEGIN
  DECLARE v_mode, v_capacity, v_holders, v_waiters INT DEFAULT 0;
  DECLARE v_rings TEXT CHARACTER SET ascii DEFAULT '';
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    ROLLBACK;
    RESIGNAL;
  END;

  START TRANSACTION;
  IF p_capacity > 0 THEN
    CALL `~fresh`(p_name);
  END IF;
  CALL `~settle`(p_name, v_rings);
  SELECT COALESCE(MAX(mode), 0), COALESCE(MAX(capacity), 0), COALESCE(MAX(holders), 0), COALESCE(MAX(waiters), 0)
    INTO v_mode, v_capacity, v_holders, v_waiters FROM `~names` WHERE name = p_name FOR UPDATE;
  IF v_mode <> 2 AND (v_holders > 0 OR v_waiters > 0) THEN
    COMMIT;
    CALL `~ring`(v_rings);
    SELECT 'M', v_mode, v_capacity;
    LEAVE resize_it;
  ELSEIF p_capacity = 0 THEN
    DELETE FROM `~claims` WHERE owner = x'00000000000000000000000000000000' AND name = p_name;
    UPDATE `~names` SET holders = holders - ROW_COUNT() WHERE name = p_name;
  ELSE
    INSERT INTO `~claims` (name, ticket, owner, client, state, permits, flags, token, tokens, holds, tid, ttl, delay, claim_window,
        since, until, label)
      SELECT name, ticket + 1, x_owner, x_client, 'H', taken, x_flags, x_token, x_tokens, x_holds, x_tid, x_ttl, x_delay, 0, x_since,
        x_until, x_label FROM `~names` WHERE name = p_name AND x_owner <> '';
    UPDATE `~names` SET soon = IF(x_owner <> '', x_until, soon), ticket = ticket + 1, x_owner = '' WHERE name = p_name;
    INSERT INTO `~claims` (name, ticket, owner, client, state, permits, flags, tokens, holds, ttl, delay, claim_window, since, until,
        label)
      SELECT name, ticket + 1, '', 0, 'H', 0, 128, 0, -1, 9007199254740, 0, 0, @NOW@, 9007199254740991, '' FROM `~names`
        WHERE name = p_name AND NOT EXISTS (SELECT 1 FROM `~claims` c FORCE INDEX (owner)
          WHERE c.owner = x'00000000000000000000000000000000' AND c.name = p_name);
    UPDATE `~names` SET soon = IF(holders = 0, 9007199254740991, soon), x_ttl = IF(holders = 0, 0, x_ttl), ticket = ticket + 1,
      holders = holders + ROW_COUNT(), mode = 2, capacity = p_capacity WHERE name = p_name;
  END IF;
  CALL `~settle`(p_name, v_rings);
  COMMIT;
  CALL `~ring`(v_rings);
  SELECT 'R', 0, 0;
END
