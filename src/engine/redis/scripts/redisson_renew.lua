-- SPDX-License-Identifier: MIT
-- Set the expiry of many locks at once, of those in which our field is, and how often each is held: a
-- redisson_count may have been lost. Never re-creates.

-- include: foreign

local replies = {}
for i = 1, #KEYS do
    local key, field, count = KEYS[i], ARGV[3 * i - 2], tonumber(ARGV[3 * i])
    local held = read('HGET', key, field)
    replies[i] = 0
    if held then
        local off = count - (tonumber(held) or count)
        if off ~= 0 then redis.pcall('HINCRBY', key, field, off) end -- a number that it cannot change costs no lease
        replies[i] = call('PEXPIRE', key, ARGV[3 * i - 1])
    end
end
return replies
