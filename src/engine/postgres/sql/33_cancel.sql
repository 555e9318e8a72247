-- Give up waiting. If the grant came first the answer is that grant, with what is left of it.
CREATE OR REPLACE FUNCTION @cancel_1(p_name bytea, p_owner bytea, OUT verdict text, OUT o_token int8,
    OUT o_tokens int8, OUT ms int8)
LANGUAGE plpgsql AS $$
DECLARE
    t int8;
    n @names;
    h @holders;
BEGIN
    verdict := 'N';
    SELECT * INTO n FROM @names x WHERE x.name = p_name FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    DELETE FROM @waiters x WHERE x.owner = p_owner AND x.name = p_name;
    IF FOUND THEN
        n.waiters := n.waiters - 1;
        verdict := 'C';
    END IF;
    IF n.waiters = 0 AND n.holders > 0 AND verdict = 'C' THEN PERFORM @want_1(n, 'U', '', true); END IF;
    n := @turn_1(n); -- it may have been a writer that others waited behind
    t := @us_1();
    IF n.owner = p_owner THEN
        verdict := 'G';
        o_token := n.token;
        o_tokens := n.tokens;
        ms := (n.soon - t) / 1000;
    ELSIF verdict = 'N' THEN
        SELECT * INTO h FROM @holders x WHERE x.name = p_name AND x.owner = p_owner AND x.until >= t;
        IF FOUND THEN
            verdict := 'G';
            o_token := h.token;
            o_tokens := h.tokens;
            ms := (h.until - t) / 1000;
        END IF;
    END IF;
    PERFORM @save_1(n);
END
$$;
