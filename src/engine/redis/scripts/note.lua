-- SPDX-License-Identifier: MIT
--
-- Note which token of its block holds now, and in which thread, after a lease was passed on inside
-- its process. For look and break; says nothing about who owns the lease. A note may come late: it never sets
-- the token back. A name that cannot be read is left out: its next renewal says why.

-- include: state
-- include: clock
-- include: common
-- include: each

local relieved = false

each(#KEYS, function(i)
    local owner, token, tid = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
    name = KEYS[i]
    local state, record = read(owner)
    if not (state and byte(state) == FULL and record) then return 0 end
    local deadline, first, tokens, permits, delay, ttl, since, flags, window, noted = unpack(HOLDER, record)
    if now <= deadline and (token > noted or token == noted and flags >= LINGERS) and token < first + tokens then
        if not relieved then
            call('HDEL', name, '') -- a write that needs no memory
            relieved = true
        end
        call('HSET', name, 'h' .. owner, sub(record, 1, 72) .. pack('<dd', token, tid) .. sub(record, 89))
    end
    return 0
end)
return { 'D' }
