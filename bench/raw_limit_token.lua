-- SPDX-License-Identifier: MIT
-- SET NX PX with a token: a counter beside the key. KEYS: lock, counter. ARGV: owner, ttl. 0: taken.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return redis.call('INCR', KEYS[2])
end
return 0
