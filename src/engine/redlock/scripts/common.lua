-- SPDX-License-Identifier: MIT
--
-- The permit rules: expiry and hand-over. Every script that changes a name uses these, so that all of them keep the
-- invariants of state.lua.

-- What the node is part of: the field m of the cluster's key.
function n.join(m)
    if not m then return end
    if byte(m) ~= VERSION then error('this node was set up by another version of Holdfast') end
    node.m, node.epoch = m, sub(m, 2, 25)
    node.max_ttl, node.top, node.floor = unpack('<ddd', m, 50)
end

-- Begin with a name: `state` is its field m.
function n.open(state)
    n.dirty, n.fields, n.won, n.said, n.counted, n.lease, n.told = false, {}, {}, {}, false, nil, false
    if not state then
        n.mode, n.capacity, n.taken, n.holders, n.waiters = 0, 0, 0, 0, 0
        n.soon, n.far, n.closed, n.tomb, n.exp, n.wexp, n.sweep, n.seen, n.used = 0, 0, 0, 0, 0, 0, SWEEP, 0, ''
        n.watched, n.lingers, n.before = 0, 0, 0
        return
    end
    if byte(state) ~= VERSION then
        error('this name was written by another version of Holdfast')
    end
    local version
    version, n.mode, n.capacity, n.taken, n.holders, n.waiters, n.soon, n.far, n.closed, n.tomb, n.exp, n.wexp, n.sweep, n.seen,
        n.watched, n.lingers = unpack(STATE, state)
    n.used, n.before = sub(state, STATE_LEN + 1), n.waiters
end

-- The lease in the field of a counter: its owner and record, and the state that goes with them.
function n.parse(field)
    local c, deadline, since = unpack('<ddd', field)
    local flags, ttl, window, tokens, wanted, stamp = unpack('<Bddddd', field, 87)
    local most = now + math.max(ttl, window)
    if deadline > most then deadline = most end -- the clock went back
    local record = pack(HOLDER, deadline, ttl, window, c, 0, 0, tokens, 1, 0, math.min(since, now), flags - flags % 4,
        unpack('<I4', field, 51), stamp, 0, node.max_ttl, byte(field, 165), 0) .. sub(field, 26, 49) .. sub(field, 166)
    return sub(field, 55, 86), record, pack(STATE, VERSION, 0, 1, 1, 1, 0, deadline, deadline, 0, 0,
        deadline + 2 * SLACK, 0, SWEEP, now, flags % LINGERS >= WATCHED and 1 or 0, flags >= LINGERS and 1 or 0)
end

-- Whether the lease in a counter's field lives.
function n.lives(field)
    if call('HEXISTS', ckey, sub(field, 50, 86)) == 0 then return false end
    local c, deadline = unpack('<dd', field)
    return now <= deadline
end

-- Write it out. The first write needs no memory, unless the caller is one that takes it.
function n.unfold(taking)
    local field, owner, record, state = n.field, n.parse(n.field)
    local over = unpack('<d', record) + 2 * SLACK
    n.field = sub(field, 1, 8) .. 'f'
    if not taking then call('HDEL', ckey, sub(field, 50, 86)) end
    call('HSET', n.key, 'm', state, 'h' .. owner, record)
    call('PEXPIREAT', n.key, over)
    call('HSET', ckey, 'n' .. n.id, n.field)
    if taking then call('HDEL', ckey, sub(field, 50, 86)) end
    return owner, record, state
end

-- The counter after a grant of this many tokens; nil: none is left.
function n.next_count(tokens)
    local c, proposed = n.count + tokens, node.proposal + tokens - 1
    if proposed > c and (node.proposal <= us + AHEAD or proposed <= node.top) then c = proposed end
    return c < TOKEN_LIMIT and c or nil
end

function n.raise(tokens)
    local c = n.next_count(tokens)
    if c then
        n.count, n.counted, n.dirty = c, true, true
        if c > node.top then node.top = math.min(c + STEP, TOKEN_LIMIT - 1) end
    end
    return c
end

-- Does nothing of the name of this field count any more? (Then a lease in it has no second field, or is dead.) The key of another
-- name than the call's is not declared: where the server refuses that, the name counts.
function n.ended(name, field)
    if #field == FREE_LEN then return true end
    if #field > FULL_LEN then return not n.lives(field) end
    return redis.pcall('EXISTS', sub(ckey, 1, -8) .. '{' .. string.gsub(sub(name, 2), '[%%{}]', ESCAPED) .. '}') == 0
end

-- Write the field of the counter. One that gets a field of its own pays for it: two others are looked at, and go if
-- they are idle and nobody holds or waits there. The floor rises to what goes, so no name's counter falls by it.
function n.put(field, lease)
    local idle, name = {}, 'n' .. n.id
    if not n.field then
        local some = call('HRANDFIELD', ckey, 2, 'WITHVALUES')
        for i = 1, #some, 2 do
            local c = byte(some[i]) == 110 and unpack('<d', some[i + 1]) -- n
            if c and c < us - IDLE and n.ended(some[i], some[i + 1]) then
                idle[#idle + 1] = some[i]
                if #some[i + 1] > FULL_LEN then idle[#idle + 1] = sub(some[i + 1], 50, 86) end
                if c > node.floor then node.floor = c end
            end
        end
    end
    local fields, m = { name, field }, sub(node.m, 1, 57) .. pack('<dd', node.top, node.floor)
    if lease then fields[3], fields[4] = lease, '' end
    if m ~= node.m then
        node.m, fields[#fields + 1], fields[#fields + 2] = m, 'm', m
    end
    call('HSET', ckey, spread(fields))
    if n.stale and n.stale ~= lease then idle[#idle + 1] = n.stale end -- (the same attempt may have been granted again)
    if idle[1] then call('HDEL', ckey, spread(idle)) end
    n.field, n.counted, n.stale = field, false, nil
end

-- Write the state and the records, and let the key live long enough. A name of which nothing counts any
-- more is deleted: its counter is elsewhere. So is one whose holder is alone now: so is its lease. The winners are notified
-- after that: a script that fails before has not announced a grant that is not stored.
function n.save()
    if n.holders == 0 and n.tomb == 0 then n.far = 0 end
    local ended = n.holders == 0 and n.tomb == 0 and n.waiters == 0 and now > n.closed
    if n.lease then
        n.put(n.lease, sub(n.lease, 50, 86))
    elseif n.counted or n.field and #n.field ~= (ended and FREE_LEN or FULL_LEN) then
        n.put(pack('<d', n.count) .. (ended and '' or 'f'))
    end
    if ended or n.lease then
        call('DEL', n.key)
        return
    end
    local need = now
    if n.far > need then need = n.far end
    if n.closed > need then need = n.closed end
    if n.waiters > 0 and n.wexp > need then need = n.wexp end
    need = need + SLACK
    local moved = n.exp < need or n.exp > need + 10 * SLACK
    if moved then n.exp = math.ceil(need + SLACK) end
    if now > n.seen then n.seen = now end
    n.fields[#n.fields + 1] = 'm'
    n.fields[#n.fields + 1] = pack(STATE, VERSION, n.mode, n.capacity, n.taken, n.holders, n.waiters, n.soon, n.far, n.closed,
        n.tomb, n.exp, n.wexp, n.sweep, n.seen, n.watched, n.lingers) .. n.used
    for i = 1, #n.fields, 1000 do
        call('HSET', n.key, spread(n.fields, i, math.min(i + 999, #n.fields)))
    end
    if moved then call('PEXPIREAT', n.key, n.exp) end
    for i = 1, #n.said, 2 do redis.pcall('PUBLISH', n.said[i], n.said[i + 1]) end
    if n.watched > 0 and (n.told or (n.before == 0) ~= (n.waiters == 0)) then n.tell() end
end

-- Tell the holders that watch whether others wait: when the first waiter has come or the last one has left, with a grant
-- behind which others wait, and with the heartbeats of the first waiter, since a message may be lost.
function n.tell()
    local all = call('HGETALL', n.key)
    for i = 1, #all, 2 do
        local flags = byte(all[i]) == 104 and unpack('<d', all[i + 1], 81) or 0
        if flags % LINGERS >= WATCHED then
            local inbox_len = unpack('<I4', all[i + 1], 121)
            redis.pcall('PUBLISH', sub(all[i + 1], HOLDER_LEN + 1, HOLDER_LEN + inbox_len), string.format('W %s %.0f %d',
                sub(all[i], 2), unpack('<d', all[i + 1], 89), n.waiters > 0 and 1 or 0))
        end
    end
end

-- Delete fields of a hash, however many.
function n.hdel(key, list)
    for i = 1, #list, 1000 do
        call('HDEL', key, spread(list, i, math.min(i + 999, #list)))
    end
end

-- The queue's keys are gone, or hold nobody alive.
function n.forget_queue()
    call('DEL', n.wkey, n.qkey)
    n.waiters, n.wexp, n.sweep, n.dirty = 0, 0, SWEEP, true
end

-- A holder that ended uncleanly at `ended` closes the name for its lock delay.
function n.close(ended, delay)
    if delay > 0 and ended + delay > n.closed then n.closed = ended + delay end
end

-- The clock went back. What is in the records would last longer than it was meant to, and the living
-- could not be told from the dead. From now on no holder has more than the longest that it can
-- have had (renew may have been here before us, so its deadline may be by either clock). The rest is as far
-- from now as it was from when the name was last seen; so the order of the queue stays.
function n.rewind()
    call('PEXPIREAT', n.key, n.exp) -- a write that needs no memory
    local back, all = n.seen - now, call('HGETALL', n.key)
    for i = 1, #all, 2 do
        local field, r = all[i], all[i + 1]
        local kind = byte(field)
        if kind == 104 then -- h
            local deadline, ttl, window, c, held, tid, tokens, permits, delay, since, flags, attempt, stamp =
                unpack(HOLDER, r)
            local most = now + math.max(ttl, window)
            r = pack('<d', math.min(deadline, most)) .. sub(r, 9, 72) .. pack('<d', math.min(since, now)) ..
                sub(r, 81, 96) .. pack('<d', math.max(0, stamp - back * 1000)) .. sub(r, 105)
            call('HSET', n.key, field, r)
        elseif kind == 120 then -- x
            local highest, over, ms = unpack('<ddd', r)
            call('HSET', n.key, field, pack('<ddd', highest, math.min(over, now + ms), ms))
        end
    end
    if n.waiters > 0 then
        all, n.wexp = call('HGETALL', n.wkey), 0
        for i = 1, #all, 2 do
            local owner, r = all[i], all[i + 1]
            local beat, window, permits, tokens, ttl, delay, flags, since, attempt, stamp = unpack(WAITER, r)
            stamp = math.max(0, stamp - back * 1000)
            call('HSET', n.wkey, owner, pack('<d', beat - back) .. sub(r, 9, 56) .. pack('<d', since - back) ..
                sub(r, 65, 72) .. pack('<d', stamp) .. sub(r, 81))
            call('ZADD', n.qkey, string.format('%.0f', stamp), owner)
            n.wexp = math.max(n.wexp, math.ceil(now + window + SLACK))
        end
        call('PEXPIREAT', n.wkey, n.wexp)
        call('PEXPIREAT', n.qkey, n.wexp)
    end
    n.closed = math.max(0, n.closed - back)
    n.soon, n.seen, n.dirty = 0, now, true -- expire() learns the true bounds
end

-- Begin with a name for this owner: its fields m, h and x, and the field of its counter, where the caller has not read them.
function n.load(owner, taking, got, field)
    if field == nil then field = call('HGET', ckey, 'n' .. n.id) end
    got = got or call('HMGET', n.key, 'm', 'h' .. owner, 'x' .. owner)
    n.field, n.stale, n.count = field, nil, field and unpack('<d', field) or node.floor
    if field and #field > FULL_LEN then
        if n.lives(field) then
            local alone, record, state = n.unfold(taking)
            got[1] = state
            if alone == owner then got[2] = record end
        else
            n.stale = sub(field, 50, 86)
        end
    end
    n.open(got[1])
    if now < n.seen and n.wkey then -- (those that do not know the queue leave it to others)
        n.rewind()
        local again = call('HMGET', n.key, 'h' .. owner, 'x' .. owner)
        got[2], got[3] = again[1], again[2]
    end
    return got
end

-- Remove expired records. Reads the records only when `soon` or `tomb` says that there may be one, and then computes
-- the true bounds.
function n.expire()
    if n.waiters > 0 and now > n.wexp then n.forget_queue() end
    if not (n.holders > 0 and now > n.soon or n.tomb > 0 and now > n.tomb) then return end
    local all, dead, slots = call('HGETALL', n.key), {}, {}
    n.soon, n.far, n.tomb, n.taken, n.holders, n.watched, n.lingers, n.dirty = 0, 0, 0, 0, 0, 0, 0, true
    for i = 1, #all, 2 do
        local field, record = all[i], all[i + 1]
        local kind = byte(field)
        if kind == 104 then -- h
            local deadline, ttl, window, c, held, tid, tokens, permits, delay, since, flags, attempt, stamp,
                start, limit, inbox_len, slots_len = unpack(HOLDER, record)
            if now > deadline then
                dead[#dead + 1] = field
                n.close(deadline, delay)
            else
                n.count_holder(permits, flags, 1)
                if n.soon == 0 or deadline < n.soon then n.soon = deadline end
                if deadline + delay > n.far then n.far = deadline + delay end
                if slots_len > 0 then
                    slots[#slots + 1] = sub(record, HOLDER_LEN + inbox_len + 1, HOLDER_LEN + inbox_len + slots_len)
                end
            end
        elseif kind == 120 then -- x
            local highest, over = unpack('<dd', record)
            if now > over then
                dead[#dead + 1] = field
            else
                if over > n.tomb then n.tomb = over end
                if over > n.far then n.far = over end
            end
        end
    end
    n.used = table.concat(slots, ',')
    n.hdel(n.key, dead)
end

-- The first free slots from `start` on, going round; '' where there are none to choose. The caller has
-- seen that there are as many; looked at are no more than can be taken, so that this ends in any case.
function n.choose(permits, start)
    if n.mode ~= 2 then return '' end
    local busy, slots, slot = {}, {}, start % n.capacity
    for s in string.gmatch(n.used, '%d+') do busy[s + 0] = true end
    for _ = 1, math.min(n.capacity, n.taken + permits) do
        if not busy[slot] then slots[#slots + 1] = slot end
        if #slots == permits then break end
        slot = slot + 1
        if slot == n.capacity then slot = 0 end
    end
    if #slots < permits then error('slots and permits do not agree') end
    table.sort(slots)
    local text = table.concat(slots, ',')
    n.used = n.used == '' and text or n.used .. ',' .. text
    return text
end

-- Add a holder, of the node's epoch. The caller has seen that it fits, and raised the counter to c for it.
function n.hold(owner, duration, ttl, window, c, tokens, permits, delay, flags, attempt, stamp, start,
        inbox, label)
    local deadline, slots = now + duration, n.choose(permits, start)
    n.count_holder(permits, flags, 1)
    if n.holders == 1 or deadline < n.soon then n.soon = deadline end
    if deadline + delay > n.far then n.far = deadline + delay end
    n.fields[#n.fields + 1] = 'h' .. owner
    n.fields[#n.fields + 1] = pack(HOLDER, deadline, ttl, window, c, 0, 0, tokens, permits, delay, now, flags,
        attempt, stamp, start, node.max_ttl, #inbox, #slots) .. node.epoch .. inbox .. slots .. label
    n.dirty = true
    return slots
end

-- A holder's record goes (the caller deletes the field).
function n.vacate(permits, slots, flags)
    n.count_holder(-permits, flags, -1)
    n.dirty = true
    if slots == '' then return end
    local gone, rest = {}, {}
    for s in string.gmatch(slots, '%d+') do gone[s] = true end
    for s in string.gmatch(n.used, '%d+') do
        if not gone[s] then rest[#rest + 1] = s end
    end
    n.used = table.concat(rest, ',')
end

function n.count_holder(permits, flags, one)
    n.taken, n.holders = n.taken + permits, n.holders + one
    if flags % LINGERS >= WATCHED then n.watched = n.watched + one end
    if flags >= LINGERS then n.lingers = n.lingers + one end
end

-- The slots in a holder's record.
function n.slots_of(record, inbox_len, slots_len)
    return sub(record, HOLDER_LEN + inbox_len + 1, HOLDER_LEN + inbox_len + slots_len)
end

-- The holder's deadline becomes `deadline`.
function n.extend(owner, record, deadline, ttl, window, delay)
    if deadline < n.soon then n.soon = deadline end
    if deadline + delay > n.far or n.holders == 1 and n.tomb == 0 then n.far = deadline + delay end
    n.fields[#n.fields + 1] = 'h' .. owner
    n.fields[#n.fields + 1] = pack('<ddd', deadline, ttl, window) .. sub(record, 25)
    n.dirty = true
end

-- A waiter leaves the queue.
function n.leave(owner)
    call('ZREM', n.qkey, owner)
    call('HDEL', n.wkey, owner)
    n.waiters, n.dirty = n.waiters - 1, true
    if n.waiters <= 0 then n.waiters, n.wexp, n.sweep = 0, 0, SWEEP end
end

-- The first waiter that is alive and of this epoch, and its record; those before it leave.
function n.head()
    while n.waiters > 0 do
        local owner = call('ZRANGE', n.qkey, 0, 0)[1]
        if not owner then
            n.forget_queue()
            return nil
        end
        local record = call('HGET', n.wkey, owner)
        if record then
            local beat, window = unpack('<dd', record)
            if now <= beat + window and sub(record, WAITER_EPOCH, WAITER_LEN) == node.epoch then return owner, record end
        end
        n.leave(owner)
    end
end

-- Would a message to this waiter reach nobody? Not known without the right to ask.
function n.deaf(record)
    local beat, window, permits, tokens, ttl, delay, flags, since, attempt, stamp, start, inbox_len =
        unpack(WAITER, record)
    if flags % 16 < HEARS or now <= beat + FRESH then return false end
    return redis.pcall('PUBSUB', 'NUMSUB', sub(record, WAITER_LEN + 1, WAITER_LEN + inbox_len))[2] == 0
end

-- The first waiter that is alive, of this epoch, and would receive the message of a grant, and its record. (The
-- caller, if it waits, gets the answer.) A waiter without a listener is usually dead, and would keep this node for
-- its window. It is passed over and keeps its place: nothing is granted or sent to it, so two clients cannot both
-- count this node's vote. If it lives, its next heartbeat is its turn.
function n.heir()
    local at = 0
    while at < n.waiters do
        local owner = call('ZRANGE', n.qkey, at, at)[1]
        if not owner then
            if at == 0 then n.forget_queue() end
            return nil
        end
        local record = call('HGET', n.wkey, owner)
        local beat, window = 0, 0
        if record then beat, window = unpack('<dd', record) end
        if now > beat + window or sub(record, WAITER_EPOCH, WAITER_LEN) ~= node.epoch then
            n.leave(owner)
        elseif at == DEAF or not n.deaf(record) then
            return owner, record
        else
            at = at + 1
        end
    end
end

-- Grant to the first waiters in order, as long as the first one fits: nobody behind it is looked
-- at, so a writer or a large request is never overtaken here. Each winner gets its window, and save() tells
-- it on its inbox; a message that cannot be sent is one that is lost, and heartbeats make up for it.
-- Returns true if there is room and no waiter would receive the message.
function n.promote()
    while node.epoch and n.waiters > 0 and now > n.closed and n.taken < n.capacity do
        local owner, record = n.heir()
        if not owner then return true end
        local beat, window, permits, tokens, ttl, delay, flags, since, attempt, stamp, start, inbox_len =
            unpack(WAITER, record)
        if permits > n.capacity - n.taken then return end
        local c = n.raise(tokens)
        if not c then return end
        local inbox = sub(record, WAITER_LEN + 1, WAITER_LEN + inbox_len)
        n.leave(owner)
        local slots = n.hold(owner, window, ttl, window, c, tokens, permits, delay, flags, attempt, stamp, start,
            inbox, sub(record, WAITER_LEN + inbox_len + 1))
        n.won[owner] = { 'G', c, tokens, window, slots }
        if n.waiters > 0 and flags % LINGERS >= WATCHED then n.told = true end
        n.said[#n.said + 1] = inbox
        n.said[#n.said + 1] = string.format('G %s %.0f %.0f %.0f %.0f %s', owner, attempt, c, tokens, window, slots)
    end
end

-- The queue's keys live on for a waiter with this window. With `always` something is written
-- that needs no memory (see above).
function n.touch_queue(window, always)
    if n.wexp <= now + window then
        n.wexp, n.dirty = math.ceil(now + window + SLACK), true
    elseif not always then
        return
    end
    call('PEXPIREAT', n.wkey, n.wexp)
    call('PEXPIREAT', n.qkey, n.wexp)
end

-- Into the queue, with this stamp. The caller takes care of `waiters`, and of the keys' expiry.
function n.queue(owner, window, permits, tokens, ttl, delay, flags, since, attempt, stamp, start, inbox, label)
    call('HSET', n.wkey, owner, pack(WAITER, now, window, permits, tokens, ttl, delay, flags, since, attempt,
        stamp, start, #inbox) .. node.epoch .. inbox .. label)
    call('ZADD', n.qkey, string.format('%.0f', stamp), owner)
    n.dirty = true
end

-- A client's stamp is believed as far as it can be true: a little before `at`.
function n.believe(stamp, at)
    if stamp > at then return at end
    if stamp < at - BELIEVED then return at - BELIEVED end
    return stamp
end

-- Milliseconds until something can change by itself; 0: never, or not known.
function n.next_change()
    if now <= n.closed then return n.closed - now + 1 end
    if n.holders > 0 then return n.soon - now + 1 end
    return 0
end

-- What to answer to one that waits, or has just been served: `next` is for the first one only.
function n.place(owner)
    if n.won[owner] then return n.won[owner] end
    if n.waiters > 1 and n.head() ~= owner then return { 'Q', 0, n.count } end
    return { 'Q', n.next_change(), n.count }
end

-- Leave a tombstone: acquires of this owner up to this attempt are refused. `old`: the one that is there.
function n.bury(owner, attempt, ms, old)
    local over = now + ms
    if old then
        local highest, until_then = unpack('<dd', old)
        if now <= until_then then
            if highest > attempt then attempt = highest end
            if until_then > over then over, ms = until_then, math.max(ms, until_then - now) end
        end
    end
    n.fields[#n.fields + 1] = 'x' .. owner
    n.fields[#n.fields + 1] = pack('<ddd', attempt, over, ms)
    if n.tomb == 0 then n.tomb = over end
    if over > n.far then n.far = over end
    n.dirty = true
end
