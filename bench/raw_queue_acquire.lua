-- SPDX-License-Identifier: MIT
-- The raw queue that hand-offs on Redis are measured against: the least that works. No ttl, no dead
-- waiters. KEYS: lock (who holds), queue, token. ARGV: our channel. Returns the token, or 0: queued.
local call, lock, queue, token, me = redis.call, KEYS[1], KEYS[2], KEYS[3], ARGV[1]
if call('EXISTS', lock) == 0 then
    call('SET', lock, me)
    return call('INCR', token)
end
call('RPUSH', queue, me)
return 0
