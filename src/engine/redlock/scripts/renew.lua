-- SPDX-License-Identifier: MIT
--
-- Renew leases, of many names at once. Never re-creates: a lease whose deadline has passed is lost,
-- also if nobody has taken its record out yet. The new end may be earlier than the old one, but no longer than
-- the cluster's max_ttl was when it was granted: a node that has lost its data is let in again after that.
-- The answer is what the record witnesses: a client counts only nodes that witness its token.

-- include: clock
-- include: state
-- include: common

local replies, relieved = {}, false

for i = 1, #KEYS do
    local at = 3 * i - 2
    local owner, attempt, ttl = ARGV[at], ARGV[at + 1] + 0, ARGV[at + 2] + 0
    n.key = KEYS[i]
    local got = n.load(owner)
    replies[i] = 0
    if got[1] and got[2] then
        local record = got[2]
        local deadline, own_ttl, window, c, held, tid, tokens, permits, delay, since, flags, own, stamp, start, limit =
            unpack(HOLDER, record)
        if now <= deadline and own == attempt and ttl + delay <= limit then
            if not relieved then
                call('PEXPIREAT', n.key, n.exp) -- a write that needs no memory
                relieved = true
            end
            n.extend(owner, record, now + ttl, ttl, window, delay)
            n.save()
            replies[i] = c
        end
    end
end
return replies
