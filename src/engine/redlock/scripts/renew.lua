-- SPDX-License-Identifier: MIT
--
-- Renew leases, of many names at once. Never re-creates: a lease whose deadline has passed is lost,
-- also if nobody has taken its record out yet. The new end may be earlier than the old one, but no longer than
-- the cluster's max_ttl was when it was granted: a node that has lost its data is let in again after that.

-- include: clock
-- include: state
-- include: common

local replies, relieved = {}, false

for i = 1, #KEYS do
    local at = 4 * i - 3
    local owner, attempt, ttl, token = ARGV[at], ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3] + 0
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
            if token > 0 then record = sub(record, 1, 24) .. pack('<d', token) .. sub(record, 33) end
            n.extend(owner, record, now + ttl, ttl, window, delay)
            n.save()
            replies[i] = 1
        end
    end
end
return replies
