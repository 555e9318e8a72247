-- SPDX-License-Identifier: MIT
--
-- Tell the holders of a name that asked for it (flag 16) what others want: W somebody waits, U nobody does any more, A somebody asks (p_words).
-- Inside the caller's transaction, which has the name's row; io_rings: the clients to notify after the commit. It is advice: a heartbeat of
-- the first waiter repeats it, and a renewal says it again.
CREATE PROCEDURE `~want` (IN p_name VARBINARY(512), IN p_kind CHAR(1), IN p_words VARBINARY(256),
    INOUT io_rings TEXT CHARACTER SET ascii)
  MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  INSERT INTO `~letters` (client, letter, kind, owner, words, until)
    SELECT x_client, UNHEX(REPLACE(UUID(), '-', '')), p_kind, x_owner, p_words, @NOW@ + 10000000 FROM `~names`
      WHERE name = p_name AND x_owner <> '' AND x_flags & 16
    UNION ALL SELECT client, UNHEX(REPLACE(UUID(), '-', '')), p_kind, owner, p_words, @NOW@ + 10000000 FROM `~claims`
      WHERE name = p_name AND state IN ('G', 'H') AND flags & 16;
  IF ROW_COUNT() > 0 THEN
    SET io_rings = CONCAT_WS(',', NULLIF(io_rings, ''), (SELECT GROUP_CONCAT(DISTINCT client) FROM
      (SELECT x_client AS client FROM `~names` WHERE name = p_name AND x_owner <> '' AND x_flags & 16
      UNION ALL SELECT client FROM `~claims` WHERE name = p_name AND state IN ('G', 'H') AND flags & 16) AS h));
  END IF;
END
