-- End a lease, and hand the name to the next waiter. Only the lease of exactly this owner ends, and only while
-- it is valid: one whose end has passed is gone already, uncleanly, and its lock delay runs. An owner that
-- still waits leaves the queue. The case that it holds and nobody waits was tried before, in the same
-- statement (postgres/call.c).
CREATE OR REPLACE FUNCTION @release_1(p_name bytea, p_owner bytea, OUT verdict text) LANGUAGE plpgsql AS $$
DECLARE
    t int8;
    n @names;
    freed int8;
BEGIN
    verdict := 'L';
    SELECT * INTO n FROM @names x WHERE x.name = p_name FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    t := @us_1();
    IF n.owner = p_owner THEN
        IF n.soon >= t THEN
            n.owner := NULL;
            n.taken := 0;
            n.holders := 0;
            verdict := 'R';
        END IF;
    ELSE
        DELETE FROM @holders x WHERE x.name = p_name AND x.owner = p_owner AND x.until >= t
        RETURNING x.permits INTO freed;
        IF FOUND THEN
            n.taken := n.taken - freed;
            n.holders := n.holders - 1;
            verdict := 'R';
        ELSE
            DELETE FROM @waiters x WHERE x.owner = p_owner AND x.name = p_name;
            IF FOUND THEN n.waiters := n.waiters - 1; END IF;
            IF FOUND AND n.waiters = 0 AND n.holders > 0 THEN PERFORM @want_1(n, 'U', '', true); END IF;
        END IF;
    END IF;
    n := @turn_1(n);
    UPDATE @names SET taken = n.taken, holders = n.holders, waiters = n.waiters, last = n.last, closed = n.closed,
        soon = n.soon, head = n.head, owner = n.owner, client = n.client, token = n.token, tokens = n.tokens,
        current = n.current, tid = n.tid, ttl = n.ttl, delay = n.delay, flags = n.flags, since = n.since, label = n.label
    WHERE name = p_name; -- as save, without the call
END
$$;
