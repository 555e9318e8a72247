-- Lists holders and waiters. Writes nothing, so expired records that are not removed yet are left out,
-- and an expired lease with a lock delay closes the name already. One statement: one snapshot.
-- After a holder whose permits have numbers comes a line N with these as its label. All lines of a name whose size was set have flag 128; a
-- line C tells of it where nobody has the name, if only this name is asked for.
CREATE OR REPLACE FUNCTION @look_1(p_name bytea)
RETURNS TABLE (o_kind text, o_name bytea, o_mode int8, o_capacity int8, o_closed int8, o_token int8, o_first int8,
    o_permits int8, o_flags int8, o_age int8, o_left int8, o_tid int8, o_label bytea)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    t int8 := @us_1();
BEGIN
    RETURN QUERY
    WITH busy AS (
        SELECT *, (x.owner IS NULL AND x.holders > 0 AND @sized_1(x.name)) AS sized FROM @names x WHERE (p_name IS NULL OR x.name = p_name)
            AND (x.holders > 0 OR x.waiters > 0 OR x.closed >= t)
    ), held AS (
        SELECT s.name, s.current, s.token, s.capacity AS permits, s.flags, s.since, least(s.soon, t + s.ttl * 1000) AS until,
            s.delay, s.tid, s.label, NULL::int4[] AS slots
        FROM busy s WHERE s.owner IS NOT NULL
        UNION ALL
        SELECT h.name, h.current, h.token, h.permits, h.flags, h.since,
            least(h.until, t + h.ttl * 1000), h.delay, h.tid, h.label, h.slots
        FROM busy s JOIN @holders h ON h.name = s.name WHERE s.owner IS NULL AND s.holders > 0 AND h.permits > 0
    ), shut AS (
        SELECT s.name, greatest(s.closed, coalesce((SELECT max(h.until + h.delay * 1000) FROM held h
            WHERE h.name = s.name AND h.until < t AND h.delay > 0), 0)) AS closed FROM busy s
    ), lines AS (
        SELECT 'H' AS kind, h.name, h.current, h.token, h.permits, h.flags, h.since, (h.until - t) / 1000 AS rest,
            h.tid, h.label, h.token AS place FROM held h WHERE h.until >= t
        UNION ALL
        SELECT 'N', h.name, h.current, h.token, h.permits, h.flags, h.since, 0, 0, convert_to(array_to_string(h.slots, ','), 'SQL_ASCII'),
            h.token FROM held h WHERE h.until >= t AND h.slots IS NOT NULL
        UNION ALL
        SELECT 'W', w.name, 0, 0, w.permits, w.flags, w.since, w.ttl, 0, w.label, w.seq
        FROM busy s JOIN @waiters w ON w.name = s.name JOIN @clients c ON c.client = w.client AND c.until >= t
        WHERE s.waiters > 0
        UNION ALL
        SELECT 'C', x.name, 0, 0, 0, 0, t, 0, 0, NULL, 0 FROM shut x JOIN busy s ON s.name = x.name
        WHERE x.closed >= t OR (s.sized AND p_name IS NOT NULL)
    )
    SELECT l.kind, l.name, s.mode, s.capacity,
        CASE WHEN x.closed >= t THEN (x.closed - t) / 1000 + 1 ELSE 0 END,
        l.current, l.token, l.permits, l.flags | CASE WHEN s.sized THEN 128 ELSE 0 END, greatest(t - l.since, 0) / 1000, l.rest, l.tid, l.label
    FROM lines l JOIN busy s ON s.name = l.name JOIN shut x ON x.name = l.name
    ORDER BY l.name, CASE l.kind WHEN 'N' THEN 'H' ELSE l.kind END, l.place, l.kind;
END
$$;
