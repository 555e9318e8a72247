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

n.key, n.wkey, n.qkey, n.id = KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local attempt, tomb_ms = ARGV[3] + 0, ARGV[4] + 0
local home = call('HMGET', ckey, 'm', 's')
n.join(home[1], home[2])
n.propose(ARGV[5] + 0)
local got = n.load(owner)
n.expire()

local reply = 'N'
if got[2] then
    local deadline, ttl, window, c, held, tid, tokens, permits, delay, since, flags, own, stamp, start, limit,
        inbox_len, slots_len = unpack(HOLDER, got[2])
    if now <= deadline and own <= attempt then
        call('HDEL', n.key, 'h' .. owner)
        n.vacate(permits, n.slots_of(got[2], inbox_len, slots_len))
        reply = 'R'
    end
end
local mine = reply == 'N' and n.waiters > 0 and call('HGET', n.wkey, owner)
if mine then
    local beat, window, permits, tokens, ttl, delay, flags, since, own = unpack(WAITER, mine)
    if own <= attempt then n.leave(owner) end
end
if tomb_ms > 0 then
    if not n.dirty then call('HDEL', n.key, '') end -- a write that needs no memory
    n.bury(owner, attempt, tomb_ms, got[3])
end
n.promote()
if n.dirty then n.save() end
return { reply }
