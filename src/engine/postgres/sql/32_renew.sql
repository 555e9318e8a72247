-- Renew leases, of many names at once, which the caller has sorted. Never re-creates: a lease whose end
-- has passed is lost, also if nobody has taken it out yet. The new end may be earlier than the old one. Of several leases,
-- one whose row is locked does not delay the rest: its answer is 2, and it is renewed alone. 3: as 1, and others wait for it; only of
-- those that asked to know (flag 16).
CREATE OR REPLACE FUNCTION @renew_1(p_names bytea[], p_owners bytea[], p_ttls int8[])
RETURNS TABLE (o_index int8, o_there int8) LANGUAGE plpgsql AS $$
DECLARE
    t int8;
    ends int8;
    watched int8;
BEGIN
    FOR i IN 1 .. coalesce(array_length(p_names, 1), 0) LOOP
        o_index := i - 1;
        o_there := 0;
        IF array_length(p_names, 1) > 1 THEN
            PERFORM FROM @names x WHERE x.name = p_names[i] FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                IF EXISTS (SELECT FROM @names x WHERE x.name = p_names[i]) THEN o_there := 2; END IF;
                RETURN NEXT;
                CONTINUE;
            END IF;
        END IF;
        t := @us_1();
        ends := t + p_ttls[i] * 1000;
        UPDATE @names x SET soon = ends, ttl = p_ttls[i]
        WHERE x.name = p_names[i] AND x.owner = p_owners[i] AND x.soon >= t RETURNING x.flags & 16 INTO watched;
        IF FOUND THEN
            o_there := 1;
        ELSIF EXISTS (SELECT FROM @holders x WHERE x.name = p_names[i] AND x.owner = p_owners[i]) THEN
            PERFORM FROM @names x WHERE x.name = p_names[i] FOR UPDATE;
            UPDATE @holders x SET until = ends, ttl = p_ttls[i]
            WHERE x.name = p_names[i] AND x.owner = p_owners[i] AND x.until >= t RETURNING x.flags & 16 INTO watched;
            IF FOUND THEN
                o_there := 1;
                UPDATE @names x SET soon = least(x.soon, ends), ttl = greatest(x.ttl, p_ttls[i])
                WHERE x.name = p_names[i] AND (x.soon > ends OR x.ttl < p_ttls[i]);
            END IF;
        END IF;
        IF o_there = 1 AND watched = 16 AND @waited_1(p_names[i]) THEN o_there := 3; END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
