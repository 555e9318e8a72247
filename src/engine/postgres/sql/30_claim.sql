-- Acquire, with what most claims do not need: numbers for its permits (flag 64), which are in the answer; or the place of a holder.
--
-- In the place of a holder, p_replaced: it stands before all that wait, that holder's permits count as free for it, and its
-- grant removes the holder in the same transaction, so nobody comes between. N: there is no such holder. All else as acquire says it.
--
-- Safe: the holder goes only where the claim fits without it, and then at once. A claim for no more than the holder has does not even wait
-- for the end of a lock delay. Its lease does not end before that holder's would have: the client counts on that one until it has the
-- answer. Whoever waits is looked at after that (turn): so those whose time is over are taken out first, and nobody is let in.
-- A claim that holds or waits already is what acquire finds.
CREATE OR REPLACE FUNCTION @claim_1(p_name bytea, p_owner bytea, p_mode int8, p_capacity int8, p_permits int8,
    p_flags int8, p_ttl int8, p_delay int8, p_tokens int8, p_wait int8, p_window int8, p_client int8, p_label bytea, p_replaced bytea,
    OUT verdict text, OUT o_token int8, OUT o_tokens int8, OUT ms int8, OUT o_slots text)
LANGUAGE plpgsql AS $$
DECLARE
    t int8;
    n @names;
    old @holders;
    waiting int8;
    place int8;
BEGIN
    IF p_replaced IS NULL THEN
        SELECT a.verdict, a.o_token, a.o_tokens, a.ms INTO verdict, o_token, o_tokens, ms FROM @acquire_1(p_name, p_owner, p_mode,
            p_capacity, p_permits, p_flags, p_ttl, p_delay, p_tokens, p_wait, p_window, p_client, p_label) a;
        IF verdict IN ('G', 'g') THEN SELECT s.o_slots INTO o_slots FROM @slots_1(p_name, p_owner) s; END IF;
        RETURN;
    END IF;
    verdict := 'N';
    SELECT * INTO n FROM @names x WHERE x.name = p_name FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    waiting := n.waiters;
    n.waiters := 0;
    n := @turn_1(n);
    n.waiters := waiting;
    t := @us_1();
    IF n.owner = p_owner OR EXISTS (SELECT FROM @holders x WHERE x.name = p_name AND x.owner = p_owner)
        OR EXISTS (SELECT FROM @waiters x WHERE x.owner = p_owner) THEN
        PERFORM @save_1(n);
        SELECT a.verdict, a.o_token, a.o_tokens, a.ms INTO verdict, o_token, o_tokens, ms FROM @acquire_1(p_name, p_owner, p_mode,
            p_capacity, p_permits, p_flags, p_ttl, p_delay, p_tokens, p_wait, p_window, p_client, p_label) a;
        RETURN;
    END IF;

    IF n.owner = p_replaced THEN
        old.permits := n.taken;
        old.until := n.soon;
    ELSIF n.owner IS NULL THEN
        SELECT * INTO old FROM @holders x WHERE x.name = p_name AND x.owner = p_replaced;
    END IF;
    o_token := greatest(n.last + 1, t);
    IF old.permits IS NULL THEN
        NULL;
    ELSIF n.mode <> p_mode OR n.capacity <> p_capacity THEN
        verdict := 'M';
        o_token := n.mode;
        ms := n.capacity;
    ELSIF o_token > 9007199254740992 - p_tokens THEN
        verdict := 'F';
    ELSIF p_permits <= n.capacity - n.taken + old.permits AND (t > n.closed OR p_permits <= old.permits) THEN
        IF n.owner IS NOT NULL THEN
            n.owner := NULL;
        ELSE
            DELETE FROM @holders x WHERE x.name = p_name AND x.owner = p_replaced;
        END IF;
        n.taken := n.taken - old.permits;
        n.holders := n.holders - 1;
        o_tokens := least(p_tokens, greatest(1, t + @ahead_1(p_flags) - o_token));
        n.last := o_token + o_tokens - 1;
        n := @hold_1(n, t, p_owner, p_client, p_permits, o_token, o_tokens, greatest(p_ttl, (old.until - t) / 1000 + 1), p_ttl, p_delay,
            p_flags, p_label);
        n := @turn_1(n);
        verdict := CASE WHEN n.waiters > 0 AND p_flags & 16 = 16 THEN 'g' ELSE 'G' END;
        ms := p_ttl;
        PERFORM @save_1(n);
        RETURN;
    ELSIF p_wait = 0 THEN
        verdict := 'B';
        o_tokens := 0;
        ms := @next_1(n, t);
    ELSE
        SELECT coalesce(min(x.seq) - 1, n.head) INTO place FROM @waiters x WHERE x.name = p_name;
        INSERT INTO @waiters (owner, name, seq, client, permits, tokens, span, ttl, delay, flags, since, label, replaces)
        OVERRIDING SYSTEM VALUE VALUES (p_owner, p_name, place, p_client, p_permits, p_tokens, p_window, p_ttl,
            p_delay, p_flags, t, p_label, p_replaced);
        n.head := least(n.head, place - 1);
        n.waiters := n.waiters + 1;
        IF n.waiters = 1 THEN PERFORM @want_1(n, 'W', '', true); END IF;
        verdict := 'Q';
        o_token := n.last;
        ms := @next_1(n, t);
        PERFORM @save_1(n);
        RETURN;
    END IF;
    n := @turn_1(n);
    PERFORM @save_1(n);
END
$$;
