-- Whose turn is it? Takes out whoever's time is over, then grants to the first waiters in order, as long as the
-- first one fits: nobody behind it is looked at, so a writer or a large request is never overtaken. The
-- name's row is locked by the caller, who writes back what this returns.
--
-- A grant by hand-over lasts for the waiter's window from here on, and the winner counts it from the send of
-- the last call that was answered "still waiting". So the clock is read after every lock that such a call
-- takes: the name's row (acquire) and the client's (beat). Whoever answered before us had sent before we look.
--
-- An end that is further ahead than its ttl was written by a clock that has been set back since. It becomes a ttl from now:
-- a holder that lives has renewed at most a ttl ago, so its lease does not end before it knows, and one that is dead does
-- not keep the name until the clock has come that far again.
-- A waiter is dead when nothing was heard of its client for a window, or when the connection that listens for the client is
-- gone: that one has an advisory lock, shared, with the client's number (postgres/listener.c), so that we get it only if nobody
-- listens. Such a waiter is taken out and never was granted anything: if its client is only about to connect again, its next
-- beat tells it that it is forgotten, and it asks anew. Two who try at once may see each other: then the grant's window ends it.
-- A client of version 1 has no such lock, and does not say that it has one (flag 4).
CREATE OR REPLACE FUNCTION @turn_1(n @names) RETURNS @names LANGUAGE plpgsql AS $$
DECLARE
    t int8 := @us_1();
    gone record;
    w @waiters;
    alive int8;
    first int8;
BEGIN
    n.closed := least(n.closed, t + n.delay * 1000 - 1);
    IF n.owner IS NOT NULL THEN
        n.soon := least(n.soon, t + n.ttl * 1000);
    END IF;
    IF n.owner IS NOT NULL AND t > n.soon THEN
        IF n.delay > 0 THEN n.closed := greatest(n.closed, n.soon + n.delay * 1000); END IF;
        n.owner := NULL;
        n.taken := 0;
        n.holders := 0;
    ELSIF n.owner IS NULL AND n.holders > 0 AND (t > n.soon OR n.soon > t + n.ttl * 1000) THEN
        UPDATE @holders h SET until = t + h.ttl * 1000 WHERE h.name = n.name AND h.until > t + h.ttl * 1000;
        FOR gone IN DELETE FROM @holders h WHERE h.name = n.name AND h.until < t
            RETURNING h.permits, h.until, h.delay LOOP
            n.taken := n.taken - gone.permits;
            n.holders := n.holders - 1;
            IF gone.delay > 0 AND gone.until + gone.delay * 1000 > n.closed THEN
                n.closed := gone.until + gone.delay * 1000;
                n.delay := gone.delay;
            END IF;
        END LOOP;
        SELECT coalesce(min(h.until), 0), coalesce(max(h.ttl), 0) INTO n.soon, n.ttl FROM @holders h WHERE h.name = n.name;
    END IF;

    WHILE n.waiters > 0 AND t > n.closed AND n.taken < n.capacity LOOP
        SELECT * INTO w FROM @waiters x WHERE x.name = n.name AND x.seq > n.head ORDER BY x.seq LIMIT 1;
        IF NOT FOUND THEN
            n.waiters := 0;
            EXIT;
        END IF;
        SELECT c.until INTO alive FROM @clients c WHERE c.client = w.client FOR SHARE;
        t := @us_1();
        IF alive IS NULL OR t > alive OR (w.flags & 4 = 4 AND pg_try_advisory_xact_lock(w.client)) THEN
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
