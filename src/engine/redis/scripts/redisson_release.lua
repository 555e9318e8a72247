-- SPDX-License-Identifier: MIT
--
-- Delete the lock if our field is in it, and publish Redisson's unlock message, which wakes its waiters:
-- "0" on "redisson_lock__channel:{name}" (":name" as it is if the name has a "{"). On a cluster with
-- sharded channels Redisson listens by SSUBSCRIBE: then the command is SPUBLISH. It is the last hold of its
-- owner, whatever the count is: an unknown outcome of redisson_count may have left it too high. Also for
-- break, with the field that look has shown.
--
-- A message that may not be sent is a lost one: Redisson's waiters then wake at the expiry.

-- include: foreign

local key, field, channel, publish = KEYS[1], ARGV[1], ARGV[2], ARGV[3] or 'PUBLISH'
local count = read('HGET', key, field)
if not count then return 0 end
call('DEL', key)
redis.pcall(publish, channel, '0')
return 1
