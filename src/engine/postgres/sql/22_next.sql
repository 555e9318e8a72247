-- Milliseconds until something of the name can change by itself, at least 1; 0: never.
CREATE OR REPLACE FUNCTION @next_1(n @names, t int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN n.closed >= t THEN (n.closed - t) / 1000 + 1
                WHEN n.holders > 0 THEN greatest((n.soon - t) / 1000 + 1, 1)
                ELSE 0 END
$$;
