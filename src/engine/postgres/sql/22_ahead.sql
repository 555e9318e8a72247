-- How far ahead of the clock, in microseconds, a block of tokens may end (10_tables.sql): of a lease that lingers (flag 32) each
-- acquisition of its process takes one.
CREATE OR REPLACE FUNCTION @ahead_1(p_flags int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_flags & 32 = 32 THEN 50000::int8 ELSE 1000::int8 END
$$;
