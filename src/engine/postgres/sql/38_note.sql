-- Note which token of its block holds now, and in which thread, after a lease was passed on inside its process.
-- Names are sorted by the caller. Thread -1: none, it
-- lingers. Says nothing about who owns the lease.
CREATE OR REPLACE FUNCTION @note_1(p_names bytea[], p_owners bytea[], p_tokens int8[], p_tids int8[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. coalesce(array_length(p_names, 1), 0) LOOP
        UPDATE @names x SET current = p_tokens[i], tid = p_tids[i]
        WHERE x.name = p_names[i] AND x.owner = p_owners[i] AND p_tokens[i] >= x.token
            AND (p_tokens[i] < x.token + x.tokens OR (x.flags & 32 = 32 AND p_tokens[i] <= x.last));
    END LOOP;
END
$$;
