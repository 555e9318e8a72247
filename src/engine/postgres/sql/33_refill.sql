-- Renew leases that linger (flag 32), as renew does, and give each a further block of at most p_tokens: above every token of the name,
-- and ending at most 50 ms ahead of the clock; 0 tokens: there is none.
CREATE OR REPLACE FUNCTION @refill_1(p_names bytea[], p_owners bytea[], p_ttls int8[], p_tokens int8[])
RETURNS TABLE (o_index int8, o_there int8, o_token int8, o_tokens int8) LANGUAGE plpgsql AS $$
DECLARE
    t int8;
    n @names;
BEGIN
    FOR i IN 1 .. coalesce(array_length(p_names, 1), 0) LOOP
        o_index := i - 1;
        o_there := 0;
        o_token := 0;
        o_tokens := 0;
        IF array_length(p_names, 1) > 1 THEN
            PERFORM FROM @names x WHERE x.name = p_names[i] FOR UPDATE SKIP LOCKED;
            IF NOT FOUND AND EXISTS (SELECT FROM @names x WHERE x.name = p_names[i]) THEN o_there := 2; END IF;
        END IF;
        IF o_there = 0 THEN
            SELECT r.o_there INTO o_there FROM @renew_1(ARRAY[p_names[i]], ARRAY[p_owners[i]], ARRAY[p_ttls[i]]) r;
        END IF;
        IF o_there IN (1, 3) THEN
            SELECT * INTO n FROM @names x WHERE x.name = p_names[i] AND x.owner = p_owners[i] AND x.flags & 32 = 32;
            IF FOUND THEN
                t := @us_1();
                o_token := greatest(n.last + 1, t);
                o_tokens := least(p_tokens[i], greatest(1, t + @ahead_1(n.flags) - o_token));
                IF o_token > 9007199254740992 - o_tokens THEN
                    o_token := 0;
                    o_tokens := 0;
                ELSE
                    UPDATE @names x SET last = o_token + o_tokens - 1 WHERE x.name = p_names[i];
                END IF;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
