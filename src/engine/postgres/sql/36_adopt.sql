-- Adopt a detached lease by its handle, and renew it. Only detached leases can be adopted, with the owner's id
-- and the token: a live process keeps its own.
CREATE OR REPLACE FUNCTION @adopt_1(p_name bytea, p_owner bytea, p_token int8, p_ttl int8)
RETURNS TABLE (o_token int8, o_tokens int8, o_mode int8, o_capacity int8, o_permits int8, o_ttl int8, o_delay int8)
LANGUAGE plpgsql AS $$
DECLARE
    t int8;
    n @names;
    h @holders;
BEGIN
    SELECT * INTO n FROM @names x WHERE x.name = p_name FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    t := @us_1();
    IF n.owner IS NOT NULL THEN
        IF n.owner <> p_owner OR n.token <> p_token OR n.soon < t OR n.flags & 2 = 0 THEN RETURN; END IF;
        o_ttl := CASE WHEN p_ttl > 0 THEN p_ttl ELSE n.ttl END;
        UPDATE @names x SET soon = t + o_ttl * 1000, ttl = o_ttl WHERE x.name = p_name;
        o_permits := n.capacity;
        o_tokens := n.tokens;
        o_delay := n.delay;
    ELSE
        SELECT * INTO h FROM @holders x WHERE x.name = p_name AND x.owner = p_owner AND x.token = p_token
            AND x.until >= t AND x.flags & 2 = 2;
        IF NOT FOUND THEN RETURN; END IF;
        o_ttl := CASE WHEN p_ttl > 0 THEN p_ttl ELSE h.ttl END;
        UPDATE @holders x SET until = t + o_ttl * 1000, ttl = o_ttl WHERE x.name = p_name AND x.owner = p_owner;
        UPDATE @names x SET soon = least(x.soon, t + o_ttl * 1000), ttl = greatest(x.ttl, o_ttl) WHERE x.name = p_name;
        o_permits := h.permits;
        o_tokens := h.tokens;
        o_delay := h.delay;
    END IF;
    o_token := p_token;
    o_mode := n.mode;
    o_capacity := n.capacity;
    RETURN NEXT;
END
$$;
