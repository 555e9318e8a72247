-- Write back a name's row, which is locked.
CREATE OR REPLACE FUNCTION @save_1(n @names) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE @names SET mode = n.mode, capacity = n.capacity, taken = n.taken, holders = n.holders,
        waiters = n.waiters, last = n.last, closed = n.closed, soon = n.soon, head = n.head, owner = n.owner,
        client = n.client, token = n.token, tokens = n.tokens, current = n.current, tid = n.tid, ttl = n.ttl,
        delay = n.delay, flags = n.flags, since = n.since, label = n.label
    WHERE name = n.name;
END
$$;

-- No row that was removed had a token above this (sweep). To be asked by a statement of its own after the row of a name was made: that
-- waits for the transaction that removed the one before it, and what that one said is seen then. NULL: none was removed yet.
CREATE OR REPLACE FUNCTION @floor_1() RETURNS int8 LANGUAGE sql VOLATILE AS $$
    SELECT last FROM @names WHERE name = ''
$$;
