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
