-- Remove what has been idle or expired for a while: some blocks of each table at a time, so that the cost does not depend on their size: of
-- names the next ones (a mark moves round), of cells at a random place. A client sweeps about as often as it makes names (sql/sweep.c).
-- Locked rows are skipped.
--
-- The row of a name keeps its last token for a minute, and is never removed while anybody holds or waits. The row of the empty name,
-- which nobody can lock, has the mark (head) and the time up to which tokens may have been removed (last): a name that is made again begins above that (floor),
-- and so above all its tokens, also if the clock was set back meanwhile.
--
-- Letters to a client that never listened have nobody who deletes them: their client gets a row, which ends as others do.
CREATE OR REPLACE FUNCTION @sweep_1(p_blocks int8, OUT removed int8) LANGUAGE plpgsql AS $$
DECLARE
    t int8 := @us_1();
    old int8 := t - 3600000000;
    idle int8 := t - 60000000;
    place int8;
    size int8;
    n @names;
    more int8;
BEGIN
    size := pg_relation_size('@names'::regclass) / 8192;
    SELECT x.head INTO place FROM @names x WHERE x.name = '';
    IF place IS NULL OR place >= size THEN place := 0; END IF;
    DELETE FROM @names x WHERE x.ctid IN (SELECT c.ctid FROM @names c
        WHERE c.ctid >= format('(%s,0)', place)::tid AND c.ctid < format('(%s,0)', place + p_blocks)::tid
            AND c.holders = 0 AND c.waiters = 0 AND c.last < idle AND c.closed < idle AND c.name <> ''
        FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS removed = ROW_COUNT;
    FOR n IN SELECT * FROM @names x
        WHERE x.ctid >= format('(%s,0)', place)::tid AND x.ctid < format('(%s,0)', place + p_blocks)::tid
            AND (x.holders > 0 OR x.waiters > 0) AND x.last < idle AND x.closed < idle AND (x.holders = 0 OR x.soon < idle)
        FOR UPDATE SKIP LOCKED LOOP
        n := @turn_1(n);
        IF n.holders = 0 AND n.waiters = 0 AND n.last < idle AND n.closed < idle THEN
            DELETE FROM @names x WHERE x.name = n.name;
            removed := removed + 1;
        ELSE
            PERFORM @save_1(n);
        END IF;
    END LOOP;
    IF removed > 0 OR size > p_blocks THEN
        INSERT INTO @names AS x (name, last, head) VALUES ('', CASE WHEN removed > 0 THEN idle ELSE 0 END, place + p_blocks)
        ON CONFLICT (name) DO UPDATE SET last = greatest(x.last, excluded.last), head = excluded.head;
    END IF;
    place := floor(random() * greatest(pg_relation_size('@cells'::regclass) / 8192 - p_blocks + 1, 1))::int8;
    DELETE FROM @cells x WHERE x.ctid IN (SELECT c.ctid FROM @cells c
        WHERE c.ctid >= format('(%s,0)', place)::tid AND c.ctid < format('(%s,0)', place + p_blocks)::tid
            AND (c.until < old OR c.bytes IS NULL AND NOT EXISTS
                (SELECT FROM @watchers w WHERE w.name = c.name AND w.until >= t))
        FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS more = ROW_COUNT;
    removed := removed + more;
    INSERT INTO @clients (client, until) SELECT DISTINCT m.client, t - 1 FROM @mail m
        WHERE NOT EXISTS (SELECT FROM @clients c WHERE c.client = m.client) LIMIT 100 ON CONFLICT DO NOTHING;
    WITH gone AS (DELETE FROM @clients x WHERE x.client IN
        (SELECT c.client FROM @clients c WHERE c.until < idle
            AND (c.bell = 0 OR pg_try_advisory_xact_lock(c.bell)) LIMIT 100 FOR UPDATE SKIP LOCKED) RETURNING x.client)
    DELETE FROM @mail m USING gone g WHERE m.client = g.client;
    DELETE FROM @watchers x WHERE (x.name, x.client) IN
        (SELECT w.name, w.client FROM @watchers w WHERE w.until < old LIMIT 100 FOR UPDATE SKIP LOCKED);
END
$$;

-- A client that closes in order: nothing of it remains. Without a row of ours it is as one that never listened.
CREATE OR REPLACE FUNCTION @leave_1(p_client int8) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM @clients x WHERE x.client = p_client;
    DELETE FROM @mail m WHERE m.client = p_client;
END
$$;
