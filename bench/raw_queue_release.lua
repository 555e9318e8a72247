-- SPDX-License-Identifier: MIT
-- The raw queue: grants to the next in line and tells it; the message is the grant. KEYS and ARGV
-- as in raw_queue_acquire.lua. Returns 1, or 0: not ours.
local call, lock, queue, token, me = redis.call, KEYS[1], KEYS[2], KEYS[3], ARGV[1]
if call('GET', lock) ~= me then
    return 0
end
local next = call('LPOP', queue)
if next then
    call('SET', lock, next)
    call('PUBLISH', next, call('INCR', token))
else
    call('DEL', lock)
end
return 1
