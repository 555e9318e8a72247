-- Something of the name is over: end it, hand over, and say when the next is. Waits for nobody: those who wait for other
-- names would have to wait too. Who is at the row mostly does the same; if not, there is another time.
CREATE OR REPLACE FUNCTION @poke_1(p_name bytea, OUT ms int8) LANGUAGE plpgsql AS $$
DECLARE
    n @names;
BEGIN
    ms := 0;
    SELECT * INTO n FROM @names x WHERE x.name = p_name FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        IF EXISTS (SELECT FROM @names x WHERE x.name = p_name) THEN ms := 250; END IF;
        RETURN;
    END IF;
    n := @turn_1(n);
    ms := @next_1(n, @us_1());
    PERFORM @save_1(n);
END
$$;
