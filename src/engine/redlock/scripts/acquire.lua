-- SPDX-License-Identifier: MIT
--
-- Acquire at this node, join its queue, or refuse.
--
-- Safe: granted only in the node's epoch, if it fits, after expired records were removed, and (unless it may barge)
-- only if nobody waits; the counter is raised in the same step. Idempotent: an attempt that holds or waits already is
-- found and gets the same answer again. A later attempt of the same owner takes the place of the earlier one, which its
-- client has given up. An owner with a tombstone was released by a client that did not know whether this acquire would
-- still arrive.

local ckey, field, request = KEYS[1], ARGV[1], ARGV[2]
local call, pack, read, sub = redis.call, struct.pack, struct.unpack, string.sub
local flags, ttl, window, tokens, wanted, stamp = read('<Bddddd', request, 63)
local last = sub(request, 104, 140)
local home = call('HMGET', ckey, 'm', field, last)

-- The common case first, as the rules below would decide it: a mutex that nobody holds or waits for. Its counter's field
-- says that it is free, or has the last lease, of which a release has taken the other field: often that of the caller, which
-- knows it. The request stays as it came: most are overwritten without anybody's having read them.
if home[1] and home[2] and not ARGV[3] and #home[2] ~= 9 and string.find(home[1], sub(request, 1, 25), 1, true) == 1 and
    (#home[2] == 8 or not home[3] and sub(home[2], 50, 86) == last or
    call('HEXISTS', ckey, sub(home[2], 50, 86)) == 0) then
    local max_ttl, top = read('<dd', home[1], 50)
    local clock, c, proposed = call('TIME'), read('<d', home[2]) + tokens, wanted + tokens - 1
    local us = clock[1] * 1000000 + clock[2]
    local now = (us - us % 1000) / 1000
    if proposed > c and (proposed <= top or wanted <= us + 60000000) then c = proposed end
    if ttl <= max_ttl and window <= max_ttl and c < 9007199254740992 then
        local lease = pack('<ddd', c, now + ttl, now) .. request
        if c <= top then
            call('HSET', ckey, field, lease, sub(request, 26, 62), '')
        else
            call('HSET', ckey, field, lease, sub(request, 26, 62), '', 'm', sub(home[1], 1, 57) ..
                pack('<d', math.min(c + 1000000, 9007199254740991)) .. sub(home[1], 66))
        end
        return c
    end
end

-- include: clock
-- include: state

local id, epoch, owner, attempt = sub(field, 2), sub(request, 2, 25), sub(request, 31, 62), unpack('<I4', request, 27)
local want_mode, want_capacity, permits, delay, start = 0, 1, 1, 0, 0
if ARGV[3] then want_mode, want_capacity, permits, delay, start = unpack('<ddddd', ARGV[3]) end
local kept = flags - flags % 4 -- with HEARS
if flags >= NUMBERED_WISH then kept = kept - NUMBERED_WISH + NUMBERED end
local inbox, label = sub(request, 142, 141 + byte(request, 141)), sub(request, 142 + byte(request, 141))
local key, wkey, qkey = KEYS[2], KEYS[3], KEYS[4]
local got = call('HMGET', key, 'm', 'h' .. owner, 'x' .. owner)

-- The other common case: a live holder has all of it, so the request is queued or refused. (HSETNX adds nothing if we
-- are in it already, and then the rules below decide.)
if home[1] and home[2] and #home[2] == FULL_LEN and got[1] and byte(got[1]) == VERSION and not got[2] and not got[3] and
    sub(home[1], 1, 25) == sub(request, 1, 25) then
    local version, mode, capacity, taken, holders, waiters, soon, far, closed, tomb, exp, wexp, sweep, seen, watched, lingers =
        unpack(STATE, got[1])
    local max_ttl = unpack('<d', home[1], 50)
    if taken == capacity and mode == want_mode and capacity == want_capacity and now <= soon and now >= seen and
        (watched == 0 or waiters > 0) and
        (tomb == 0 or now <= tomb) and ttl + delay <= max_ttl and window + delay <= max_ttl and
        (mode ~= 2 or permits <= SLOTS_MAX) then
        local next_change = now <= closed and closed - now + 1 or soon - now + 1
        if flags % 2 < 1 and waiters == 0 then return { 'B', next_change, lingers } end
        local c, proposed = unpack('<d', home[2]) + tokens, wanted + tokens - 1
        if proposed > c and (wanted <= us + AHEAD or proposed <= unpack('<d', home[1], 58)) then c = proposed end
        local stamp = stamp
        if stamp > us then stamp = us elseif stamp < us - BELIEVED then stamp = us - BELIEVED end
        if flags % 2 >= 1 and waiters < sweep and (waiters == 0 or now <= wexp) and c < TOKEN_LIMIT and
            call('HSETNX', wkey, owner, pack(WAITER, now, window, permits, tokens, ttl, delay,
                kept, now, attempt, stamp, start, #inbox) ..
                epoch .. inbox .. label) == 1 then
            call('ZADD', qkey, string.format('%.0f', stamp), owner)
            if waiters == 0 or wexp <= now + window then
                wexp = math.ceil(now + window + SLACK)
                call('PEXPIREAT', wkey, wexp)
                call('PEXPIREAT', qkey, wexp)
            end
            local need = math.max(far, closed, wexp) + SLACK
            local moved = exp < need or exp > need + 10 * SLACK
            if moved then exp = math.ceil(need + SLACK) end
            call('HSET', key, 'm', pack(STATE, VERSION, mode, capacity, taken, holders, waiters + 1, soon, far,
                closed, tomb, exp, wexp, sweep, now, watched, lingers) .. sub(got[1], STATE_LEN + 1))
            if moved then call('PEXPIREAT', key, exp) end
            -- (Behind waiters it may be the first all the same, by its stamp. One of those knows when to look.)
            return { 'Q', waiters > 0 and 0 or next_change, (unpack('<d', home[2])) }
        end
    end
end

-- include: common

n.key, n.wkey, n.qkey, n.id = key, wkey, qkey, id

if not home[1] then return { 'U' } end
n.join(home[1])
if epoch ~= node.epoch then return { 'E', node.epoch } end
if math.max(ttl, window) + delay > node.max_ttl then return { 'T', node.max_ttl } end
if want_mode == 2 and permits > SLOTS_MAX then error('too many slots for one lease') end
local wait, barge = flags % 2 >= 1, flags % 4 >= 2
node.proposal = wanted
got = n.load(owner, true, got, home[2])
n.expire()

local function answer(reply)
    n.promote()
    if n.dirty then n.save() end
    return reply
end

if got[3] then
    local highest, over = unpack('<dd', got[3])
    if now <= over and attempt <= highest then return answer({ 'X' }) end
end

local replaced = false -- it held with an earlier attempt
if got[2] then
    local deadline, own_ttl, own_window, c, held, tid, own_tokens, own_permits, own_delay, since, own_flags, own,
        own_stamp, own_start, limit, inbox_len, slots_len = unpack(HOLDER, got[2])
    if now <= deadline then
        local slots = n.slots_of(got[2], inbox_len, slots_len)
        if own > attempt then return answer({ 'X' }) end
        if own == attempt then
            if sub(got[2], HOLDER_EPOCH, HOLDER_LEN) ~= node.epoch then return answer({ 'X' }) end
            if now + ttl > deadline then deadline, own_ttl = now + ttl, math.max(ttl, own_ttl) end
            n.extend(owner, got[2], deadline, own_ttl, own_window, own_delay)
            return answer({ 'G', c, own_tokens, deadline - now, slots })
        end
        call('HDEL', n.key, 'h' .. owner)
        n.vacate(own_permits, slots, own_flags)
        replaced = true
    end
end

-- In the queue already: alive again, in the same place.
local mine = n.waiters > 0 and call('HGET', n.wkey, owner)
if mine then
    local beat, w, p, k, t, d, f, since, own, own_stamp = unpack(WAITER, mine)
    if own > attempt then return answer({ 'X' }) end
    if wait and n.mode == want_mode and n.capacity == want_capacity then
        n.queue(owner, window, permits, tokens, ttl, delay, kept, since, attempt, own_stamp, start, inbox, label)
        n.touch_queue(window)
        n.promote()
        return answer(n.place(owner))
    end
    n.leave(owner)
end

if not replaced then barge = n.promote() or barge end -- if no waiter can receive messages, nobody live is overtaken
if n.holders == 0 and n.waiters > 0 then n.head() end
if n.holders == 0 and n.waiters == 0 then
    if now > n.closed or wait then n.mode, n.capacity, n.used = want_mode, want_capacity, '' end
elseif n.mode ~= want_mode or n.capacity ~= want_capacity then
    return answer({ 'M', n.mode, n.capacity })
end

if now > n.closed and permits <= n.capacity - n.taken and (barge or replaced or n.waiters == 0) then
    local c = n.raise(tokens)
    if not c then return answer({ 'F' }) end
    if not ARGV[3] and n.holders == 0 and n.waiters == 0 and n.tomb == 0 then
        n.lease = pack('<ddd', c, now + ttl, now) .. request
        return answer(c)
    end
    local slots = n.hold(owner, ttl, ttl, window, c, tokens, permits, delay, kept, attempt, stamp, start, inbox,
        label)
    if n.mode ~= 2 then return answer(c) end
    return answer({ 'G', c, tokens, ttl, slots })
end
if not wait then return answer({ 'B', n.next_change(), n.waiters == 0 and n.lingers or 0 }) end
if not n.next_count(tokens) then return answer({ 'F' }) end

-- Join the queue. A long one is first searched for dead waiters, which would otherwise stay until it is their turn.
if n.waiters >= n.sweep then
    local all, dead = call('HGETALL', n.wkey), {}
    for i = 1, #all, 2 do
        local beat, w = unpack('<dd', all[i + 1])
        if now > beat + w then dead[#dead + 1] = all[i] end
    end
    for i = 1, #dead do n.leave(dead[i]) end
    n.sweep = math.max(SWEEP, 2 * n.waiters)
end
n.queue(owner, window, permits, tokens, ttl, delay, kept, now, attempt, n.believe(stamp, us), start, inbox, label)
n.waiters = n.waiters + 1
n.touch_queue(window)
n.promote() -- it may be the first
local reply = n.place(owner)
n.save()
return reply
