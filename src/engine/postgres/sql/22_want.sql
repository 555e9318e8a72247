-- Tell the holders of a name that asked for it (flag 16) what others want: 'W' somebody waits, 'U' nobody does any more, 'A' and a text in
-- hex. The name's row is locked. It is advice: a beat of the first waiter repeats it, and a renewal says it again. p_ring: end naps for it; not
-- in a beat, which has the gate of its own client, so that two beats might wait for each other. A client that does not listen yet (it has
-- just acquired) finds a letter when it does: the gate is taken before we look whether it listens, and it looks after it listens.
-- Returns how many were told.
CREATE OR REPLACE FUNCTION @want_1(n @names, p_letter text, p_text text, p_ring bool) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE
    owners bytea[];
    clients int8[];
    holder int8;
    words text;
    c @clients;
BEGIN
    IF n.owner IS NULL AND n.holders > 0 THEN
        SELECT array_agg(x.owner ORDER BY x.client), array_agg(x.client ORDER BY x.client) INTO owners, clients
        FROM @holders x WHERE x.name = n.name AND x.flags & 16 = 16;
    ELSIF n.owner IS NOT NULL AND n.flags & 16 = 16 THEN
        owners := ARRAY[n.owner];
        clients := ARRAY[n.client];
    END IF;
    FOR i IN 1 .. coalesce(array_length(owners, 1), 0) LOOP
        holder := clients[i];
        words := p_letter || ' ' || encode(owners[i], 'hex') || p_text;
        IF NOT p_ring THEN
            PERFORM pg_notify('@prefix' || holder, words);
            CONTINUE;
        END IF;
        PERFORM pg_advisory_xact_lock_shared(-holder);
        SELECT * INTO c FROM @clients x WHERE x.client = holder;
        IF c.bell IS NULL OR pg_try_advisory_xact_lock(c.bell) THEN
            INSERT INTO @mail (client, words) VALUES (holder, words);
        ELSE
            PERFORM pg_notify('@prefix' || holder, words);
            IF c.bell <> 0 AND (c.role = current_user OR @may_ring_1(c.role)) THEN PERFORM pg_cancel_backend(c.pid); END IF;
        END IF;
    END LOOP;
    RETURN coalesce(array_length(owners, 1), 0);
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
    IF NOT FOUND OR n.taken = 0 OR (n.owner IS NOT NULL AND n.soon < @us_1()) THEN RETURN; END IF;
    verdict := CASE WHEN @want_1(n, 'A', ' ' || encode(p_text, 'hex'), true) > 0 THEN 'T' ELSE 'B' END;
END
$$;
