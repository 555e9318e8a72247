-- Tables of version 8 have no columns for those that replace a holder, and for numbers. The rows of names are locked first, as every function does it.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = '@waiters'::regclass AND attname = 'replaces') THEN
        LOCK TABLE @names IN EXCLUSIVE MODE;
        ALTER TABLE @waiters ADD COLUMN replaces bytea;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = '@holders'::regclass AND attname = 'slots') THEN
        LOCK TABLE @names IN EXCLUSIVE MODE;
        ALTER TABLE @holders ADD COLUMN slots int4[];
    END IF;
END
$$;
