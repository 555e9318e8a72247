-- The server's clock.
CREATE OR REPLACE FUNCTION @us_1() RETURNS int8 LANGUAGE sql VOLATILE AS $$
    SELECT (date_part('epoch', clock_timestamp()) * 1000000)::int8
$$;
