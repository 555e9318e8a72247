-- The server's clock.
CREATE OR REPLACE FUNCTION @us_1() RETURNS int8 LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8
$$;
