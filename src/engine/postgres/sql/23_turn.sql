-- Whose turn is it? Takes out whoever's time is over, then grants to the first waiters in order, as long as the
-- first one fits: nobody behind it is looked at, so a writer or a large request is never overtaken. The
-- name's row is locked by the caller, who writes back what this returns.
--
-- A grant by hand-over lasts for the waiter's window from here on, and the winner counts it from the send of
-- the last call that was answered "still waiting". So the clock is read after every lock that such a call
-- takes: the name's row (acquire) and the client's gate (beat; 22_ring.sql). Whoever answered before us had sent before we look.
-- Of several winners the gates are taken in the order of their numbers: two transactions that grant to the same clients do not wait
-- for each other. (Where dead waiters were passed over, later ones may be out of order; PostgreSQL resolves that after a second.)
--
-- An end that is further ahead than its ttl was written by a clock that has been set back since. It becomes a ttl from now:
-- a holder that lives has renewed at most a ttl ago, so its lease does not end before it knows, and one that is dead does
-- not keep the name until the clock has come that far again.
-- A waiter is dead when nothing was heard of its client for a window, or when the connection that listens for the client is
-- gone: that one has advisory locks, shared, with the client's number (flag 4: of version 2) and with the number of the bell (flag 8: it
-- naps), so that we get one only if nobody listens (postgres/listener.c). Such a waiter is taken out and never was granted anything:
-- if its client is only about to connect again, its next beat tells it that it is forgotten, and it asks anew. Two who try at once may
-- see each other: then the grant's window ends it. A client of version 1 has no such lock, and does not say that it has one.
--
-- A waiter that replaces a holder (claim) gets that one's place, if it is still there: its permits are free for it, and it goes in the same
-- step. The lease lasts at least for as long as that one's would have.
--
-- A winner that naps is rung. One whose role we may not cancel, or that listens only, is notified.
CREATE OR REPLACE FUNCTION @turn_1(n @names) RETURNS @names LANGUAGE plpgsql AS $$
DECLARE
    t int8 := @us_1();
    gone record;
    w record;
    c @clients;
    old @holders;
    first int8;
    words text;
    naps bool;
    granted int8 := 0;
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
    ELSIF n.owner IS NULL AND n.holders > 0 AND (t > n.soon OR n.soon > t + n.ttl * 1000 AND n.soon < 9007199254740991) THEN
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
        SELECT coalesce(min(h.until), 0), coalesce(max(h.ttl) FILTER (WHERE h.permits > 0), 0) INTO n.soon, n.ttl
        FROM @holders h WHERE h.name = n.name;
    END IF;

    IF n.waiters > 1 AND n.capacity - n.taken > 1 AND t > n.closed THEN
        PERFORM pg_advisory_xact_lock_shared(-g.client) FROM (SELECT DISTINCT f.client FROM (SELECT x.client FROM @waiters x
            WHERE x.name = n.name AND x.seq > n.head ORDER BY x.seq LIMIT n.capacity - n.taken) f ORDER BY 1) g;
    END IF;
    WHILE n.waiters > 0 AND t > n.closed AND n.taken < n.capacity LOOP
        SELECT x.*, x.ctid AS place INTO w FROM @waiters x WHERE x.name = n.name AND x.seq > n.head ORDER BY x.seq LIMIT 1;
        IF NOT FOUND THEN
            n.waiters := 0;
            EXIT;
        END IF;
        PERFORM pg_advisory_xact_lock_shared(-w.client);
        SELECT * INTO c FROM @clients x WHERE x.client = w.client;
        t := @us_1();
        naps := w.flags & 8 = 8 AND c.bell <> 0;
        IF c.until IS NULL OR t > c.until OR
            (w.flags & 4 = 4 AND pg_try_advisory_xact_lock(CASE WHEN naps THEN c.bell ELSE w.client END)) THEN
            DELETE FROM @waiters x WHERE x.ctid = w.place;
            n.waiters := n.waiters - 1;
            n.head := w.seq;
            CONTINUE;
        END IF;
        first := greatest(n.last + 1, t);
        w.tokens := least(w.tokens, greatest(1, t + @ahead_1(w.flags) - first));
        old := NULL;
        IF w.replaces IS NOT NULL THEN
            SELECT * INTO old FROM @holders x WHERE x.name = n.name AND x.owner = w.replaces;
        END IF;
        EXIT WHEN w.permits > n.capacity - n.taken + coalesce(old.permits, 0) OR t <= n.closed OR first > 9007199254740992 - w.tokens;
        IF old.permits > 0 THEN
            DELETE FROM @holders x WHERE x.name = n.name AND x.owner = w.replaces;
            n.taken := n.taken - old.permits;
            n.holders := n.holders - 1;
            w.span := greatest(w.span, (old.until - t) / 1000 + 1);
        END IF;
        DELETE FROM @waiters x WHERE x.ctid = w.place;
        n.waiters := n.waiters - 1;
        n.head := w.seq;
        n.last := first + w.tokens - 1;
        IF w.permits = n.capacity AND n.holders = 0 AND w.flags & 64 = 0 THEN -- as hold, without the call
            n.owner := w.owner;
            n.client := w.client;
            n.token := first;
            n.tokens := w.tokens;
            n.current := first;
            n.tid := 0;
            n.ttl := greatest(w.ttl, w.span);
            n.delay := w.delay;
            n.flags := w.flags;
            n.since := t;
            n.label := w.label;
            n.soon := t + w.span * 1000;
            n.taken := w.permits;
            n.holders := 1;
        ELSE
            n := @hold_1(n, t, w.owner, w.client, w.permits, first, w.tokens, w.span, w.ttl, w.delay, w.flags, w.label);
        END IF;
        granted := granted + 1;
        words := format('%s %s %s %s %s', CASE WHEN n.waiters > 0 AND w.flags & 16 = 16 THEN 'g' ELSE 'G' END,
            encode(w.owner, 'hex'), first, w.tokens, w.span);
        IF naps AND (c.role = current_user OR @may_ring_1(c.role)) THEN
            INSERT INTO @mail (client, words) VALUES (w.client, words);
            PERFORM pg_cancel_backend(c.pid);
        ELSE
            PERFORM pg_notify('@prefix' || w.client, words);
        END IF;
    END LOOP;
    -- Those that hold beside the winners. Without a ring: we may be in a beat (22_want.sql).
    IF granted > 0 AND n.waiters = 0 AND n.holders > granted THEN PERFORM @want_1(n, 'U', '', false); END IF;
    RETURN n;
END
$$;
