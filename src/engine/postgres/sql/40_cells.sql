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
