-- SPDX-License-Identifier: MIT
--
-- wire=redisson: the lock is a hash at exactly the name, with one field "<uuid>:<thread id>" that
-- counts how often its owner holds it, as Redisson's RLock makes it: granted if there is no key or if
-- the field is ours, and then counted and given its expiry.
--
-- Our owners are new for every acquisition, so a field that is ours already is this very acquisition
-- once more (its answer was lost), and is not counted twice. A reentry is redisson_count's.

-- include: foreign

local key, field, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])
local count, other = read('HGET', key, field)
if other then return { 'M' } end
if not count and call('EXISTS', key) == 1 then return { 'B', until_gone(key) } end
if count then
    local pttl = call('PTTL', key)
    if pttl >= ttl then return { 'G', pttl, tonumber(count) } end
else
    count = call('HINCRBY', key, field, 1)
end
call('PEXPIRE', key, ttl)
return { 'G', ttl, tonumber(count) }
