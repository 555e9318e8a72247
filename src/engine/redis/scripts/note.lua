-- SPDX-License-Identifier: MIT
--
-- Note which token of its block holds now, and in which thread, after a lease was passed on inside
-- its process. For look and break; says nothing about who owns the lease. A note may come late: it never sets
-- the token back. A name that cannot be read is left out: its next renewal says why.

-- include: state
-- include: common
-- include: each

local relieved = false

each(#KEYS, function(i)
    local field, token, tid = 'h' .. ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
    local got = call('HMGET', KEYS[i], 'm', field)
    if not (got[1] and byte(got[1]) == VERSION and got[2]) then return 0 end
    local record = got[2]
    local deadline, first, tokens, permits, delay, ttl, since, flags, window, noted = unpack(HOLDER, record)
    if now <= deadline and token > noted and token < first + tokens then
        if not relieved then
            call('HDEL', KEYS[i], '') -- a write that needs no memory
            relieved = true
        end
        call('HSET', KEYS[i], field, sub(record, 1, 72) .. pack('<dd', token, tid) .. sub(record, 89))
    end
    return 0
end)
return { 'D' }
