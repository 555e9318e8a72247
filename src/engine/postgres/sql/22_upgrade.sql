-- Tables of version 2 have no bells.
ALTER TABLE @clients ADD COLUMN IF NOT EXISTS bell int8 NOT NULL DEFAULT 0, ADD COLUMN IF NOT EXISTS pid int4 NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS role name;
-- Whoever may use the tables of before may use the one that was added.
DO $$
DECLARE
    g record;
BEGIN
    FOR g IN SELECT a.grantee, string_agg(a.privilege_type, ', ') AS rights FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = '@names'::regclass AND a.grantee <> c.relowner GROUP BY 1 LOOP
        EXECUTE format('GRANT %s ON @mail TO %s', g.rights,
            CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE g.grantee::regrole::text END);
    END LOOP;
END
$$;
-- Rows that functions of version 1 have written: a grant by hand-over ended a window ahead beside a ttl that may be shorter, and
-- `delay` did not tell for how long the name is closed. turn would cut such ends. From here on hold writes them as turn needs them
-- (a function that runs already calls the new one), and whoever is at a row is waited for.
DO $$
DECLARE
    t int8;
BEGIN
    LOCK TABLE @names IN EXCLUSIVE MODE;
    t := @us_1();
    UPDATE @holders SET ttl = (until - t) / 1000 + 1 WHERE until > t + ttl * 1000;
    UPDATE @names SET ttl = (soon - t) / 1000 + 1 WHERE holders > 0 AND soon > t + ttl * 1000 AND soon < 9007199254740991;
    UPDATE @names SET delay = (closed - t) / 1000 + 1 WHERE closed > t + delay * 1000;
END
$$;
