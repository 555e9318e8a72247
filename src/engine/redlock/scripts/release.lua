-- SPDX-License-Identifier: MIT
--
-- End a lease at this node, and hand the name to whoever is next.
--
-- Only a record of this owner goes, of this attempt or an earlier one, and only while it counts: one whose
-- deadline has passed is gone already, uncleanly, and may have been succeeded. An owner that still waits
-- leaves the queue. The first write needs no memory, so a full server can always be relieved of a lease.
-- No epoch is asked for: who goes takes nothing.

local owner, m = ARGV[2], redis.call('HGET', KEYS[2], 'm')

-- The common case first: it holds, and is alone (state.lua).
if m and ARGV[4] == '0' and string.byte(m) == 2 and
    string.find(m, owner .. ' ' .. ARGV[3] .. ' ', 2, true) == 2 then
    redis.call('DEL', KEYS[2])
    return { 'R' }
end

-- include: clock
-- include: state
-- include: common

name, wkey, qkey, id = KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local attempt, tomb_ms = ARGV[3] + 0, ARGV[4] + 0
local home = call('HMGET', ckey, 'm', 's')
join(home[1], home[2])
propose(ARGV[5] + 0)
local got = load(owner)
expire()

local reply = 'N'
if got[2] then
    local deadline, ttl, window, c, held, tid, tokens, permits, delay, since, flags, own, stamp, start, limit,
        inbox_len, slots_len = unpack(HOLDER, got[2])
    if now <= deadline and own <= attempt then
        call('HDEL', name, 'h' .. owner)
        vacate(permits, slots_of(got[2], inbox_len, slots_len))
        reply = 'R'
    end
end
local mine = reply == 'N' and waiters > 0 and call('HGET', wkey, owner)
if mine then
    local beat, window, permits, tokens, ttl, delay, flags, since, own = unpack(WAITER, mine)
    if own <= attempt then leave(owner) end
end
if tomb_ms > 0 then
    if not dirty then call('HDEL', name, '') end -- a write that needs no memory
    bury(owner, attempt, tomb_ms, got[3])
end
promote()
if dirty then save() end
return { reply }
