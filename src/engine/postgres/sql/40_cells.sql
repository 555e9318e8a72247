-- Cells: bytes and a version. Versions are of one sequence, which never gives a number twice, so a cell that was
-- deleted and made again has none of its old ones. A cell whose end has passed is not there.
CREATE OR REPLACE FUNCTION @cell_read_1(p_name bytea)
RETURNS TABLE (o_version int8, o_bytes bytea, o_left int8) LANGUAGE plpgsql STABLE AS $$
DECLARE
    t int8 := @us_1();
BEGIN
    RETURN QUERY SELECT c.version, c.bytes, coalesce((c.until - t) / 1000, -1) FROM @cells c
    WHERE c.name = p_name AND c.bytes IS NOT NULL AND (c.until IS NULL OR c.until >= t);
END
$$;

-- Swap, and notify clients that wait for a change: a message is sent only if there are any, since a message
-- makes commits wait for each other.
CREATE OR REPLACE FUNCTION @cell_swap_1(p_name bytea, p_version int8, p_bytes bytea, p_ttl int8,
    OUT verdict text, OUT o_version int8)
LANGUAGE plpgsql AS $$
DECLARE
    t int8 := @us_1();
    c @cells;
    watcher int8;
BEGIN
    LOOP
        SELECT * INTO c FROM @cells x WHERE x.name = p_name FOR UPDATE;
        EXIT WHEN FOUND OR p_version <> 0 OR p_bytes IS NULL;
        INSERT INTO @cells (name, version) VALUES (p_name, 0) ON CONFLICT DO NOTHING;
    END LOOP;
    t := @us_1();
    o_version := CASE WHEN c.bytes IS NULL OR c.until < t THEN 0 ELSE c.version END;
    IF o_version <> p_version THEN
        verdict := 'V';
        RETURN;
    END IF;
    verdict := 'C';
    IF p_bytes IS NULL THEN
        o_version := 0;
        IF p_version = 0 THEN RETURN; END IF;
        DELETE FROM @cells x WHERE x.name = p_name;
    ELSE
        o_version := nextval('@versions');
        UPDATE @cells x SET version = o_version, bytes = p_bytes,
            until = CASE WHEN p_ttl > 0 THEN t + p_ttl * 1000 END
        WHERE x.name = p_name;
    END IF;
    FOR watcher IN WITH w AS (DELETE FROM @watchers x WHERE x.name = p_name RETURNING x.client)
        SELECT w.client FROM w ORDER BY 1 LOOP
        PERFORM pg_notify('@prefix' || watcher, 'C ' || encode(p_name, 'hex'));
        PERFORM @ring_1(watcher);
    END LOOP;
END
$$;

-- Several cells in one step; the arrays are sorted by name. p_acts: 0 nothing, 1 write, 2 delete. All rows are locked first, in that
-- order, so that two commits never wait for each other; a cell that must not be there has a row without bytes for it, as a watched
-- one has. The clock is read when all are ours: whether a cell's time is over is decided for all of them at that moment. A list that
-- only asserts locks nothing: one statement sees one moment.
CREATE OR REPLACE FUNCTION @cell_commit_1(p_names bytea[], p_versions int8[], p_acts int8[], p_bytes bytea[], p_ttls int8[])
RETURNS TABLE (o_index int8, o_verdict text, o_version int8) LANGUAGE plpgsql AS $$
DECLARE
    t int8 := @us_1();
    n int4 := coalesce(array_length(p_names, 1), 0);
    c @cells;
    has int8[] := '{}';
    ends int8[] := '{}';
    changed bytea[] := '{}';
    fresh int8;
    heard record;
BEGIN
    IF 1 = ANY (p_acts) OR 2 = ANY (p_acts) THEN
        FOR i IN 1 .. n LOOP
            LOOP
                SELECT * INTO c FROM @cells x WHERE x.name = p_names[i] FOR UPDATE;
                EXIT WHEN FOUND OR p_versions[i] <> 0;
                INSERT INTO @cells (name, version) VALUES (p_names[i], 0) ON CONFLICT DO NOTHING;
            END LOOP;
            has[i] := CASE WHEN c.bytes IS NULL THEN 0 ELSE c.version END;
            ends[i] := c.until;
        END LOOP;
        t := @us_1();
        FOR i IN 1 .. n LOOP
            IF ends[i] < t THEN has[i] := 0; END IF;
        END LOOP;
    ELSE
        SELECT array_agg(coalesce((SELECT x.version FROM @cells x WHERE x.name = p_names[s.i] AND x.bytes IS NOT NULL
            AND (x.until IS NULL OR x.until >= t)), 0) ORDER BY s.i) INTO has FROM generate_series(1, n) s (i);
    END IF;
    o_verdict := CASE WHEN has = p_versions THEN 'C' ELSE 'V' END;
    FOR i IN 1 .. n LOOP
        o_index := i - 1;
        o_version := has[i];
        IF o_verdict = 'C' AND p_acts[i] = 1 THEN
            fresh := coalesce(fresh, nextval('@versions'));
            o_version := fresh;
            UPDATE @cells x SET version = fresh, bytes = p_bytes[i],
                until = CASE WHEN p_ttls[i] > 0 THEN t + p_ttls[i] * 1000 END
            WHERE x.name = p_names[i];
            changed := changed || p_names[i];
        ELSIF o_verdict = 'C' AND p_acts[i] = 2 THEN
            o_version := 0;
            DELETE FROM @cells x WHERE x.name = p_names[i];
            changed := changed || p_names[i];
        END IF;
        RETURN NEXT;
    END LOOP;
    FOR heard IN WITH w AS (DELETE FROM @watchers x WHERE x.name = ANY (changed) RETURNING x.client, x.name)
        SELECT w.client, w.name FROM w ORDER BY 1, 2 LOOP
        PERFORM pg_notify('@prefix' || heard.client, 'C ' || encode(heard.name, 'hex'));
        PERFORM @ring_1(heard.client);
    END LOOP;
END
$$;

-- Watch cells: a session that changes one of them will notify us. The cell's row is locked, so that a change is
-- either seen here or sees our watch.
CREATE OR REPLACE FUNCTION @cell_look_1(p_client int8, p_window int8, p_names bytea[], p_versions int8[])
RETURNS TABLE (o_index int8, o_version int8, o_left int8) LANGUAGE plpgsql AS $$
DECLARE
    t int8;
    c @cells;
BEGIN
    FOR i IN 1 .. coalesce(array_length(p_names, 1), 0) LOOP
        LOOP
            SELECT * INTO c FROM @cells x WHERE x.name = p_names[i] FOR UPDATE;
            EXIT WHEN FOUND;
            INSERT INTO @cells (name, version) VALUES (p_names[i], 0) ON CONFLICT DO NOTHING;
        END LOOP;
        t := @us_1();
        INSERT INTO @watchers (name, client, until) VALUES (p_names[i], p_client, t + p_window * 1000)
        ON CONFLICT (name, client) DO UPDATE SET until = excluded.until;
        o_index := i - 1;
        o_version := CASE WHEN c.bytes IS NULL OR c.until < t THEN 0 ELSE c.version END;
        o_left := CASE WHEN c.bytes IS NULL OR c.until IS NULL OR c.until < t THEN -1 ELSE (c.until - t) / 1000 END;
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION @time_1(OUT us int8) LANGUAGE plpgsql AS $$
BEGIN
    us := @us_1();
END
$$;
