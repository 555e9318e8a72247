-- Acquire, or stand in the queue, or be refused. The common case, that nobody has it and nobody wants it, was tried before
-- in the same statement (postgres/call.c).
--
-- Safe: granted only where it fits, after those whose time is over were taken out, and (unless it may barge) only
-- if nobody waits. An owner that holds or waits already is found by its id and gets the same answer again. A
-- clock that was read before we waited for the row is early: leases then end early, which is no harm, as the
-- caller counts from its send. A holder that asked for it (flag 16) is told that somebody waits; its own answer is then g.
-- If that one lingers (flag 32) it is idle mostly, and gives the name away as soon as it is told: this commit does not wait for the disk. A crash
-- may lose the place in the queue, and then the next beat says so; a release that answers it is durable only together with it.
-- Where the size of a semaphore was set, it counts instead of the capacity that is asked for.
-- Whoever does not wait and meets a lease that lingers (flag 32), where nobody waits, is told so: B with 1 in o_tokens.
CREATE OR REPLACE FUNCTION @acquire_1(p_name bytea, p_owner bytea, p_mode int8, p_capacity int8, p_permits int8,
    p_flags int8, p_ttl int8, p_delay int8, p_tokens int8, p_wait int8, p_window int8, p_client int8, p_label bytea,
    OUT verdict text, OUT o_token int8, OUT o_tokens int8, OUT ms int8)
LANGUAGE plpgsql AS $$
DECLARE
    t int8;
    n @names;
    h @holders;
    fresh bool := false;
BEGIN
    IF p_wait = 1 THEN -- another has all of it: stand in the queue
        UPDATE @names x SET waiters = x.waiters + 1
        WHERE x.name = p_name AND x.owner <> p_owner AND x.mode = p_mode AND x.capacity = p_capacity
            AND x.soon >= @us_1() AND x.soon <= @us_1() + x.ttl * 1000 AND x.last < 9007199254740992 - p_tokens
            AND (x.waiters < 64 OR x.waiters % 64 > 0)
        RETURNING * INTO n;
        IF FOUND THEN
            t := @us_1();
            INSERT INTO @waiters (owner, name, client, permits, tokens, span, ttl, delay, flags, since, label)
            VALUES (p_owner, p_name, p_client, p_permits, p_tokens, p_window, p_ttl, p_delay, p_flags, t, p_label)
            ON CONFLICT (owner) DO NOTHING;
            IF NOT FOUND THEN -- it stands there already
                UPDATE @names x SET waiters = x.waiters - 1 WHERE x.name = p_name RETURNING * INTO n;
            END IF;
            verdict := 'Q';
            o_token := n.last;
            ms := CASE WHEN n.waiters = 1 THEN @next_1(n, t) ELSE 0 END;
            IF n.waiters = 1 AND n.flags & 16 = 16 THEN PERFORM @want_1(n, 'W', '', true); END IF;
            IF n.waiters = 1 AND n.flags & 32 = 32 THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
            RETURN;
        END IF;
    END IF;
    LOOP -- a name that is used for the first time is a row before it is locked
        SELECT * INTO n FROM @names x WHERE x.name = p_name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO @names (name) VALUES (p_name) ON CONFLICT DO NOTHING;
        fresh := true;
    END LOOP;
    IF fresh THEN n.last := greatest(n.last, @floor_1()); END IF;
    n := @turn_1(n);
    t := @us_1();

    IF n.owner = p_owner THEN
        n.soon := greatest(n.soon, t + p_ttl * 1000);
        verdict := 'G';
        o_token := n.token;
        o_tokens := n.tokens;
        ms := (n.soon - t) / 1000;
        PERFORM @save_1(n);
        RETURN;
    END IF;
    IF n.owner IS NULL AND n.holders > 0 THEN
        SELECT * INTO h FROM @holders x WHERE x.name = p_name AND x.owner = p_owner;
        IF FOUND THEN
            h.until := greatest(h.until, t + p_ttl * 1000);
            UPDATE @holders x SET until = h.until WHERE x.name = p_name AND x.owner = p_owner;
            verdict := 'G';
            o_token := h.token;
            o_tokens := h.tokens;
            ms := (h.until - t) / 1000;
            PERFORM @save_1(n);
            RETURN;
        END IF;
    END IF;
    IF n.waiters > 0 AND EXISTS (SELECT FROM @waiters x WHERE x.owner = p_owner) THEN
        verdict := 'Q';
        o_token := n.last;
        ms := CASE WHEN n.waiters = 1 THEN @next_1(n, t) ELSE 0 END;
        PERFORM @save_1(n);
        RETURN;
    END IF;

    IF n.holders > 0 OR n.waiters > 0 THEN
        IF n.mode <> p_mode OR (n.capacity <> p_capacity AND (p_permits > n.capacity OR NOT @sized_1(p_name))) THEN
            verdict := 'M';
            o_token := n.mode;
            ms := n.capacity;
            PERFORM @save_1(n);
            RETURN;
        END IF;
    ELSE
        n.mode := p_mode;
        n.capacity := p_capacity;
    END IF;

    o_token := greatest(n.last + 1, t);
    IF o_token > 9007199254740992 - p_tokens THEN
        verdict := 'F';
    ELSIF t > n.closed AND p_permits <= n.capacity - n.taken AND (p_flags & 1 = 1 OR n.waiters = 0) THEN
        o_tokens := least(p_tokens, greatest(1, t + @ahead_1(p_flags) - o_token));
        n.last := o_token + o_tokens - 1;
        n := @hold_1(n, t, p_owner, p_client, p_permits, o_token, o_tokens, p_ttl, p_ttl, p_delay, p_flags, p_label);
        verdict := CASE WHEN n.waiters > 0 AND p_flags & 16 = 16 THEN 'g' ELSE 'G' END;
        ms := p_ttl;
    ELSIF p_wait = 0 THEN
        verdict := 'B';
        o_tokens := CASE WHEN n.owner IS NOT NULL AND n.flags & 32 = 32 AND n.waiters = 0 THEN 1 ELSE 0 END;
        ms := @next_1(n, t);
    ELSE
        IF n.waiters >= 64 AND n.waiters % 64 = 0 THEN -- a long queue is searched for the dead now and then
            DELETE FROM @waiters x WHERE x.name = p_name AND NOT EXISTS
                (SELECT FROM @clients c WHERE c.client = x.client AND c.until >= t);
            SELECT count(*) INTO n.waiters FROM @waiters x WHERE x.name = p_name;
        END IF;
        INSERT INTO @waiters (owner, name, client, permits, tokens, span, ttl, delay, flags, since, label)
        VALUES (p_owner, p_name, p_client, p_permits, p_tokens, p_window, p_ttl, p_delay, p_flags, t, p_label);
        n.waiters := n.waiters + 1;
        IF n.waiters = 1 AND n.holders > 0 THEN PERFORM @want_1(n, 'W', '', true); END IF;
        verdict := 'Q';
        o_token := n.last;
        ms := CASE WHEN n.waiters = 1 THEN @next_1(n, t) ELSE 0 END;
    END IF;
    PERFORM @save_1(n);
END
$$;
