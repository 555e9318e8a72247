-- SPDX-License-Identifier: MIT
--
-- The listener (bell) of a client that holds, or waits for, something that it watches: it is told its letters too, and by g instead of G that
-- others wait behind a grant. Columns: what, the number by which the client knows it, token, tokens, window, owner, words.
CREATE PROCEDURE `~hear` (IN p_client BIGINT, IN p_told LONGTEXT CHARACTER SET ascii,
    IN p_anchor VARCHAR(64) CHARACTER SET ascii, IN p_seconds INT)
  READS SQL DATA SQL SECURITY INVOKER
BEGIN
  IF NOT EXISTS (SELECT 1 FROM `~claims` FORCE INDEX (client)
      WHERE client = p_client AND state IN ('G', 'L') AND LOCATE(LOWER(HEX(owner)), p_told) = 0) AND
      NOT EXISTS (SELECT 1 FROM `~letters` WHERE client = p_client AND LOCATE(LOWER(HEX(letter)), p_told) = 0) THEN
    DO GET_LOCK(p_anchor, p_seconds);
    DO RELEASE_LOCK(p_anchor);
  END IF;
  SELECT IF(state = 'G' AND flags & 16 AND EXISTS (SELECT 1 FROM `~claims` w WHERE w.name = c.name AND w.state = 'W'), 'g', state),
      owner, token, tokens, claim_window, owner, '' FROM `~claims` c FORCE INDEX (client)
      WHERE client = p_client AND state IN ('G', 'L')
    UNION ALL SELECT kind, letter, 0, 0, 0, owner, words FROM `~letters` WHERE client = p_client;
END
