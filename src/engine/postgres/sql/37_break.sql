-- End exactly the lease that holds with this token now, whoever owns it; of one that lingers any of its tokens will do. That is an unclean end: its lock delay
-- runs from now. Its owner is told on its channel; if nobody listens there it learns from its next renewal.
CREATE OR REPLACE FUNCTION @break_1(p_name bytea, p_token int8, OUT verdict text) LANGUAGE plpgsql AS $$
DECLARE
    t int8;
    n @names;
    h @holders;
BEGIN
    verdict := 'N';
    SELECT * INTO n FROM @names x WHERE x.name = p_name FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    t := @us_1();
    IF n.owner IS NOT NULL THEN
        IF n.soon < t THEN RETURN; END IF;
        IF n.current <> p_token AND (n.flags & 32 = 0 OR p_token NOT BETWEEN n.token AND n.last) THEN RETURN; END IF;
        IF n.delay > 0 THEN n.closed := greatest(n.closed, t + n.delay * 1000); END IF;
        PERFORM pg_notify('@prefix' || n.client, format('L %s %s', encode(n.owner, 'hex'), n.token));
        PERFORM @ring_1(n.client);
        n.owner := NULL;
        n.taken := 0;
        n.holders := 0;
    ELSE
        SELECT * INTO h FROM @holders x WHERE x.name = p_name AND x.current = p_token AND x.until >= t;
        IF NOT FOUND THEN RETURN; END IF;
        DELETE FROM @holders x WHERE x.name = p_name AND x.owner = h.owner;
        IF h.delay > 0 THEN
            n.closed := greatest(n.closed, t + h.delay * 1000);
            n.delay := greatest(n.delay, h.delay);
        END IF;
        PERFORM pg_notify('@prefix' || h.client, format('L %s %s', encode(h.owner, 'hex'), h.token));
        PERFORM @ring_1(h.client);
        n.taken := n.taken - h.permits;
        n.holders := n.holders - 1;
    END IF;
    verdict := 'B';
    n := @turn_1(n);
    PERFORM @save_1(n);
END
$$;
