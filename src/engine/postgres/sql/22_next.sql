-- Milliseconds until something of the name can change by itself, at least 1; 0: never. At once if the clock was set
-- back (turn): every later check would find the end just as far ahead.
CREATE OR REPLACE FUNCTION @next_1(n @names, t int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN n.closed > t + n.delay * 1000 THEN 1
                WHEN n.closed >= t THEN (n.closed - t) / 1000 + 1
                WHEN n.taken > 0 AND n.soon > t + n.ttl * 1000 THEN 1
                WHEN n.taken > 0 THEN greatest((n.soon - t) / 1000 + 1, 1)
                ELSE 0 END
$$;
