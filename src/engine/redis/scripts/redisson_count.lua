-- SPDX-License-Identifier: MIT
--
-- Our owner holds the lock so many times, as Redisson counts a reentrant lock and its unlock; and it lasts
-- for the ttl at least, from now. The count comes as a number and not as a difference, so a copy that is
-- lost or late is put right by the next one. It never shortens: a renewal for a longer ttl may have come
-- between. Never re-creates.

-- include: foreign

local key, field, count, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local held = read('HGET', key, field)
if not held then return 0 end
local off = count - (tonumber(held) or count)
if off ~= 0 then redis.pcall('HINCRBY', key, field, off) end -- fails for what others made of the number: it is only shown
if call('PTTL', key) < ttl then call('PEXPIRE', key, ttl) end
return 1
