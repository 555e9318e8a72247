-- Tell the holders of a name that asked for it (flag 16) what others want: 'W' somebody waits, 'U' nobody does any more, 'A' and a text in
-- hex. The name's row is locked. It is advice: a beat of the first waiter repeats it, and a renewal says it again. p_ring: end naps for it; not
-- in a beat, which has the gate of its own client, so that two beats might wait for each other. A client that does not listen yet (it has
-- just acquired) finds a letter when it does: the gate is taken before we look whether it listens, and it looks after it listens.
-- Returns how many were told.
CREATE OR REPLACE FUNCTION @want_1(n @names, p_letter text, p_text text, p_ring bool) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE
    h record;
    told int8 := 0;
    words text;
    c @clients;
BEGIN
    FOR h IN SELECT n.owner, n.client WHERE n.owner IS NOT NULL AND n.flags & 16 = 16
        UNION ALL SELECT x.owner, x.client FROM @holders x WHERE n.owner IS NULL AND n.holders > 0 AND x.name = n.name AND x.flags & 16 = 16
        ORDER BY client LOOP
        told := told + 1;
        words := p_letter || ' ' || encode(h.owner, 'hex') || p_text;
        IF NOT p_ring THEN
            PERFORM pg_notify('@prefix' || h.client, words);
            CONTINUE;
        END IF;
        PERFORM pg_advisory_xact_lock_shared(-h.client);
        SELECT * INTO c FROM @clients x WHERE x.client = h.client;
        IF c.bell IS NULL OR pg_try_advisory_xact_lock(c.bell) THEN
            INSERT INTO @mail (client, words) VALUES (h.client, words);
        ELSE
            PERFORM pg_notify('@prefix' || h.client, words);
            IF c.bell <> 0 AND (c.role = current_user OR @may_ring_1(c.role)) THEN PERFORM pg_cancel_backend(c.pid); END IF;
        END IF;
    END LOOP;
    RETURN told;
END
$$;

-- Does anybody who lives wait?
CREATE OR REPLACE FUNCTION @waited_1(p_name bytea) RETURNS bool LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (SELECT FROM @waiters w JOIN @clients c ON c.client = w.client AND c.until >= @us_1() WHERE w.name = p_name)
$$;

-- Ask the holders of a name: T told; B it is held, and nobody of them listens; N nobody holds it.
CREATE OR REPLACE FUNCTION @ask_1(p_name bytea, p_text bytea, OUT verdict text) LANGUAGE plpgsql AS $$
DECLARE
    n @names;
BEGIN
    verdict := 'N';
    SELECT * INTO n FROM @names x WHERE x.name = p_name FOR UPDATE;
    IF NOT FOUND OR n.holders = 0 OR (n.owner IS NOT NULL AND n.soon < @us_1()) THEN RETURN; END IF;
    verdict := CASE WHEN @want_1(n, 'A', ' ' || encode(p_text, 'hex'), true) > 0 THEN 'T' ELSE 'B' END;
END
$$;
