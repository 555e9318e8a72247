-- SPDX-License-Identifier: MIT
--
-- The permit rules: expiry and hand-over. Every script that changes a name uses these, so that all of them keep the
-- invariants of state.lua.

-- The keys of the queue. (A script of many names, or one that leaves the queue alone, has others there.)
wkey, qkey = KEYS[2], KEYS[3]

-- include: thin
-- include: inbox
-- include: tell

-- What a holder with these flags wants.
local function wish(flags)
    return flags >= LINGERS and 2 or flags >= WATCHED and 1 or 0
end

-- Whether others wait, for the answer to a holder with these flags.
local function behind(flags)
    return flags >= WATCHED and waiters > 0 and 1 or nil
end

-- Make a thin name that is held full: the same holder, with the same tokens and deadline, in one write. Returns the state.
local function inflate(state)
    local token, expiry = unpack('<dd', state, 2)
    local field, record, deadline = thin_holder(state)
    state = pack(STATE, FULL, wish(byte(state, REQUEST_AT + 26)), 0, 1, 1, 1, 0, math.max(token, us - 1), deadline, deadline, 0, 0, expiry, 0, SWEEP)
    call('HDEL', name, sub(field, 2)) -- also a write that needs no memory
    call('HSET', name, 'm', state, field, record)
    return state
end

-- The state as it counts: a thin name whose owner's field is gone was released.
local function settled(state)
    if state and byte(state) == HELD and call('HEXISTS', name, (unpack('c16', state, REQUEST_AT))) == 0 then
        return pack('<B', FREE) .. sub(state, 2, 17)
    end
    return state
end

-- The state of the name and the record of this owner. If it holds the thin name, or with `anyway`, that becomes full.
-- The third result is true for a thin name that somebody else holds.
local function read(owner, anyway, known)
    local state = settled(known or call('HGET', name, 'm'))
    if not state or byte(state) == FREE then return state end
    if byte(state) == HELD then
        if not anyway and sub(state, REQUEST_AT, REQUEST_AT + 15) ~= owner then return state, false, true end
        state = inflate(state)
    end
    return state, call('HGET', name, 'h' .. owner)
end

-- Begin with a name that is not held in the thin form: `state` is its field m.
local function open(state)
    dirty, fields, said, back, untold, sized, used = false, {}, {}, false, false, false, nil
    if not state or byte(state) == FREE then
        watched, mode, capacity, taken, holders, waiters, had, last, exp = 0, 0, 0, 0, 0, 0, 0, 0, 0
        soon, far, closed, tomb, wexp, sweep = 0, 0, 0, 0, 0, SWEEP
        if state then last, exp = unpack('<dd', state, 2) end
        return
    end
    if byte(state) ~= FULL then
        error('this name was written by another version of Holdfast')
    end
    version, watched, mode, capacity, taken, holders, waiters, last, soon, far, closed, tomb, exp,
        wexp, sweep = unpack(STATE, state)
    if mode == SIZED then mode, sized = SEMAPHORE, true end
    had = waiters
    back = last > us + BACK
    local delay = back and closed > now and call('HGET', name, 'c')
    local most = delay and now + unpack('<d', delay) or closed
    if closed > most then closed, dirty = most, true end
end

-- Write fields of a hash: field, value, ...; however many.
local function hset(key, list)
    for i = 1, #list, 1000 do
        call('HSET', key, spread(list, i, math.min(i + 999, #list)))
    end
end

-- Write the state and the holder records, and let the key live long enough. An idle name keeps its
-- last token for at least SLACK after that token's time has passed. If nothing of it counts any more, it becomes thin; but one
-- whose size was set stays. The winners are notified after that: a script that fails before has not announced a grant that is not stored.
local function save()
    local idle = holders == 0 and waiters == 0 and tomb == 0 and now > closed
    if us - 1 > last then last = us - 1 end -- no token is passed over by that
    local need = last / 1000
    if now > need then need = now end
    if holders == 0 and tomb == 0 then far = 0 end
    if far > need then need = far end
    if closed > need then need = closed end
    if waiters > 0 and wexp > need then need = wexp end
    need = need + SLACK
    local moved = exp < need or exp > need + 10 * SLACK
    if sized then
        moved, exp = exp ~= NEVER, NEVER
    elseif moved then
        exp = math.ceil(need + SLACK)
    end
    if idle then
        if closed > 0 then call('HDEL', name, 'c') end
        if mode == 1 then call('HDEL', name, 'u') end
        closed, fields = 0, {}
    end
    if idle and not sized then
        call('HSET', name, 'm', pack('<Bdd', FREE, last, exp))
    else
        fields[#fields + 1] = 'm'
        fields[#fields + 1] = pack(STATE, FULL, watched, sized and SIZED or mode, capacity, taken, holders, waiters, last,
            soon, far, closed, tomb, exp, wexp, sweep)
        hset(name, fields)
    end
    if moved then call('PEXPIREAT', name, exp) end
    for i = 1, #said, 2 do redis.pcall('PUBLISH', said[i], said[i + 1]) end
    if untold then tell('W', ' 1') end
    -- Of those that this call has granted to, each knows by its grant.
    if watched > 0 and had > 0 and waiters == 0 and holders > #said / 2 then tell('W', ' 0') end
end

-- Delete fields of a hash, however many.
local function hdel(key, list)
    for i = 1, #list, 1000 do
        call('HDEL', key, spread(list, i, math.min(i + 999, #list)))
    end
end

-- The queue's keys are gone, or hold nobody alive.
local function forget_queue()
    call('DEL', wkey, qkey)
    waiters, wexp, sweep, dirty = 0, 0, SWEEP, true
end

-- A holder that ended uncleanly at `ended` closes the name for its lock delay.
local function close(ended, delay)
    if delay > 0 and ended + delay > closed then
        closed = ended + delay
        fields[#fields + 1], fields[#fields + 2] = 'c', pack('<d', delay)
        dirty = true
    end
end

-- Remove expired records. Reads the records only when `soon` or `tomb` says that there may be one, or while they may
-- be too far ahead (`back`), and then computes the true bounds and counts again. A record that ends later than it can
-- was written before the clock went back.
local function expire()
    if waiters > 0 and now > wexp then forget_queue() end
    if not (holders > 0 and (back or now > soon) or tomb > 0 and (back or now > tomb)) then return end
    local all, dead, moved = call('HGETALL', name), {}, {}
    soon, far, tomb, taken, holders, watched = 0, 0, 0, 0, 0, 0
    for i = 1, #all, 2 do
        local field, record = all[i], all[i + 1]
        local kind = byte(field)
        if kind == 104 then -- h
            local deadline, token, tokens, permits, delay, ttl, since, flags, window = unpack(HOLDER, record)
            local most = now + math.max(ttl, window)
            if deadline > most then
                deadline = most
                moved[#moved + 1], moved[#moved + 2] = field, pack('<d', deadline) .. sub(record, 9)
            end
            if now > deadline then
                dead[#dead + 1] = field
                close(deadline, delay)
            else
                taken, holders, watched = taken + permits, holders + 1, math.max(watched, wish(flags))
                if soon == 0 or deadline < soon then soon = deadline end
                if deadline + delay > far then far = deadline + delay end
            end
        elseif kind == 120 then -- x
            local over, ms = unpack('<dd', record)
            local most = now + ms
            if over > most then
                over = most
                moved[#moved + 1], moved[#moved + 2] = field, pack('<d', over) .. sub(record, 9)
            end
            if now > over then
                dead[#dead + 1] = field
            else
                if over > tomb then tomb = over end
                if over > far then far = over end
            end
        end
    end
    hdel(name, dead)
    if moved[1] then
        call('HDEL', name, '') -- a write that needs no memory
        hset(name, moved)
    end
    if not back or dead[1] or moved[1] then dirty = true end
end

-- The block of tokens that a grant would get: the first, and how many (see AHEAD); nil if none is left.
local function next_tokens(count, flags)
    local first, ahead = last + 1, flags >= LINGERS and AHEAD_LINGERING or AHEAD
    if us > first then first = us end
    if first + count > us + ahead then count = math.max(1, us + ahead - first) end
    if first > TOKEN_LIMIT - count then return nil end
    return first, count
end

local function take_tokens(count, flags)
    local first, given = next_tokens(count, flags)
    if first then last = first + given - 1 end
    return first, given
end

-- Give numbers to so many permits. The holders are looked at once in a call: after its first grant it removes none. (Those
-- that this call has granted before have numbers only by this.)
local function take_numbers(permits)
    if not used then
        used, lowest = {}, 0
        local all = call('HGETALL', name)
        for i = 1, #all, 2 do
            local own, flags = 0, 0
            if byte(all[i]) == 104 then own, flags = unpack('<d', all[i + 1], 25), unpack('<d', all[i + 1], 57) end -- h
            for at = 1, flags % 2 == NUMBERED and own or 0 do used[unpack('<I4', all[i + 1], HOLDER_LEN + 4 * at - 3)] = true end
        end
    end
    local numbers = {}
    while #numbers < permits do
        if not used[lowest] then numbers[#numbers + 1] = pack('<I4', lowest) end
        lowest = lowest + 1
    end
    return table.concat(numbers)
end

-- The answer of a grant: with the numbers of its permits, if they have some.
local function granted(token, count, left, permits, flags, record)
    if flags % 2 ~= NUMBERED then return { 'G', token, count, left, behind(flags) } end
    return { 'G', token, count, left, behind(flags) or 0, sub(record, HOLDER_LEN + 1, HOLDER_LEN + 4 * permits) }
end

-- Add a holder. The caller has seen that it fits, and that `token` begins its block.
local function hold(owner, token, tokens, permits, delay, ttl, duration, window, flags, client, label)
    local deadline = now + duration
    watched = holders == 0 and wish(flags) or math.max(watched, wish(flags))
    taken, holders = taken + permits, holders + 1
    if holders == 1 or deadline < soon then soon = deadline end
    if deadline + delay > far then far = deadline + delay end
    if flags % 2 == NUMBERED then label = take_numbers(permits) .. label end
    local record = pack(HOLDER, deadline, token, tokens, permits, delay, ttl, now, flags, window, token, 0, client) .. label
    fields[#fields + 1], fields[#fields + 2] = 'h' .. owner, record
    dirty = true
    return record
end

-- The holder's deadline becomes `deadline` (and its ttl `ttl`, if there is one).
local function extend(owner, record, deadline, delay, ttl)
    if deadline < soon then soon = deadline end
    if deadline + delay > far or holders == 1 and tomb == 0 then far = deadline + delay end
    fields[#fields + 1] = 'h' .. owner
    fields[#fields + 1] = pack('<d', deadline) .. sub(record, 9, 40) .. pack('<d', ttl) ..
        sub(record, 49)
    dirty = true
end

-- A waiter leaves the queue.
local function leave(owner)
    call('LREM', qkey, 1, owner)
    call('HDEL', wkey, owner)
    waiters, dirty = waiters - 1, true
    if waiters <= 0 then waiters, wexp, sweep = 0, 0, SWEEP end
end

-- The clock was set back: every waiter counts as heard now, and has one window for its next heartbeat.
local function hear_all()
    local all, heard = call('HGETALL', wkey), {}
    for i = 1, #all, 2 do
        if unpack('<d', all[i + 1]) > now then
            heard[#heard + 1], heard[#heard + 2] = all[i], pack('<d', now) .. sub(all[i + 1], 9)
        end
    end
    call('HDEL', wkey, '') -- a write that needs no memory
    hset(wkey, heard)
end

-- The first waiter that is alive, and its record; those before it leave.
local function head()
    while waiters > 0 do
        local owner = call('LINDEX', qkey, 0)
        if not owner then
            forget_queue()
            return nil
        end
        local record = call('HGET', wkey, owner)
        if record then
            local beat, window = unpack('<dd', record)
            if beat > now then hear_all() end
            if now <= beat + window then return owner, record end
        end
        leave(owner)
    end
end

-- Would a message to this waiter reach nobody? Only if that is known: a server that keeps both the name and the inbox
-- counts its listeners (not in a cluster, where an inbox is at any node; nor without the right to ask).
local function deaf(record)
    local beat, window, permits, tokens, ttl, delay, flags, since, attempt, client = unpack(WAITER, record)
    if flags % 16 < HEARS or now <= beat + FRESH then return false end
    return redis.pcall('PUBSUB', 'NUMSUB', inbox_of(client))[2] == 0
end

-- The first waiter that is alive and would receive the message of a grant, and its record. (The caller, if it waits,
-- gets the answer.) A waiter without a listener is usually dead, and would keep the name for its window. It is passed
-- over and keeps its place: nothing is granted or sent to it, so it cannot believe that it holds, wherever it may be
-- connected. (What PUBLISH answers would be too late: a message that reached nobody here may reach a client at a
-- replica.) If it lives, its next heartbeat is its turn.
local function heir()
    local at = 0
    while at < waiters do
        local owner = call('LINDEX', qkey, at)
        if not owner then
            if at == 0 then forget_queue() end
            return nil
        end
        local record = call('HGET', wkey, owner)
        local beat, window = 0, 0
        if record then beat, window = unpack('<dd', record) end
        if beat > now then hear_all() end
        if now > beat + window then
            leave(owner)
        elseif at == DEAF or not deaf(record) then
            return owner, record
        else
            at = at + 1
        end
    end
end

-- The record of a waiter that sends heartbeats but has no listener: from now on it is granted in its turn all the
-- same, and its heartbeats find that out. So it loses a turn once at most.
local function spoken(record)
    if not deaf(record) then return record end
    return sub(record, 1, 48) .. pack('<d', unpack('<d', record, 49) - HEARS) .. sub(record, 57)
end

-- Does a request fit in the place of the holder with this record? If so, the holder's permits are free; the caller removes the record, and
-- gives the request at least the time that is returned: its process counts on the old one until it has the answer. A request for no
-- more than the holder has does not wait for the end of a lock delay either.
local function place_for(record, permits)
    local deadline, token, tokens, own = unpack(HOLDER, record)
    if now <= closed and permits > own or permits > capacity - taken + own then return nil end
    taken, holders, dirty = taken - own, holders - 1, true
    return math.max(deadline - now, 0)
end

-- The waiter takes the place of a holder (field u: that one's owner, and the waiter's), if that one is still there and it fits.
local function make_place(owner, permits)
    local pair = mode == 1 and call('HGET', name, 'u')
    if not pair or sub(pair, 17) ~= owner then return 0 end
    local field = 'h' .. sub(pair, 1, 16)
    local record = call('HGET', name, field)
    local left = record and place_for(record, permits)
    if not left and record then return 0 end
    call('HDEL', name, 'u', field)
    for i = #fields - 1, 1, -2 do -- nor is it written again by this call
        if fields[i] == field then
            table.remove(fields, i + 1)
            table.remove(fields, i)
        end
    end
    return left or 0
end

-- Grant to the first waiters in order, as long as the first one fits: nobody behind it is looked
-- at, so a writer or a large request is never overtaken here. Each winner gets its window, and save() tells
-- it on its inbox; a message that cannot be sent is one that is lost, and heartbeats make up for it.
-- Returns true if there is room and no waiter would receive the message.
local function promote()
    while waiters > 0 and now > closed and taken < capacity do
        local owner, record = heir()
        if not owner then return true end
        local beat, window, permits, tokens, ttl, delay, flags, since, attempt, client = unpack(WAITER, record)
        local left = permits > capacity - taken and next_tokens(tokens, flags) and make_place(owner, permits) or 0
        if permits > capacity - taken then return end
        local token, count = take_tokens(tokens, flags)
        if not token then return end
        leave(owner)
        local held = hold(owner, token, count, permits, delay, math.max(ttl, left), math.max(window, left), window, flags,
            client, sub(record, WAITER_LEN + 1))
        local reply = granted(token, count, window, permits, flags, held)
        said[#said + 1] = inbox_of(client)
        said[#said + 1] = 'G' .. owner .. string.format(' %.0f %.0f %.0f %.0f', attempt, token, count, window) ..
            (reply[5] and ' ' .. reply[5] or '') .. (reply[6] and ' ' .. reply[6] or '')
    end
end

-- The queue's keys live on for a waiter with this window. With `always` something is written
-- that needs no memory (see above).
local function touch_queue(window, always)
    if wexp <= now + window then
        wexp, dirty = math.ceil(now + window + SLACK), true
    elseif not always then
        return
    end
    call('PEXPIREAT', wkey, wexp)
    call('PEXPIREAT', qkey, wexp)
end

-- Milliseconds until something can change by itself; 0: never, or not known.
local function next_change()
    if now <= closed then return closed - now + 1 end
    if holders > 0 then return soon - now + 1 end
    return 0
end

-- What to answer to a waiter: `next` is for the first one only. Every token given so far is at most
-- `last`, so a grant message with a larger one was made after this answer, to a waiter that was in the
-- queue at this moment. One with a token up to `last` tells of a grant that was before, and has ended.
local function still_waiting(owner)
    if waiters > 1 and head() ~= owner then return { 'Q', 0, last } end
    if watched > 0 and said[1] then
        untold = true
    elseif watched > 0 then
        tell('W', ' 1')
    end
    return { 'Q', next_change(), last }
end

-- Leave a tombstone: an acquire of this owner that comes late is refused.
local function bury(owner, ms)
    local over = now + ms
    fields[#fields + 1] = 'x' .. owner
    fields[#fields + 1] = pack('<dd', over, ms)
    if tomb == 0 then tomb = over end
    if over > far then far = over end
    dirty = true
end
