-- SPDX-License-Identifier: MIT
--
-- Renew leases, of many names at once. Never re-creates: a lease whose deadline has passed is lost,
-- also if nobody has taken its record out yet. The new end may be earlier than the old one.
--
-- Answers 1, or 2 if others wait and the holder wants to hear that; 0: there is no such lease. With a further block of tokens it is
-- a list: that, the first token, how many. The block belongs to the same lease, behind the tokens that it has.
--
-- A renewal also says which token of its block holds now, and in which thread (0: as it is): so a lost note
-- of a local pass (note.lua) is made good here at the latest. Passes only go up, and a renewal may come late:
-- it never sets the token back.
--
-- A name that fails leaves nothing half done (each.lua): the key's type, its version and the records are read
-- before its first write, and that is one HSET of record and state. The expiry before it is the one that
-- the key has; the one behind it uses a command that was not refused before (the server looks at the rights to
-- keys before it begins with a script).

-- include: state
-- include: clock
-- include: common
-- include: each

local relieved = false

local function relieve()
    if not relieved then call('PEXPIREAT', name, exp) end -- a write that needs no memory
    relieved = true
end

-- Does somebody wait who is alive? Changes nothing, and fails for nothing: a queue that cannot be read counts as one.
local function crowded()
    if waiters == 0 or now > wexp then return false end
    local all = redis.pcall('HGETALL', wkey)
    for i = 1, #all, 2 do
        local beat, window = unpack('<dd', all[i + 1])
        if now <= beat + window then return true end
    end
    return all.err ~= nil
end

-- Renew a thin name where it is; nil: it must become full for that.
local function renew_thin(state, owner, ttl, current, block)
    local token, expiry, deadline, holder, old_ttl, window, tokens, flags = unpack('<dddc16I4I4I2B', state, 2)
    local first = token - tokens + 1
    if holder ~= owner or now > deadline then return 0 end
    if block or ttl > TTL_MAX or current <= token and (current > first or current == first and flags >= LINGERS) then
        return nil
    end
    deadline, exp = now + ttl, expiry
    relieve()
    local need = math.max(deadline, token / 1000) + SLACK
    local moved = exp < need or exp > need + 10 * SLACK
    if moved then exp = math.ceil(need + SLACK) end
    call('HSET', name, 'm', sub(state, 1, 9) .. pack('<dd', exp, deadline) .. owner .. pack('<I4', ttl) ..
        sub(state, REQUEST_AT + 20))
    if moved then call('PEXPIREAT', name, exp) end
    return 1
end

local count = #ARGV / 4
local keys = #KEYS / count -- of a name: in a cluster the queue is not declared, see README.md

return each(count, function(i)
    local at = 4 * i - 3
    local owner, current, tid = ARGV[at], ARGV[at + 2] + 0, ARGV[at + 3] + 0
    local ttl, block = tonumber(ARGV[at + 1]), nil
    if not ttl then
        ttl, block = string.match(ARGV[at + 1], '^(%d+):(%d+)$')
        ttl, block = ttl + 0, block + 0
    end
    name = KEYS[keys * (i - 1) + 1]
    wkey = keys > 1 and KEYS[keys * i] or name .. ':w'
    local state = settled(call('HGET', name, 'm'))
    if state and byte(state) == HELD then
        local renewed = renew_thin(state, owner, ttl, current, block)
        if renewed then return renewed end
    end
    local record, others
    state, record, others = read(owner, false, state)
    if others then return 0 end
    open(state)
    if not record then return 0 end
    local deadline, first, tokens, permits, delay, old_ttl, since, flags, window, noted = unpack(HOLDER, record)
    if now > deadline then return 0 end
    local reply = flags >= WATCHED and crowded() and 2 or 1
    if (current > noted or current == noted and flags >= LINGERS) and current < first + tokens then
        record = sub(record, 1, 72) .. pack('<dd', current, tid) .. sub(record, 89)
    end
    relieve()
    if block then
        local from, given = take_tokens(block, flags)
        if from then record = sub(record, 1, 16) .. pack('<d', last - first + 1) .. sub(record, 25) end
        reply = { reply, from or 0, given or 0 }
    end
    extend(owner, record, now + ttl, delay, ttl)
    save()
    return reply
end)
