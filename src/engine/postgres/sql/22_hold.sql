-- Add a holder; the caller has checked that it fits and that `first` begins its block. Rows of `holders`
-- are written only with the name's row locked.
CREATE OR REPLACE FUNCTION @hold_1(n @names, t int8, p_owner bytea, p_client int8, p_permits int8, first int8,
    p_tokens int8, p_lasts int8, p_ttl int8, p_delay int8, p_flags int8, p_label bytea)
RETURNS @names LANGUAGE plpgsql AS $$
DECLARE
    ends int8 := t + p_lasts * 1000;
    longest int8 := greatest(p_ttl, p_lasts); -- a window may be longer than the ttl
BEGIN
    IF p_permits = n.capacity THEN
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
            since, label)
        VALUES (n.name, p_owner, p_client, p_permits, ends, first, p_tokens, first, longest, p_delay,
            p_flags, t, p_label);
        n.soon := CASE WHEN n.holders = 0 THEN ends ELSE least(n.soon, ends) END;
        n.ttl := CASE WHEN n.holders = 0 THEN longest ELSE greatest(n.ttl, longest) END;
    END IF;
    n.taken := n.taken + p_permits;
    n.holders := n.holders + 1;
    RETURN n;
END
$$;
