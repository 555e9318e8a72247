-- SPDX-License-Identifier: MIT
--
-- Acquire, join the queue, or refuse.
--
-- Safe: granted only if it fits, after expired records were removed, and (unless it may barge) only if nobody waits;
-- waiters are served first. Idempotent: an owner that holds or waits already is found by its id and gets the same
-- answer again. An owner with a tombstone was released by a client that did not know whether this acquire would still
-- arrive.
--
-- A name that nobody holds is granted in the thin form to a mutex without a lock delay, and the request is stored as it
-- came. A first waiter makes it full, with its own record first: a server that is full refuses that, and nothing has changed.
--
-- A request that takes the place of a holder (`instead`, its owner) stands before all that wait, and that holder's permits count as free
-- for it. Its grant removes the holder in the same call, so nobody comes between.
--
-- Numbers for its permits, and a name whose size was set, are for the rules: the common cases leave them alone. While a size is
-- set, that is the capacity which a semaphore asks for, whatever it says; only its permits must not be more. One that waits
-- already waits on.

-- include: state

local request, block, kind = ARGV[1], ARGV[2], ARGV[3] -- kind: not a plain mutex
local state = call('HGET', name, 'm')
local form = FREE
if state then form = byte(state) end
local thin = form -- HELD: a living holder; FREE: nobody holds
local lapsed -- the owner of a thin lease that nobody has released
-- include: clock
last, exp = 0, 0
if form == HELD and call('HEXISTS', name, (unpack('c16', state, REQUEST_AT))) == 0 then
    thin = FREE -- it was released
    last, exp = unpack('<dd', state, 2)
elseif form == HELD then
    local owner, ttl, window, tokens, flags
    last, exp, soon, owner, ttl, window, tokens, flags = unpack('<dddc16I4I4I2B', state, 2)
    local most = now + (ttl > window and ttl or window)
    if soon > most then -- the clock was set back
        soon = most
        state = sub(state, 1, 17) .. pack('<d', soon) .. sub(state, REQUEST_AT)
        call('HSET', name, 'm', state)
    end
    if now > soon then
        thin, lapsed = FREE, owner
    elseif not kind and byte(request, 27) % 2 == 0 and sub(request, 1, 16) ~= owner then
        return { 'B', soon - now + 1, flags >= LINGERS and 1 or nil }
    end
elseif form == FREE and state then
    last, exp = unpack('<dd', state, 2)
end

if thin == FREE and not kind then
    local count, asked, token = block and block + 0 or 1, block, us
    if token <= last then token = last + 1 end
    local ahead = byte(request, 27) >= LINGERS and AHEAD_LINGERING or AHEAD
    if token + count > us + ahead then
        count = math.max(1, us + ahead - token)
        asked = count
        request = sub(request, 1, 24) .. pack('<I2', count) .. sub(request, 27)
    end
    if token > TOKEN_LIMIT - count then return { 'F' } end
    last = token + count - 1
    local ttl = unpack('<I4', request, 17)
    local deadline, moved = now + ttl, false
    local need = (last / 1000 > deadline and last / 1000 or deadline) + SLACK
    if exp < need or exp > need + 10 * SLACK then exp, moved = math.ceil(need + SLACK), true end
    call('HSET', name, 'm', pack('<Bddd', HELD, last, exp, deadline) .. request, sub(request, 1, 16), '')
    if lapsed and lapsed ~= sub(request, 1, 16) then call('HDEL', name, lapsed) end
    if moved then call('PEXPIREAT', name, exp) end
    if asked == block then return token end
    return { 'G', token, count, ttl }
end

local owner, ttl, window, tokens, flags, client, attempt = unpack(REQUEST, request)
local label = sub(request, REQUEST_LEN + 1)
local want_mode, want_capacity, permits, delay, instead = 0, 1, 1, 0, ARGV[8]
if kind then
    want_mode, want_capacity, permits, delay, ttl = kind + 0, ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0, ARGV[7] + 0
end
local numbered = flags >= NUMBERED_WISH
if numbered then flags = flags - NUMBERED_WISH end
local wait, barge, kept = flags % 2 >= 1, flags % 4 >= 2, flags - flags % DETACHED
if numbered then kept = kept + NUMBERED end
local got, inflated = { false, false }, nil
wkey, qkey = KEYS[2], KEYS[3]
version = form
if form == FULL then
    got = call('HMGET', name, 'h' .. owner, 'x' .. owner)
    version, watched, mode, capacity, taken, holders, waiters, last, soon, far, closed, tomb, exp,
        wexp, sweep = unpack(STATE, state)
elseif thin == HELD then
-- include: thin
    inflated = { thin_holder(state) }
    local held = byte(state, REQUEST_AT + 26)
    watched = held >= LINGERS and 2 or held >= WATCHED and 1 or 0
    version, mode, capacity, taken, holders, waiters, far, closed, tomb, wexp, sweep = FULL, 0, 1, 1, 1, 0, soon, 0, 0, 0, SWEEP
    if us - 1 > last then last = us - 1 end
    if inflated[1] == 'h' .. owner then
        got[1] = inflated[2]
    elseif want_mode ~= mode or want_capacity ~= capacity then
        return { 'M', mode, capacity }
    end
elseif thin == FREE then
    if lapsed then call('HDEL', name, lapsed) end
    version, watched = FULL, 0
    mode, capacity, taken, holders, waiters, far, closed, tomb, wexp, sweep = 0, 0, 0, 0, 0, 0, 0, 0, 0, SWEEP
    state = state and pack('<Bdd', FREE, last, exp)
end

-- The common case first, as the rules below would decide it: nobody waits or is dead, the kind is right, it fits.
if version == FULL and not inflated and not got[1] and not got[2] and not instead and not numbered and mode ~= SIZED then
    if holders > 0 and last > us + BACK then soon = 0 end -- the clock was set back: not here
    if holders == 0 then mode, capacity, soon = want_mode, want_capacity, now + ttl end
    local token, count, ahead = last + 1, tokens, kept >= LINGERS and AHEAD_LINGERING or AHEAD
    if us > token then token = us end
    if token + count > us + ahead then count = math.max(1, us + ahead - token) end
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
        if holders == 0 then watched = 0 end
        if kept >= WATCHED then watched = math.max(watched, kept >= LINGERS and 2 or 1) end
        call('HSET', name, 'm', pack(STATE, FULL, watched, mode, capacity, taken + permits, holders + 1, 0, last,
            soon, far, closed, tomb, exp, wexp, sweep), 'h' .. owner, pack(HOLDER, deadline, token,
            count, permits, delay, ttl, now, kept, window, token, 0, client) .. label)
        if moved then call('PEXPIREAT', name, exp) end
        return { 'G', token, count, ttl }
    end
end

-- The other common case: live holders have all permits, so the request is queued or refused. (HSETNX adds nothing if
-- we are in it already, and then the rules below decide.)
local full = version == FULL and taken == capacity and mode == want_mode and capacity == want_capacity and
    holders > 0 and now <= soon and (tomb == 0 or now <= tomb) and not got[1] and not got[2] and not instead
if full and not wait and waiters == 0 then
    return { 'B', now <= closed and closed - now + 1 or soon - now + 1, watched == 2 and 1 or nil }
end
if full and wait and waiters < sweep and (waiters == 0 or now <= wexp) and
    last < TOKEN_LIMIT - tokens and us <= TOKEN_LIMIT - tokens then
    local record = pack(WAITER, now, window, permits, tokens, ttl, delay, kept, now, attempt, client) .. label
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
        state = pack(STATE, FULL, watched, mode, capacity, taken, holders, waiters, last,
            soon, far, closed, tomb, exp, wexp, sweep)
        if inflated then
            call('HSET', name, 'm', state, inflated[1], inflated[2])
            call('HDEL', name, sub(inflated[1], 2))
        else
            call('HSET', name, 'm', state)
        end
        if moved then call('PEXPIREAT', name, exp) end
        if waiters > 1 then return { 'Q', 0, last } end
        if watched > 0 then
-- include: inbox
-- include: tell
            tell('W', ' 1')
        end
        return { 'Q', now <= closed and closed - now + 1 or soon - now + 1, last }
    end
end

-- include: common

if inflated then
    state = pack(STATE, FULL, watched, 0, 1, 1, 1, 0, last, soon, soon, 0, 0, exp, 0, SWEEP)
    call('HSET', name, 'm', state, inflated[1], inflated[2])
    call('HDEL', name, sub(inflated[1], 2))
end
open(state)
expire()
if back and got[1] then got[1] = call('HGET', name, 'h' .. owner) end

local function answer(reply)
    if dirty then save() end
    return reply
end

if got[1] then
    local deadline, token, count, own_permits, own_delay, own_ttl, since, own_flags = unpack(HOLDER, got[1])
    if now <= deadline then
        if now + ttl > deadline then deadline, own_ttl = now + ttl, math.max(own_ttl, ttl) end
        extend(owner, got[1], deadline, own_delay, own_ttl)
        promote()
        return answer(granted(token, count, deadline - now, own_permits, own_flags, got[1]))
    end
end
if got[2] and now <= unpack('<d', got[2]) then
    promote()
    return answer({ 'X' })
end

-- In the queue already: alive again, with the new attempt, in the same place.
local mine = waiters > 0 and call('HGET', wkey, owner)
if mine then
    mine = spoken(mine)
    call('HSET', wkey, owner, pack('<dd', now, window) .. sub(mine, 17, 64) .. pack('<d', attempt) .. sub(mine, 73))
    touch_queue(window)
    promote()
    if fields[1] then -- perhaps it was us
        for i = 1, #fields, 2 do
            if fields[i] == 'h' .. owner then
                local deadline, token, given, own, d, t, since, own_flags = unpack(HOLDER, fields[i + 1])
                return answer(granted(token, given, deadline - now, own, own_flags, fields[i + 1]))
            end
        end
    end
    return answer(still_waiting(owner))
end

local old = instead and holders > 0 and call('HGET', name, 'h' .. instead)
if instead and not old then
    promote()
    return answer({ 'N' })
end
if old and not next_tokens(tokens, kept) then return answer({ 'F' }) end
local left = old and place_for(old, permits)
if left then
    local token, count = take_tokens(tokens, kept)
    call('HDEL', name, 'h' .. instead)
    hold(owner, token, count, permits, delay, math.max(ttl, left), math.max(ttl, left), window, kept, client, label)
    promote()
    save()
    return { 'G', token, count, ttl, behind(kept) }
end

barge = promote() or barge -- if no waiter can receive messages, nobody live is overtaken
if sized then
    if want_mode ~= mode or permits > capacity then return answer({ 'M', mode, capacity }) end
    want_capacity = capacity
end
if holders == 0 and waiters > 0 and (mode ~= want_mode or capacity ~= want_capacity) then head() end
if holders > 0 or waiters > 0 then
    if mode ~= want_mode or capacity ~= want_capacity then
        return answer({ 'M', mode, capacity })
    end
elseif now > closed or wait then
    mode, capacity = want_mode, want_capacity
end

if now > closed and permits <= capacity - taken and (barge or waiters == 0) and not old then
    local token, count = take_tokens(tokens, kept)
    if not token then return answer({ 'F' }) end
    local held = hold(owner, token, count, permits, delay, ttl, ttl, window, kept, client, label)
    save()
    return granted(token, count, ttl, permits, kept, held)
end
if not wait then return answer({ 'B', next_change(), waiters == 0 and holders > 0 and watched == 2 and 1 or nil }) end
if not next_tokens(tokens, kept) then return answer({ 'F' }) end

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
local push = old and 'LPUSH' or 'RPUSH'
if call(push, qkey, owner) ~= waiters + 1 then
    forget_queue()
    call(push, qkey, owner)
end
if old then call('HSET', name, 'u', instead .. owner) end
call('HSET', wkey, owner, pack(WAITER, now, window, permits, tokens, ttl, delay, kept, now, attempt, client) .. label)
waiters = waiters + 1
touch_queue(window, true)
local reply = still_waiting(owner)
save()
return reply
