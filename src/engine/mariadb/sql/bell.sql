-- SPDX-License-Identifier: MIT
--
-- Sleep until this client is rung, at most p_seconds; then all that it is granted and has not renewed, and all
-- that was broken. p_told: owners (hex) of which it knows already. Nothing is missed between the look and
-- the sleep: a KILL QUERY that comes in between ends the sleep before it begins, one that comes before the look finds
-- its grant committed.
--
-- To sleep is to wait for a user lock that another connection of this client has for good (p_anchor; if that one
-- dies we wake up, which does no harm). It is not SLEEP(): MariaDB has one mutex for all who are in it, and who
-- kills one of them can be stuck with it for seconds.
CREATE PROCEDURE `~bell` (IN p_client BIGINT, IN p_told LONGTEXT CHARACTER SET ascii,
    IN p_anchor VARCHAR(64) CHARACTER SET ascii, IN p_seconds INT)
  READS SQL DATA SQL SECURITY INVOKER
BEGIN
  IF NOT EXISTS (SELECT 1 FROM `~claims` FORCE INDEX (client)
      WHERE client = p_client AND state IN ('G', 'L') AND LOCATE(LOWER(HEX(owner)), p_told) = 0) THEN
    DO GET_LOCK(p_anchor, p_seconds);
    DO RELEASE_LOCK(p_anchor);
  END IF;
  SELECT state, owner, token, tokens, claim_window FROM `~claims` FORCE INDEX (client)
    WHERE client = p_client AND state IN ('G', 'L');
END
