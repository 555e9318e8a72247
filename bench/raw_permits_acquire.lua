-- SPDX-License-Identifier: MIT
-- The raw queue with a count of four instead of one holder. KEYS: count, queue, token. ARGV: our
-- channel. Returns the token, or 0: queued.
local call, count, queue, token, me = redis.call, KEYS[1], KEYS[2], KEYS[3], ARGV[1]
if tonumber(call('GET', count) or 0) < 4 then
    call('INCR', count)
    return call('INCR', token)
end
call('RPUSH', queue, me)
return 0
