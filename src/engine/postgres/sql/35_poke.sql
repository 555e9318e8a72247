-- Something of the name is over: end it, hand over, and say when the next is.
CREATE OR REPLACE FUNCTION @poke_1(p_name bytea, OUT ms int8) LANGUAGE plpgsql AS $$
DECLARE
    n @names;
BEGIN
    ms := 0;
    SELECT * INTO n FROM @names x WHERE x.name = p_name FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    n := @turn_1(n);
    ms := @next_1(n, @us_1());
    PERFORM @save_1(n);
END
$$;
