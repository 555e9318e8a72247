-- The size of a semaphore from now on, whatever capacity claims ask for, until it is set again; 0: as claims say, once nobody holds or waits.
-- R done; M it is in use as another kind, which is told. Nobody loses anything: waiters that fit now are granted, in their order, in this
-- transaction; if more is taken than the new size, nothing is granted until enough was given back (turn).
--
-- The row in `holders` that says so (10_tables.sql) is one that never ends: so the name's row is never free for one that does not look.
-- A holder that has all of the name goes from the name's row to a row of its own: all is a word that the size changes.
CREATE OR REPLACE FUNCTION @resize_1(p_name bytea, p_capacity int8, OUT verdict text, OUT o_mode int8, OUT o_capacity int8)
LANGUAGE plpgsql AS $$
DECLARE
    n @names;
    fresh bool := false;
BEGIN
    verdict := 'R';
    LOOP
        SELECT * INTO n FROM @names x WHERE x.name = p_name FOR UPDATE;
        EXIT WHEN FOUND;
        IF p_capacity = 0 THEN RETURN; END IF;
        INSERT INTO @names (name) VALUES (p_name) ON CONFLICT DO NOTHING;
        fresh := true;
    END LOOP;
    IF fresh THEN n.last := greatest(n.last, @floor_1()); END IF;
    n := @turn_1(n);
    IF n.mode <> 2 AND (n.holders > 0 OR n.waiters > 0) THEN
        verdict := 'M';
        o_mode := n.mode;
        o_capacity := n.capacity;
    ELSIF p_capacity = 0 THEN
        DELETE FROM @holders x WHERE x.name = p_name AND x.owner = '';
        IF FOUND THEN n.holders := n.holders - 1; END IF;
    ELSE
        IF n.owner IS NOT NULL THEN
            INSERT INTO @holders (name, owner, client, permits, until, token, tokens, current, tid, ttl, delay, flags, since, label)
            VALUES (n.name, n.owner, n.client, n.taken, n.soon, n.token, n.tokens, n.current, n.tid, n.ttl, n.delay, n.flags, n.since,
                n.label);
            n.owner := NULL;
        END IF;
        INSERT INTO @holders (name, owner, client, permits, until, token, tokens, current, ttl, delay, flags, since)
        VALUES (n.name, '', 0, 0, 9007199254740991, 0, 0, -1, 9007199254740, 0, 128, @us_1())
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            n.soon := CASE WHEN n.holders = 0 THEN 9007199254740991 ELSE n.soon END;
            n.ttl := CASE WHEN n.holders = 0 THEN 0 ELSE n.ttl END;
            n.holders := n.holders + 1;
        END IF;
        n.mode := 2;
        n.capacity := p_capacity;
        n := @turn_1(n);
    END IF;
    PERFORM @save_1(n);
END
$$;
