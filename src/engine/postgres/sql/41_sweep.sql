-- Remove what has been idle or expired for long: a few blocks of each table at a time, at a random place, so
-- that the cost does not depend on their size. A name's row keeps its last token until the clock has passed it
-- by an hour, and is never removed while anybody holds or waits. Locked rows are skipped.
CREATE OR REPLACE FUNCTION @sweep_1(p_blocks int8, OUT removed int8) LANGUAGE plpgsql AS $$
DECLARE
    t int8 := @us_1();
    old int8 := t - 3600000000;
    place int8;
    n @names;
    more int8;
BEGIN
    removed := 0;
    place := floor(random() * greatest(pg_relation_size('@names'::regclass) / 8192 - p_blocks + 1, 1))::int8;
    FOR n IN SELECT * FROM @names x
        WHERE x.ctid >= format('(%s,0)', place)::tid AND x.ctid < format('(%s,0)', place + p_blocks)::tid
            AND x.last < old AND x.closed < old AND (x.holders = 0 OR x.soon < old)
        FOR UPDATE SKIP LOCKED LOOP
        n := @turn_1(n);
        IF n.holders = 0 AND n.waiters = 0 THEN
            DELETE FROM @names x WHERE x.name = n.name;
            removed := removed + 1;
        ELSE
            PERFORM @save_1(n);
        END IF;
    END LOOP;
    place := floor(random() * greatest(pg_relation_size('@cells'::regclass) / 8192 - p_blocks + 1, 1))::int8;
    DELETE FROM @cells x WHERE x.ctid IN (SELECT c.ctid FROM @cells c
        WHERE c.ctid >= format('(%s,0)', place)::tid AND c.ctid < format('(%s,0)', place + p_blocks)::tid
            AND (c.until < old OR c.bytes IS NULL AND NOT EXISTS
                (SELECT FROM @watchers w WHERE w.name = c.name AND w.until >= t))
        FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS more = ROW_COUNT;
    removed := removed + more;
    WITH gone AS (DELETE FROM @clients x WHERE x.client IN
        (SELECT c.client FROM @clients c WHERE c.until < old
            AND (c.bell = 0 OR pg_try_advisory_xact_lock(c.bell)) LIMIT 100 FOR UPDATE SKIP LOCKED) RETURNING x.client)
    DELETE FROM @mail m USING gone g WHERE m.client = g.client;
    DELETE FROM @watchers x WHERE (x.name, x.client) IN
        (SELECT w.name, w.client FROM @watchers w WHERE w.until < old LIMIT 100 FOR UPDATE SKIP LOCKED);
END
$$;
