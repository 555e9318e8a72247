-- SPDX-License-Identifier: MIT
--
-- End somebody else's lease at this node: of this owner, of this attempt or an earlier one. That is an unclean end:
-- its lock delay runs from now. Its owner is told on its inbox; if that message is lost it learns from its
-- next renewal. One that waits leaves the queue.

-- include: clock
-- include: state
-- include: common

n.key, n.wkey, n.qkey, n.id = KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local owner, attempt, tomb_ms = ARGV[2], ARGV[3] + 0, ARGV[4] + 0
n.join(call('HGET', ckey, 'm'))
node.proposal = ARGV[5] + 0
local got = n.load(owner)
n.expire()

local reply = 'N'
if got[2] then
    local deadline, ttl, window, c, held, tid, tokens, permits, delay, since, flags, own, stamp, start, limit,
        inbox_len, slots_len = unpack(HOLDER, got[2])
    if now <= deadline and own <= attempt then
        call('HDEL', n.key, 'h' .. owner)
        n.vacate(permits, n.slots_of(got[2], inbox_len, slots_len), flags)
        n.close(now, delay)
        redis.pcall('PUBLISH', sub(got[2], HOLDER_LEN + 1, HOLDER_LEN + inbox_len),
            string.format('L %s %.0f %.0f', owner, own, c))
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
