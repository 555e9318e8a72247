-- SPDX-License-Identifier: MIT
--
-- Delete the lock if our field is in it, and publish Redisson's unlock message, which wakes its waiters:
-- "0" on "redisson_lock__channel:{name}" (":name" as it is if the name has a "{"). On a cluster with
-- sharded channels Redisson listens by SSUBSCRIBE: then the command is SPUBLISH. With a ttl it is
-- Redisson's reentrant unlock: counted down, and deleted only at 0. Also for break, with the field that
-- look has shown.
--
-- A message that may not be sent is a lost one: Redisson's waiters then wake at the expiry.

-- include: foreign

local key, field, channel, publish, ttl = KEYS[1], ARGV[1], ARGV[2], ARGV[3] or 'PUBLISH', ARGV[4]
local count = read('HGET', key, field)
if not count then return 0 end
if ttl and tonumber(count) > 1 then
    call('PEXPIRE', key, ttl)
    return { 'H', call('HINCRBY', key, field, -1) }
end
call('DEL', key)
redis.pcall(publish, channel, '0')
return 1
