-- SPDX-License-Identifier: MIT
--
-- End a lease, and hand the name to whoever is next.
--
-- Only the record of exactly this owner goes, and only while it counts: one whose deadline has
-- passed is gone already, uncleanly, and may have been succeeded. An owner that still waits leaves the
-- queue. The first write is an HDEL, so a full server can always be relieved of a lease.

-- include: state

local owner, tomb_ms = ARGV[1], ARGV[2] + 0
local got = call('HMGET', name, 'm', 'h' .. owner)

-- The common case first, as the rules below would decide it: it holds, and nobody waits.
if got[1] and got[2] and tomb_ms == 0 then
    version, mode, capacity, taken, holders, waiters, last, ticket, soon, far, closed, tomb, exp,
        wexp, sweep = unpack(STATE, got[1])
    local deadline, token, tokens, permits = unpack(HOLDER, got[2])
    if version == VERSION and waiters == 0 and now <= deadline then
        if holders == 1 and tomb == 0 then far = 0 end
        local need, moved = now, false
        if last / 1000 > need then need = last / 1000 end
        if far > need then need = far end
        if closed > need then need = closed end
        need = need + SLACK
        if exp < need or exp > need + 10 * SLACK then exp, moved = math.ceil(need + SLACK), true end
        call('HDEL', name, 'h' .. owner)
        call('HSET', name, 'm', pack(STATE, VERSION, mode, capacity, taken - permits, holders - 1, 0, last,
            ticket, soon, far, closed, tomb, exp, wexp, sweep))
        if moved then call('PEXPIREAT', name, exp) end
        return { 'R' }
    end
end

-- include: common

open(got[1])
expire()

local reply = 'N'
if got[2] then
    local deadline, token, tokens, permits = unpack(HOLDER, got[2])
    if now <= deadline then
        call('HDEL', name, 'h' .. owner)
        taken, holders, dirty = taken - permits, holders - 1, true
        reply = 'R'
    end
end
if reply == 'N' and waiters > 0 and call('HEXISTS', wkey, owner) == 1 then leave(owner) end
if tomb_ms > 0 then
    if not dirty then call('HDEL', name, 'h' .. owner) end
    bury(owner, tomb_ms)
end
promote()
if dirty then save() end
return { reply }
