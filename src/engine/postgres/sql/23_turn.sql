-- Whose turn is it? Takes out whoever's time is over, then grants to the first waiters in order, as long as the
-- first one fits: nobody behind it is looked at, so a writer or a large request is never overtaken. The
-- name's row is locked by the caller, who writes back what this returns.
--
-- A grant by hand-over lasts for the waiter's window from here on, and the winner counts it from the send of
-- the last call that was answered "still waiting". So the clock is read after every lock that such a call
-- takes: the name's row (acquire) and the client's (beat). Whoever answered before us had sent before we look.
CREATE OR REPLACE FUNCTION @turn_1(n @names) RETURNS @names LANGUAGE plpgsql AS $$
DECLARE
    t int8 := @us_1();
    gone record;
    w @waiters;
    alive int8;
    first int8;
BEGIN
    IF n.owner IS NOT NULL AND t > n.soon THEN
        IF n.delay > 0 THEN n.closed := greatest(n.closed, n.soon + n.delay * 1000); END IF;
        n.owner := NULL;
        n.taken := 0;
        n.holders := 0;
    ELSIF n.owner IS NULL AND n.holders > 0 AND t > n.soon THEN
        FOR gone IN DELETE FROM @holders h WHERE h.name = n.name AND h.until < t
            RETURNING h.permits, h.until, h.delay LOOP
            n.taken := n.taken - gone.permits;
            n.holders := n.holders - 1;
            IF gone.delay > 0 THEN n.closed := greatest(n.closed, gone.until + gone.delay * 1000); END IF;
        END LOOP;
        SELECT min(h.until) INTO n.soon FROM @holders h WHERE h.name = n.name;
        n.soon := coalesce(n.soon, 0);
    END IF;

    WHILE n.waiters > 0 AND t > n.closed AND n.taken < n.capacity LOOP
        SELECT * INTO w FROM @waiters x WHERE x.name = n.name AND x.seq > n.head ORDER BY x.seq LIMIT 1;
        IF NOT FOUND THEN
            n.waiters := 0;
            EXIT;
        END IF;
        SELECT c.until INTO alive FROM @clients c WHERE c.client = w.client FOR SHARE;
        t := @us_1();
        IF alive IS NULL OR t > alive THEN
            DELETE FROM @waiters x WHERE x.owner = w.owner;
            n.waiters := n.waiters - 1;
            n.head := w.seq;
            CONTINUE;
        END IF;
        first := greatest(n.last + 1, t);
        w.tokens := least(w.tokens, greatest(1, t + 1000 - first));
        EXIT WHEN w.permits > n.capacity - n.taken OR t <= n.closed OR first > 9007199254740992 - w.tokens;
        DELETE FROM @waiters x WHERE x.owner = w.owner;
        n.waiters := n.waiters - 1;
        n.head := w.seq;
        n.last := first + w.tokens - 1;
        n := @hold_1(n, t, w.owner, w.client, w.permits, first, w.tokens, w.span, w.ttl, w.delay, w.flags, w.label);
        PERFORM pg_notify('@prefix' || w.client,
            format('G %s %s %s %s', encode(w.owner, 'hex'), first, w.tokens, w.span));
    END LOOP;
    RETURN n;
END
$$;
