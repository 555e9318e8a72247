-- SPDX-License-Identifier: MIT
--
-- The permit rules: who goes, who is next. Every script that changes a name does it with these,
-- so that all of them keep what state.lua says.

-- What the node is part of: the fields m and s of the cluster's key.
local function join(m, s)
    if not m then return end
    if byte(m) ~= VERSION then error('this node was set up by another version of Holdfast') end
    epoch, max_ttl = sub(m, 2, 25), unpack('<d', m, 50)
    top, floor = unpack('<dd', s)
end

-- The caller's proposal, if it is not too far ahead.
local function propose(p)
    proposal = p <= us + AHEAD and p or 0
end

-- Begin with a name: `state` is its field m.
local function open(state)
    dirty, fields, won, count, counted = false, {}, {}, nil, false
    if not state then
        mode, capacity, taken, holders, waiters = 0, 0, 0, 0, 0
        soon, far, closed, tomb, exp, wexp, sweep, seen, used = 0, 0, 0, 0, 0, 0, SWEEP, 0, ''
        return
    end
    if byte(state) ~= VERSION then
        error('this name was written by another version of Holdfast')
    end
    version, mode, capacity, taken, holders, waiters, soon, far, closed, tomb, exp, wexp, sweep, seen =
        unpack(STATE, state)
    used = sub(state, STATE_LEN + 1)
end

-- The holder of a name who is alone: its owner and record, and the state that goes with them. (Text, where
-- acquire had text: see there.)
local function parse(m)
    local owner, attempt, tokens, ttl, window, flags, stamp, start, at = string.match(m,
        '^.(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) ()')
    local since, c, limit, inbox_len = unpack('<dddI4', m, at)
    local deadline = since + ttl
    local record = pack(HOLDER, deadline, ttl + 0, window + 0, c, 0, 0, tokens + 0, 1, 0, since,
        flags % 8 >= DETACHED and DETACHED or 0, attempt + 0, stamp + 0, start + 0, limit, inbox_len, 0) .. sub(m, at + 28)
    return owner, record, pack(STATE, VERSION, 0, 1, 1, 1, 0, deadline, deadline, 0, 0, deadline + 2 * SLACK, 0,
        SWEEP, since)
end

-- Write it out. The first write needs no memory, unless the caller is one that takes it.
local function unfold(m, taking)
    local owner, record, state = parse(m)
    local over = unpack('<d', record) + 2 * SLACK
    if not taking then call('PEXPIREAT', name, over) end
    call('HSET', name, 'm', state, 'h' .. owner, record)
    if taking then call('PEXPIREAT', name, over) end
    return owner, record, state
end

-- The counter of the name, from its field.
local function set_count(field)
    known = field and true or false
    count = field and unpack('<d', field) or floor
end

-- The counter that a grant of so many tokens would make; nil: none is left.
local function next_count(tokens)
    if not count then set_count(call('HGET', ckey, 'n' .. id)) end
    local c = count + tokens
    if proposal + tokens - 1 > c then c = proposal + tokens - 1 end
    return c < TOKEN_LIMIT and c or nil
end

local function raise(tokens)
    local c = next_count(tokens)
    if c then
        count, counted, dirty = c, true, true
        if c > top then top = c end
    end
    return c
end

-- Write the counter. One that gets a field of its own pays for it: two others are looked at, and go if
-- they are idle. The floor rises to what goes, so no name's counter falls by it.
local function save_count()
    local idle = {}
    if not known then
        local some = call('HRANDFIELD', ckey, 2, 'WITHVALUES')
        for i = 1, #some, 2 do
            if byte(some[i]) == 110 then -- n
                local c = unpack('<d', some[i + 1])
                if c < us - IDLE then
                    idle[#idle + 1] = some[i]
                    if c > floor then floor = c end
                end
            end
        end
    end
    call('HSET', ckey, 's', pack('<dd', top, floor), 'n' .. id, pack('<d', count))
    if idle[1] then call('HDEL', ckey, spread(idle)) end
    known, counted = true, false
end

-- Write the state and the records, and let the key live long enough. A name of which nothing counts any
-- more is deleted: its counter is elsewhere.
local function save()
    if counted then save_count() end
    if holders == 0 and tomb == 0 then far = 0 end
    if holders == 0 and tomb == 0 and waiters == 0 and now > closed then
        call('DEL', name)
        return
    end
    local need = now
    if far > need then need = far end
    if closed > need then need = closed end
    if waiters > 0 and wexp > need then need = wexp end
    need = need + SLACK
    local moved = exp < need or exp > need + 10 * SLACK
    if moved then exp = math.ceil(need + SLACK) end
    if now > seen then seen = now end
    fields[#fields + 1] = 'm'
    fields[#fields + 1] = pack(STATE, VERSION, mode, capacity, taken, holders, waiters, soon, far, closed,
        tomb, exp, wexp, sweep, seen) .. used
    for i = 1, #fields, 1000 do
        call('HSET', name, spread(fields, i, math.min(i + 999, #fields)))
    end
    if moved then call('PEXPIREAT', name, exp) end
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
    if delay > 0 and ended + delay > closed then closed = ended + delay end
end

-- The clock went back. What is in the records would last longer than it was meant to, and the living
-- could not be told from the dead. From now on no holder has more than the longest that it can
-- have had (renew may have been here before us, so its deadline may be by either clock). The rest is as far
-- from now as it was from when the name was last seen; so the order of the queue stays.
local function rewind()
    call('PEXPIREAT', name, exp) -- a write that needs no memory
    local back, all = seen - now, call('HGETALL', name)
    for i = 1, #all, 2 do
        local field, r = all[i], all[i + 1]
        local kind = byte(field)
        if kind == 104 then -- h
            local deadline, ttl, window, c, held, tid, tokens, permits, delay, since, flags, attempt, stamp =
                unpack(HOLDER, r)
            local most = now + math.max(ttl, window)
            r = pack('<d', math.min(deadline, most)) .. sub(r, 9, 72) .. pack('<d', math.min(since, now)) ..
                sub(r, 81, 96) .. pack('<d', math.max(0, stamp - back * 1000)) .. sub(r, 105)
            call('HSET', name, field, r)
        elseif kind == 120 then -- x
            local highest, over, ms = unpack('<ddd', r)
            call('HSET', name, field, pack('<ddd', highest, math.min(over, now + ms), ms))
        end
    end
    if waiters > 0 then
        all, wexp = call('HGETALL', wkey), 0
        for i = 1, #all, 2 do
            local owner, r = all[i], all[i + 1]
            local beat, window, permits, tokens, ttl, delay, flags, since, attempt, stamp = unpack(WAITER, r)
            stamp = math.max(0, stamp - back * 1000)
            call('HSET', wkey, owner, pack('<d', beat - back) .. sub(r, 9, 56) .. pack('<d', since - back) ..
                sub(r, 65, 72) .. pack('<d', stamp) .. sub(r, 81))
            call('ZADD', qkey, string.format('%.0f', stamp), owner)
            wexp = math.max(wexp, math.ceil(now + window + SLACK))
        end
        call('PEXPIREAT', wkey, wexp)
        call('PEXPIREAT', qkey, wexp)
    end
    closed = math.max(0, closed - back)
    soon, seen, dirty = 0, now, true -- expire() learns the true bounds
end

-- Begin with a name for this owner: its fields m, h and x.
local function load(owner, taking)
    local got = call('HMGET', name, 'm', 'h' .. owner, 'x' .. owner)
    if got[1] and byte(got[1]) == ALONE then
        local alone, record, state = unfold(got[1], taking)
        got[1] = state
        if alone == owner then got[2] = record end
    end
    open(got[1])
    if now < seen and wkey then -- (those that do not know the queue leave it to others)
        rewind()
        local again = call('HMGET', name, 'h' .. owner, 'x' .. owner)
        got[2], got[3] = again[1], again[2]
    end
    return got
end

-- Take out whoever's time is over. Reads the records only when `soon` or `tomb` says that there may
-- be one, and then learns the true bounds.
local function expire()
    if waiters > 0 and now > wexp then forget_queue() end
    if not (holders > 0 and now > soon or tomb > 0 and now > tomb) then return end
    local all, dead, slots = call('HGETALL', name), {}, {}
    soon, far, tomb, taken, holders, dirty = 0, 0, 0, 0, 0, true
    for i = 1, #all, 2 do
        local field, record = all[i], all[i + 1]
        local kind = byte(field)
        if kind == 104 then -- h
            local deadline, ttl, window, c, held, tid, tokens, permits, delay, since, flags, attempt, stamp,
                start, limit, inbox_len, slots_len = unpack(HOLDER, record)
            if now > deadline then
                dead[#dead + 1] = field
                close(deadline, delay)
            else
                taken, holders = taken + permits, holders + 1
                if soon == 0 or deadline < soon then soon = deadline end
                if deadline + delay > far then far = deadline + delay end
                if slots_len > 0 then
                    slots[#slots + 1] = sub(record, HOLDER_LEN + inbox_len + 1, HOLDER_LEN + inbox_len + slots_len)
                end
            end
        elseif kind == 120 then -- x
            local highest, over = unpack('<dd', record)
            if now > over then
                dead[#dead + 1] = field
            else
                if over > tomb then tomb = over end
                if over > far then far = over end
            end
        end
    end
    used = table.concat(slots, ',')
    hdel(name, dead)
end

-- The first free slots from `start` on, going round; '' where there are none to choose. The caller has
-- seen that there are as many.
local function choose(permits, start)
    if mode ~= 2 then return '' end
    local busy, slots, slot = {}, {}, start % capacity
    for s in string.gmatch(used, '%d+') do busy[s + 0] = true end
    while #slots < permits do
        if not busy[slot] then slots[#slots + 1] = slot end
        slot = slot + 1
        if slot == capacity then slot = 0 end
    end
    table.sort(slots)
    local text = table.concat(slots, ',')
    used = used == '' and text or used .. ',' .. text
    return text
end

-- Add a holder, of the node's epoch. The caller has seen that it fits, and raised the counter to c for it.
local function hold(owner, duration, ttl, window, c, tokens, permits, delay, flags, attempt, stamp, start,
        inbox, label)
    local deadline, slots = now + duration, choose(permits, start)
    taken, holders = taken + permits, holders + 1
    if holders == 1 or deadline < soon then soon = deadline end
    if deadline + delay > far then far = deadline + delay end
    fields[#fields + 1] = 'h' .. owner
    fields[#fields + 1] = pack(HOLDER, deadline, ttl, window, c, 0, 0, tokens, permits, delay, now, flags,
        attempt, stamp, start, max_ttl, #inbox, #slots) .. epoch .. inbox .. slots .. label
    dirty = true
    return slots
end

-- A holder's record goes (the caller deletes the field).
local function vacate(permits, slots)
    taken, holders, dirty = taken - permits, holders - 1, true
    if slots == '' then return end
    local gone, rest = {}, {}
    for s in string.gmatch(slots, '%d+') do gone[s] = true end
    for s in string.gmatch(used, '%d+') do
        if not gone[s] then rest[#rest + 1] = s end
    end
    used = table.concat(rest, ',')
end

-- The slots in a holder's record.
local function slots_of(record, inbox_len, slots_len)
    return sub(record, HOLDER_LEN + inbox_len + 1, HOLDER_LEN + inbox_len + slots_len)
end

-- The holder's deadline becomes `deadline`.
local function extend(owner, record, deadline, ttl, window, delay)
    if deadline < soon then soon = deadline end
    if deadline + delay > far or holders == 1 and tomb == 0 then far = deadline + delay end
    fields[#fields + 1] = 'h' .. owner
    fields[#fields + 1] = pack('<ddd', deadline, ttl, window) .. sub(record, 25)
    dirty = true
end

-- A waiter leaves the queue.
local function leave(owner)
    call('ZREM', qkey, owner)
    call('HDEL', wkey, owner)
    waiters, dirty = waiters - 1, true
    if waiters <= 0 then waiters, wexp, sweep = 0, 0, SWEEP end
end

-- The first waiter that is alive and of this epoch, and its record; those before it leave.
local function head()
    while waiters > 0 do
        local owner = call('ZRANGE', qkey, 0, 0)[1]
        if not owner then
            forget_queue()
            return nil
        end
        local record = call('HGET', wkey, owner)
        if record then
            local beat, window = unpack('<dd', record)
            if now <= beat + window and sub(record, WAITER_EPOCH, WAITER_LEN) == epoch then return owner, record end
        end
        leave(owner)
    end
end

-- Grant to the first waiters in order, as long as the first one fits: nobody behind it is looked
-- at, so a writer or a large request is never overtaken here. Each winner gets its window, and is
-- told on its inbox; a message that cannot be sent is one that is lost, and heartbeats make up for it.
local function promote()
    while epoch and waiters > 0 and now > closed and taken < capacity do
        local owner, record = head()
        if not owner then return end
        local beat, window, permits, tokens, ttl, delay, flags, since, attempt, stamp, start, inbox_len =
            unpack(WAITER, record)
        if permits > capacity - taken then return end
        local c = raise(tokens)
        if not c then return end
        local inbox = sub(record, WAITER_LEN + 1, WAITER_LEN + inbox_len)
        leave(owner)
        local slots = hold(owner, window, ttl, window, c, tokens, permits, delay, flags, attempt, stamp, start,
            inbox, sub(record, WAITER_LEN + inbox_len + 1))
        won[owner] = { 'G', c, tokens, window, slots }
        redis.pcall('PUBLISH', inbox, string.format('G %s %.0f %.0f %.0f %.0f %s', owner, attempt, c, tokens,
            window, slots))
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

-- Into the queue, with this stamp. The caller takes care of `waiters`, and of the keys' expiry.
local function queue(owner, window, permits, tokens, ttl, delay, flags, since, attempt, stamp, start, inbox, label)
    call('HSET', wkey, owner, pack(WAITER, now, window, permits, tokens, ttl, delay, flags, since, attempt,
        stamp, start, #inbox) .. epoch .. inbox .. label)
    call('ZADD', qkey, string.format('%.0f', stamp), owner)
    dirty = true
end

-- A client's stamp is believed as far as it can be true: within 100 ms before `at`.
local function believe(stamp, at)
    if stamp > at then return at end
    if stamp < at - 100000 then return at - 100000 end
    return stamp
end

-- Milliseconds until something can change by itself; 0: never, or not known.
local function next_change()
    if now <= closed then return closed - now + 1 end
    if holders > 0 then return soon - now + 1 end
    return 0
end

-- What to answer to one that waits, or has just been served: `next` is for the first one only.
local function place(owner)
    if won[owner] then return won[owner] end
    if waiters > 1 and head() ~= owner then return { 'Q', 0 } end
    return { 'Q', next_change() }
end

-- Leave a tombstone: acquires of this owner up to this attempt are refused. `old`: the one that is there.
local function bury(owner, attempt, ms, old)
    local over = now + ms
    if old then
        local highest, until_then = unpack('<dd', old)
        if now <= until_then then
            if highest > attempt then attempt = highest end
            if until_then > over then over, ms = until_then, math.max(ms, until_then - now) end
        end
    end
    fields[#fields + 1] = 'x' .. owner
    fields[#fields + 1] = pack('<ddd', attempt, over, ms)
    if tomb == 0 then tomb = over end
    if over > far then far = over end
    dirty = true
end
