-- SPDX-License-Identifier: MIT
--
-- What there is of a name, or (NULL) of all: holders, waiters in order, and names that are closed for a while. After a holder whose permits have
-- numbers comes a line N with these as its label. All lines of a name whose size was set have flag 128; a line C tells of it where nobody has
-- the name, if only this name is asked for.
CREATE PROCEDURE `~look` (IN p_name VARBINARY(512))
  READS SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_us BIGINT DEFAULT @NOW@;
  SELECT what, name, mode, capacity, closed, holds, token, permits,
      flags | IF(EXISTS (SELECT 1 FROM `~claims` z FORCE INDEX (owner)
        WHERE z.owner = x'00000000000000000000000000000000' AND z.name = every.name), 128, 0), age, ttl, tid, label FROM (
    SELECT 'H' AS what, 0 AS part, 0 AS ticket, name, mode, capacity,
        IF(closed >= v_us, 1 + (closed - v_us) DIV 1000, 0) AS closed,
        x_holds AS holds, x_token AS token, capacity AS permits, x_flags AS flags, (v_us - x_since) DIV 1000 AS age,
        LEAST((x_until - v_us) DIV 1000, x_ttl) AS ttl, x_tid AS tid, x_label AS label
      FROM `~names` WHERE (p_name IS NULL OR name = p_name) AND x_owner <> '' AND x_until >= v_us
    UNION ALL
    SELECT IF(c.state = 'W', 'W', 'H'), IF(c.state = 'W', 1, 0), c.ticket, c.name, n.mode, n.capacity,
        IF(n.closed >= v_us, 1 + (n.closed - v_us) DIV 1000, 0),
        c.holds, c.token, c.permits, c.flags, (v_us - c.since) DIV 1000,
        IF(c.state = 'W', 0, LEAST((c.until - v_us) DIV 1000, GREATEST(c.ttl, c.claim_window))), c.tid, c.label
      FROM `~claims` c JOIN `~names` n ON n.name = c.name LEFT JOIN `~clients` l ON l.client = c.client
      WHERE (p_name IS NULL OR c.name = p_name) AND ((c.state IN ('G', 'H') AND c.until >= v_us AND c.permits > 0) OR
        (c.state = 'W' AND GREATEST(COALESCE(l.until, 0), c.since + c.claim_window * 1000) >= v_us))
    UNION ALL
    SELECT 'N', 0, c.ticket, c.name, n.mode, n.capacity, IF(n.closed >= v_us, 1 + (n.closed - v_us) DIV 1000, 0), c.holds, c.token,
        c.permits, c.flags, 0, 0, 0, (SELECT CAST(GROUP_CONCAT(s.number ORDER BY s.number) AS CHAR(192)) FROM `~slots` s
          WHERE s.name = c.name AND s.ticket = c.ticket)
      FROM `~claims` c JOIN `~names` n ON n.name = c.name
      WHERE (p_name IS NULL OR c.name = p_name) AND c.state IN ('G', 'H') AND c.until >= v_us AND c.flags & 64
    UNION ALL
    SELECT 'C', 2, 0, name, mode, capacity, IF(closed >= v_us, 1 + (closed - v_us) DIV 1000, 0), 0, 0, 0, 0, 0, 0, 0, ''
      FROM `~names` WHERE (p_name IS NULL OR name = p_name) AND (closed >= v_us OR (p_name IS NOT NULL AND EXISTS
        (SELECT 1 FROM `~claims` z FORCE INDEX (owner) WHERE z.owner = x'00000000000000000000000000000000' AND z.name = p_name)))
  ) AS every ORDER BY name, part, ticket, what;
END
