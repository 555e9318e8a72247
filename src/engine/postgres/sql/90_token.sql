-- Raise a name's token, for native locks (mode=row and mode=session with tokens=on).
CREATE OR REPLACE FUNCTION @token_1(p_name bytea, p_tokens int8) RETURNS TABLE (o_token int8) LANGUAGE plpgsql AS $$
DECLARE
    t int8 := @us_1();
BEGIN
    INSERT INTO @names AS x (name, last) VALUES (p_name, t + p_tokens - 1)
    ON CONFLICT (name) DO UPDATE SET last = greatest(x.last + 1, t) + p_tokens - 1
        WHERE greatest(x.last + 1, t) < 9007199254740992 - p_tokens
    RETURNING x.last - p_tokens + 1 INTO o_token;
    IF FOUND THEN RETURN NEXT; END IF;
END
$$;
