-- SPDX-License-Identifier: MIT
--
-- The listener: sleep until this client is notified, at most p_seconds; then return all its grants that are not
-- renewed, and all its leases that were broken. p_told: owners (hex) that it knows already. Nothing is missed between
-- the read and the sleep: a KILL QUERY that comes in between ends the sleep before it begins; for one that comes
-- before the read, the grant is committed already.
--
-- It sleeps by waiting for a user lock that another connection of this client holds (p_anchor; if that one dies we
-- wake up, which does no harm). SLEEP() is not used: MariaDB has one mutex for all sessions in it, and killing one of
-- them can block for seconds.
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
