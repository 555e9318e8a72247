-- The lowest numbers from 0 on that no holder of the name has.
CREATE OR REPLACE FUNCTION @free_1(p_name bytea, p_permits int8) RETURNS int4[] LANGUAGE sql VOLATILE AS $$
    SELECT array_agg(f.g ORDER BY f.g) FROM (
        SELECT g FROM generate_series(0, (SELECT coalesce(sum(array_length(h.slots, 1)), 0) FROM @holders h WHERE h.name = p_name)::int4
            + p_permits::int4 - 1) g
        EXCEPT SELECT unnest(h.slots) FROM @holders h WHERE h.name = p_name ORDER BY 1 LIMIT p_permits) f
$$;

-- The numbers of a holder's permits; no row: there is no such holder.
CREATE OR REPLACE FUNCTION @slots_1(p_name bytea, p_owner bytea) RETURNS TABLE (o_slots text) LANGUAGE sql VOLATILE AS $$
    SELECT array_to_string(h.slots, ',') FROM @holders h WHERE h.name = p_name AND h.owner = p_owner AND h.until >= @us_1()
        AND h.slots IS NOT NULL
$$;

-- Was the size of this name set?
CREATE OR REPLACE FUNCTION @sized_1(p_name bytea) RETURNS bool LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM @holders h WHERE h.name = p_name AND h.owner = '')
$$;

-- Add a holder; the caller has checked that it fits and that `first` begins its block. Rows of `holders`
-- are written only with the name's row locked.
CREATE OR REPLACE FUNCTION @hold_1(n @names, t int8, p_owner bytea, p_client int8, p_permits int8, first int8,
    p_tokens int8, p_lasts int8, p_ttl int8, p_delay int8, p_flags int8, p_label bytea)
RETURNS @names LANGUAGE plpgsql AS $$
DECLARE
    ends int8 := t + p_lasts * 1000;
    longest int8 := greatest(p_ttl, p_lasts); -- a window may be longer than the ttl
BEGIN
    IF p_permits = n.capacity AND n.holders = 0 AND p_flags & 64 = 0 THEN
        n.owner := p_owner;
        n.client := p_client;
        n.token := first;
        n.tokens := p_tokens;
        n.current := first;
        n.tid := 0;
        n.ttl := longest;
        n.delay := p_delay;
        n.flags := p_flags;
        n.since := t;
        n.label := p_label;
        n.soon := ends;
    ELSE
        INSERT INTO @holders (name, owner, client, permits, until, token, tokens, current, ttl, delay, flags,
            since, label, slots)
        VALUES (n.name, p_owner, p_client, p_permits, ends, first, p_tokens, first, longest, p_delay,
            p_flags, t, p_label, CASE WHEN p_flags & 64 = 64 THEN @free_1(n.name, p_permits) END);
        n.soon := CASE WHEN n.taken = 0 THEN ends ELSE least(n.soon, ends) END;
        n.ttl := CASE WHEN n.taken = 0 THEN longest ELSE greatest(n.ttl, longest) END;
    END IF;
    n.taken := n.taken + p_permits;
    n.holders := n.holders + 1;
    RETURN n;
END
$$;
