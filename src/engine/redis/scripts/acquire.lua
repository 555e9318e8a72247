-- SPDX-License-Identifier: MIT
--
-- Acquire, join the queue, or refuse.
--
-- Safe: granted only if it fits, after expired records were removed, and (unless it may barge) only if nobody waits;
-- waiters are served first. Idempotent: an owner that holds or waits already is found by its id and gets the same
-- answer again. An owner with a tombstone was released by a client that did not know whether this acquire would still
-- arrive.

-- include: state

local argv = ARGV
local owner = argv[1]
local want_mode, want_capacity, permits, flags, tokens = argv[2] + 0, argv[3] + 0, argv[4] + 0, argv[5] + 0, argv[6] + 0
local ttl, delay, window, attempt, inbox, label = argv[7] + 0, argv[8] + 0, argv[9] + 0, argv[10], argv[11], argv[12]
local wait, barge, detached = flags % 2 >= 1, flags % 4 >= 2, flags % 16 - flags % 4 -- with HEARS

local got = call('HMGET', name, 'm', 'h' .. owner, 'x' .. owner)

-- The common case first, as the rules below would decide it: the name is known, nobody waits or is
-- dead, the kind is right, it fits.
if got[1] and byte(got[1]) == VERSION and not got[2] and not got[3] then
    version, mode, capacity, taken, holders, waiters, last, soon, far, closed, tomb, exp,
        wexp, sweep = unpack(STATE, got[1])
    if holders > 0 and last > us + BACK then soon = 0 end -- the clock was set back: not here
    if holders == 0 then mode, capacity, soon = want_mode, want_capacity, now + ttl end
    local token, count = last + 1, tokens
    if us > token then token = us end
    if token + count > us + AHEAD then count = math.max(1, us + AHEAD - token) end
    if waiters == 0 and mode == want_mode and capacity == want_capacity and
        permits <= capacity - taken and now <= soon and now > closed and (tomb == 0 or now <= tomb) and
        token <= TOKEN_LIMIT - count then
        local deadline = now + ttl
        last = token + count - 1
        if deadline < soon then soon = deadline end
        if deadline + delay > far then far = deadline + delay end
        local need, moved = far, false
        if last / 1000 > need then need = last / 1000 end
        need = need + SLACK
        if exp < need or exp > need + 10 * SLACK then exp, moved = math.ceil(need + SLACK), true end
        call('HSET', name, 'm', pack(STATE, VERSION, mode, capacity, taken + permits, holders + 1, 0, last,
            soon, far, closed, tomb, exp, wexp, sweep), 'h' .. owner, pack(HOLDER, deadline, token,
            count, permits, delay, ttl, now, detached, window, token, 0, #inbox) .. inbox .. label)
        if moved then call('PEXPIREAT', name, exp) end
        return { 'G', token, count, ttl }
    end
end

-- The other common case: live holders have all permits, so the request is queued or refused. (HSETNX adds nothing if
-- we are in it already, and then the rules below decide.)
local full = version == VERSION and taken == capacity and mode == want_mode and capacity == want_capacity and
    holders > 0 and now <= soon and (tomb == 0 or now <= tomb)
if full and not wait and waiters == 0 then
    return { 'B', now <= closed and closed - now + 1 or soon - now + 1 }
end
if full and wait and waiters < sweep and (waiters == 0 or now <= wexp) and
    last < TOKEN_LIMIT - tokens and us <= TOKEN_LIMIT - tokens then
    local record = pack(WAITER, now, window, permits, tokens, ttl, delay, detached, now, #attempt, #inbox) ..
        attempt .. inbox .. label
    if call('HSETNX', wkey, owner, record) == 1 then
        waiters = waiters + 1
        if call('RPUSH', qkey, owner) ~= waiters then -- a key of the name was evicted: see below
            call('DEL', wkey, qkey)
            call('HSET', wkey, owner, record)
            call('RPUSH', qkey, owner)
            waiters = 1
        end
        local need = far
        if wexp <= now + window or waiters == 1 then
            wexp = math.ceil(now + window + SLACK)
            call('PEXPIREAT', wkey, wexp)
            call('PEXPIREAT', qkey, wexp)
        end
        if last / 1000 > need then need = last / 1000 end
        if now > need then need = now end
        if closed > need then need = closed end
        if wexp > need then need = wexp end
        need = need + SLACK
        local moved = exp < need or exp > need + 10 * SLACK
        if moved then exp = math.ceil(need + SLACK) end
        call('HSET', name, 'm', pack(STATE, VERSION, mode, capacity, taken, holders, waiters, last,
            soon, far, closed, tomb, exp, wexp, sweep))
        if moved then call('PEXPIREAT', name, exp) end
        if waiters > 1 then return { 'Q', 0, last } end
        return { 'Q', now <= closed and closed - now + 1 or soon - now + 1, last }
    end
end

-- include: common

open(got[1])
expire()
if back and got[2] then got[2] = call('HGET', name, 'h' .. owner) end

local function answer(reply)
    if dirty then save() end
    return reply
end

if got[2] then
    local deadline, token, count, own_permits, own_delay, own_ttl = unpack(HOLDER, got[2])
    if now <= deadline then
        if now + ttl > deadline then deadline, own_ttl = now + ttl, math.max(own_ttl, ttl) end
        extend(owner, got[2], deadline, own_delay, own_ttl)
        promote()
        return answer({ 'G', token, count, deadline - now })
    end
end
if got[3] and now <= unpack('<d', got[3]) then
    promote()
    return answer({ 'X' })
end

-- In the queue already: alive again, with the new attempt, in the same place.
local mine = waiters > 0 and call('HGET', wkey, owner)
if mine then
    local beat, w, p, count, t, d, f, since, attempt_len = unpack(WAITER, mine)
    mine = spoken(mine)
    call('HSET', wkey, owner, pack('<dd', now, window) .. sub(mine, 17, 64) ..
        pack('<I4', #attempt) .. sub(mine, 69, 72) .. attempt .. sub(mine, WAITER_LEN + attempt_len + 1))
    touch_queue(window)
    promote()
    if fields[1] then -- perhaps it was us
        for i = 1, #fields, 2 do
            if fields[i] == 'h' .. owner then
                local deadline, token, given = unpack(HOLDER, fields[i + 1])
                return answer({ 'G', token, given, deadline - now })
            end
        end
    end
    return answer(still_waiting(owner))
end

barge = promote() or barge -- if no waiter can receive messages, nobody live is overtaken
if holders == 0 and waiters > 0 and (mode ~= want_mode or capacity ~= want_capacity) then head() end
if holders > 0 or waiters > 0 then
    if mode ~= want_mode or capacity ~= want_capacity then
        return answer({ 'M', mode, capacity })
    end
elseif now > closed or wait then
    mode, capacity = want_mode, want_capacity
end

if now > closed and permits <= capacity - taken and (barge or waiters == 0) then
    local token, count = take_tokens(tokens)
    if not token then return answer({ 'F' }) end
    hold(owner, token, count, permits, delay, ttl, ttl, window, detached, inbox, label)
    save()
    return { 'G', token, count, ttl }
end
if not wait then return answer({ 'B', next_change() }) end
if not next_tokens(tokens) then return answer({ 'F' }) end

-- Append to the queue. A long one is first searched for dead waiters, which would otherwise stay until it is their
-- turn.
if waiters >= sweep then
    local all, dead = call('HGETALL', wkey), {}
    for i = 1, #all, 2 do
        local beat, w = unpack('<dd', all[i + 1])
        if now > beat + w then dead[#dead + 1] = all[i] end
    end
    for i = 1, #dead do leave(dead[i]) end
    sweep = math.max(SWEEP, 2 * waiters)
end
-- If the list is not as long as the queue, one of the keys was evicted alone (on a server that may evict: doctor warns
-- of it). The order of the queue is lost: a new queue begins, and the other waiters, whose heartbeats are answered N,
-- join it again. So nobody waits in a queue that has lost it, and no key of ours stays without an expiry.
if call('RPUSH', qkey, owner) ~= waiters + 1 then
    forget_queue()
    call('RPUSH', qkey, owner)
end
call('HSET', wkey, owner, pack(WAITER, now, window, permits, tokens, ttl, delay, detached, now,
    #attempt, #inbox) .. attempt .. inbox .. label)
waiters = waiters + 1
touch_queue(window, true)
local reply = still_waiting(owner)
save()
return reply
