-- A heartbeat: this client and its waiters live for one window more. Returns the state of each waiter.
--
-- This takes the client's gate (22_ring.sql); a transaction that grants to one of our waiters has it too, shared, before it reads
-- the clock (turn). So a waiter that is answered "still waiting" here was not granted, by the clock, before this call was
-- sent: a grant that was under way is committed when we have the gate, and is seen below.
--
-- A waiter may have been granted before, expired, and been queued again by a late copy of its acquire. The message of
-- that grant may still be under way. Its token is not larger than the name's last one, which this answer carries; a
-- later grant to this client waits for our commit, and has a larger one.
CREATE OR REPLACE FUNCTION @beat_1(p_client int8, p_window int8, p_names bytea[], p_owners bytea[])
RETURNS TABLE (o_index int8, verdict text, o_token int8, o_tokens int8, ms int8) LANGUAGE plpgsql AS $$
DECLARE
    t int8 := @us_1();
    n @names;
    h @holders;
    mine int8;
BEGIN
    PERFORM pg_advisory_xact_lock(-p_client);
    UPDATE @clients x SET until = t + p_window * 1000 WHERE x.client = p_client;
    IF NOT FOUND THEN
        INSERT INTO @clients (client, until) VALUES (p_client, t + p_window * 1000)
        ON CONFLICT (client) DO UPDATE SET until = excluded.until;
    END IF;
    FOR i IN 1 .. coalesce(array_length(p_names, 1), 0) LOOP
        o_index := i - 1;
        verdict := 'N';
        o_token := 0;
        o_tokens := 0;
        ms := 0;
        SELECT x.seq INTO mine FROM @waiters x WHERE x.owner = p_owners[i];
        IF FOUND THEN
            verdict := 'Q';
            SELECT * INTO n FROM @names x WHERE x.name = p_names[i];
            o_token := n.last;
            t := @us_1();
            -- The first live waiter rechecks the name; if it does not, the next one that finds it overdue does.
            IF greatest(n.closed, CASE WHEN n.holders > 0 THEN n.soon ELSE 0 END) + 1000000 < t
                OR mine = (SELECT x.seq FROM @waiters x JOIN @clients c ON c.client = x.client AND c.until >= t
                    WHERE x.name = p_names[i] ORDER BY x.seq LIMIT 1) THEN
                ms := greatest(@next_1(n, t), 1);
                IF n.holders > 0 THEN PERFORM @want_1(n, 'W', '', false); END IF;
            END IF;
        ELSE
            SELECT * INTO n FROM @names x WHERE x.name = p_names[i];
            t := @us_1();
            IF n.owner = p_owners[i] AND n.soon >= t THEN
                verdict := 'G';
                o_token := n.token;
                o_tokens := n.tokens;
                ms := (n.soon - t) / 1000;
            ELSE
                SELECT * INTO h FROM @holders x WHERE x.name = p_names[i] AND x.owner = p_owners[i] AND x.until >= t;
                IF FOUND THEN
                    verdict := 'G';
                    o_token := h.token;
                    o_tokens := h.tokens;
                    ms := (h.until - t) / 1000;
                END IF;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
