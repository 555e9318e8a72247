-- SPDX-License-Identifier: MIT
--
-- Heartbeats of waiters, of many names at once. Each is first refreshed, then its name's promotion
-- is run again: a message that was lost, a holder that died, a name that has opened are found here
-- at the latest. A waiter that the server has forgotten gets N and joins the queue again.
--
-- A name that fails leaves nothing half done (each.lua): the types of all three keys and the version are asked
-- for before the first write. (A damaged record stops this script half way, as it would any other.)

-- include: state
-- include: clock
-- include: common
-- include: each

local function one(owner, window)
    local state, record, others = read(owner)
    if others then
        dirty = false
        return { 'N' }
    end
    open(state)
    local mine = waiters > 0 and call('HGET', wkey, owner)
    if waiters > 0 then call('LINDEX', qkey, 0) end
    expire()
    if back and record then record = call('HGET', name, 'h' .. owner) end
    if record then
        local deadline, token, tokens, permits, delay, ttl, since, flags, own = unpack(HOLDER, record)
        if now <= deadline then
            if now + window > deadline then deadline = now + window end
            call('PEXPIREAT', name, exp) -- a write that needs no memory
            extend(owner, sub(record, 1, 64) .. pack('<d', math.max(window, own)) .. sub(record, 73), deadline, delay, ttl)
            promote()
            return granted(token, tokens, deadline - now, permits, flags, record)
        end
    end
    if not mine or waiters == 0 then
        promote()
        return { 'N' }
    end
    touch_queue(window, true)
    call('HSET', wkey, owner, pack('<dd', now, window) .. sub(spoken(mine), 17))
    promote()
    for i = 1, #fields, 2 do
        if fields[i] == 'h' .. owner then
            local deadline, token, tokens, permits, delay, ttl, since, flags = unpack(HOLDER, fields[i + 1])
            return granted(token, tokens, deadline - now, permits, flags, fields[i + 1])
        end
    end
    return still_waiting(owner)
end

return each(#ARGV / 2, function(i)
    name, wkey, qkey = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
    local reply = one(ARGV[2 * i - 1], tonumber(ARGV[2 * i]))
    if dirty then save() end
    return reply
end)
