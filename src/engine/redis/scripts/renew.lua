-- SPDX-License-Identifier: MIT
--
-- Renew leases, of many names at once. Never re-creates: a lease whose deadline has passed is lost,
-- also if nobody has taken its record out yet. The new end may be earlier than the old one.

-- include: state
-- include: common

local replies, relieved = {}, false

for i = 1, #KEYS do
    local owner, ttl = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
    name = KEYS[i]
    local got = call('HMGET', name, 'm', 'h' .. owner)
    replies[i] = 0
    if got[1] and got[2] then
        local deadline, token, tokens, permits, delay = unpack(HOLDER, got[2])
        if now <= deadline then
            open(got[1])
            if not relieved then
                call('PEXPIREAT', name, exp) -- a write that needs no memory
                relieved = true
            end
            extend(owner, got[2], now + ttl, delay, ttl)
            save()
            replies[i] = 1
        end
    end
end
return replies
