-- SPDX-License-Identifier: MIT
--
-- Renew leases, of many names at once. Never re-creates: a lease whose deadline has passed is lost,
-- also if nobody has taken its record out yet. The new end may be earlier than the old one, but no longer than
-- the cluster's max_ttl was when it was granted: a node that has lost its data is let in again after that.
-- The answer is what the record witnesses: a client counts only nodes that witness its token.
--
-- One that watches is told whether others wait: a message may have been lost, and the dead leave without one.
--
-- A renewal also says which token of its block holds now, and in which thread (0: as it is): so a lost note
-- of a local pass (note.lua) is made good here at the latest. It never sets the token back.
--
-- A name that fails leaves nothing half done (each.lua): the key's type, its version and the records are read
-- before its first write. What is written then is a whole each time: a lease that is alone is one field, and is written out, or
-- not; and a record and its state are one HSET.

-- include: clock
-- include: state
-- include: common
-- include: each

-- A further block of tokens, up to t: a write-back, only where the record witnesses the last one, or the one before that (a
-- node may have missed a block). A node that witnesses another number may have granted after another client had won. And only in
-- the epoch of the grant: what heals a node has read the counters of the others after it had sealed that epoch.
local function raised(c, before, expected, t, epoch)
    if t <= c or t >= TOKEN_LIMIT or c ~= expected and c ~= before or epoch ~= node.epoch then return c end
    if t > node.top then node.top = math.min(t + STEP, TOKEN_LIMIT - 1) end
    return t
end

local relieved = false
n.join(call('HGET', ckey, 'm'))

return each((#KEYS - 1) / 3, function(i)
    local at = 7 * i - 6
    local owner, attempt, ttl, current, thread = ARGV[at + 1], ARGV[at + 2] + 0, ARGV[at + 3] + 0, ARGV[at + 4] + 0,
        ARGV[at + 5] + 0
    local before, expected, t = 0, 0, 0
    if ARGV[at + 6] ~= '' then before, expected, t = unpack('<ddd', ARGV[at + 6]) end
    n.key, n.id = KEYS[3 * i - 1], ARGV[at]
    local field = call('HGET', ckey, 'n' .. n.id)
    if field and #field > FULL_LEN then -- alone
        if sub(field, 55, 86) ~= owner or unpack('<I4', field, 51) ~= attempt or ttl > node.max_ttl or not n.lives(field) then
            return 0
        end
        if current == 0 then
            if not relieved then call('HDEL', ckey, '') end -- a write that needs no memory
            relieved = true
            local c, tokens = unpack('<d', field), unpack('<d', field, 104)
            local new = raised(c, before, expected, t, sub(field, 26, 49))
            n.field = field
            n.put(pack('<dd', new, now + ttl) .. sub(field, 17, 87) .. pack('<d', ttl) .. sub(field, 96, 103) ..
                pack('<d', tokens + new - c) .. sub(field, 112))
            return new
        end
    end
    local got = n.load(owner, false, nil, field)
    if not (got[1] and got[2]) then return 0 end
    local record = got[2]
    local deadline, own_ttl, window, c, held, tid, tokens, permits, delay, since, flags, own, stamp, start, limit =
        unpack(HOLDER, record)
    if now > deadline or own ~= attempt or ttl + delay > limit then return 0 end
    local others = false
    if flags % LINGERS >= WATCHED and n.waiters > 0 then
        n.wkey, n.qkey = KEYS[3 * i], KEYS[3 * i + 1]
        if now > n.wexp then n.forget_queue() end
        others = n.heir() and true
        n.wkey = nil -- (for the next name: see load)
    end
    if current > held then record = sub(record, 1, 32) .. pack('<dd', current, thread) .. sub(record, 49) end
    if not relieved then
        call('PEXPIREAT', n.key, n.exp) -- a write that needs no memory
        relieved = true
    end
    local new = raised(c, before, expected, t, sub(record, HOLDER_EPOCH, HOLDER_LEN))
    if new > c and new > n.count then
        record = sub(record, 1, 24) .. pack('<d', new) .. sub(record, 33, 48) .. pack('<d', tokens + new - c) .. sub(record, 57)
        n.count, n.counted, c = new, true, new
    end
    n.extend(owner, record, now + ttl, ttl, window, delay)
    n.save()
    return others and { c, 1 } or c
end)
