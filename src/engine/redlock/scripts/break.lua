-- SPDX-License-Identifier: MIT
--
-- End somebody else's lease at this node: of this owner, of this attempt or an earlier one. That is an unclean end:
-- its lock delay runs from now. Its owner is told on its inbox; if that message is lost it learns from its
-- next renewal. One that waits leaves the queue.

-- include: clock
-- include: state
-- include: common

name, wkey, qkey, id = KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local owner, attempt, tomb_ms = ARGV[2], ARGV[3] + 0, ARGV[4] + 0
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
        close(now, delay)
        redis.pcall('PUBLISH', sub(got[2], HOLDER_LEN + 1, HOLDER_LEN + inbox_len),
            string.format('L %s %.0f %.0f', owner, own, c))
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
