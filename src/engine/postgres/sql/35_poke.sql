-- Recheck: end what has expired, hand over, and return when the next recheck is useful. It does not wait for a locked
-- row: that would delay waiters of other names. The session that has the row mostly does the same; if not, the next
-- recheck does.
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
