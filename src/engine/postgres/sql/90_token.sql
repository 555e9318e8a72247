-- Raise a name's token, for native locks (mode=row and mode=session with tokens=on).
CREATE OR REPLACE FUNCTION @token_1(p_name bytea, p_tokens int8) RETURNS TABLE (o_token int8) LANGUAGE plpgsql AS $$
DECLARE
    t int8 := @us_1();
    below int8 := 0;
BEGIN
    FOR i IN 1 .. 2 LOOP
        UPDATE @names x SET last = greatest(x.last + 1, below + 1, t) + p_tokens - 1
        WHERE x.name = p_name AND greatest(x.last + 1, below + 1, t) < 9007199254740992 - p_tokens
        RETURNING x.last - p_tokens + 1 INTO o_token;
        IF FOUND THEN RETURN NEXT; RETURN; END IF;
        INSERT INTO @names (name) VALUES (p_name) ON CONFLICT DO NOTHING;
        IF FOUND THEN below := coalesce(@floor_1(), 0); END IF;
    END LOOP;
END
$$;
