-- Waking one client. A client that waits has a connection, its bell, that sleeps in nap. Whoever grants to the client writes what
-- there is to tell into `mail` and ends that sleep by pg_cancel_backend, in the same transaction. NOTIFY would wake every client of
-- the database.
--
-- Between a grant and the nap stands the advisory lock of the negative client number, *gate*: a transaction that tells the client
-- something has it, shared, from before it writes until its commit. The look of a nap, and a beat, take it exclusively: they wait for
-- such transactions. So
--   * a wake-up that comes before the commit is no harm: the look waits for the commit;
--   * a wake-up is not lost: it comes after the gate was taken, so either the look waits for that gate, or it was over before, and
--     then the sleep (or the rest of the call, which is then repeated) is what is ended;
--   * the numbers of letters rise in the order in which looks see them: none is under way while a look reads.
--
-- pg_cancel_backend must hit that bell and nothing else. Its lock (clients.bell, a random number of that very connection) is held
-- as long as it lives, so a pid of the past, which another connection may have now, is never used. What runs on a bell may be ended at
-- any time.

-- May we end statements of a connection of this role? As pg_cancel_backend decides it. It costs more than a hand-over: callers compare
-- with current_user before.
CREATE OR REPLACE FUNCTION @may_ring_1(p_role name) RETURNS bool LANGUAGE sql STABLE AS $$
    SELECT p_role = current_user OR coalesce((SELECT CASE WHEN r.rolsuper THEN
            (SELECT m.rolsuper FROM pg_roles m WHERE m.rolname = current_user)
        ELSE pg_has_role(r.oid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE') END
    FROM pg_roles r WHERE r.rolname = p_role), false)
$$;

-- End the nap of this client, if it naps, so that it takes its notifications. Our NOTIFY is sent by the same transaction.
CREATE OR REPLACE FUNCTION @ring_1(p_client int8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    c @clients;
BEGIN
    SELECT * INTO c FROM @clients x WHERE x.client = p_client;
    IF FOUND AND c.bell <> 0 AND NOT pg_try_advisory_xact_lock(c.bell) AND (c.role = current_user OR @may_ring_1(c.role)) THEN
        PERFORM pg_advisory_xact_lock_shared(-p_client);
        PERFORM pg_cancel_backend(c.pid);
    END IF;
END
$$;

-- This connection is the client's bell from now on; it has the lock `bell` already.
CREATE OR REPLACE FUNCTION @bell_1(p_client int8, p_bell int8) RETURNS int4 LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO @clients (client, until, bell, pid, role) VALUES (p_client, @us_1(), p_bell, pg_backend_pid(), current_user)
    ON CONFLICT (client) DO UPDATE SET bell = excluded.bell, pid = excluded.pid, role = excluded.role;
    RETURN pg_backend_pid();
END
$$;

-- Sleep for a while, and tell what comes meanwhile, each letter as INFO "<seq> <words>", which leaves at once. p_told: the last
-- letter that the client has. Returns 0 when the time is over. After a wake-up without a
-- letter it returns early, and not 0: there is a notification, which PostgreSQL hands over when the statement has ended.
--
-- It holds a snapshot, which keeps dead rows from being removed: so it is short. It writes nothing: that would keep a transaction
-- number for as long. The gate is given back by rolling back: a lock of the session would be left taken by a cancel between lock and
-- unlock. All that a cancel may meet is inside the block that catches it; if it meets the rest, the caller calls again.
CREATE OR REPLACE FUNCTION @nap_1(p_client int8, p_told int8, p_ms int8, OUT rings int8) LANGUAGE plpgsql AS $$
DECLARE
    ends timestamptz := clock_timestamp() + p_ms * interval '1 ms';
    told int8 := p_told;
    letters text[];
    last int8;
BEGIN
    rings := 0;
    LOOP
        BEGIN
            BEGIN
                PERFORM pg_advisory_xact_lock(-p_client);
                SELECT array_agg(m.seq || ' ' || m.words ORDER BY m.seq), max(m.seq) INTO letters, last
                FROM @mail m WHERE m.client = p_client AND m.seq > told;
                RAISE EXCEPTION USING ERRCODE = 'HF000';
            EXCEPTION WHEN SQLSTATE 'HF000' THEN
                NULL;
            END;
            IF last IS NOT NULL THEN
                FOR i IN 1 .. array_length(letters, 1) LOOP
                    RAISE INFO '%', letters[i];
                END LOOP;
                told := last;
            ELSIF rings > 0 THEN
                RETURN;
            END IF;
            PERFORM pg_sleep(extract(epoch FROM ends - clock_timestamp()));
            rings := 0;
            RETURN;
        EXCEPTION WHEN query_canceled THEN
            rings := rings + 1;
        END;
    END LOOP;
END
$$;
