-- SPDX-License-Identifier: MIT
-- The permit goes to the next in line, or back. KEYS and ARGV as in raw_permits_acquire.lua.
local call, count, queue, token = redis.call, KEYS[1], KEYS[2], KEYS[3]
local next = call('LPOP', queue)
if next then
    call('PUBLISH', next, call('INCR', token))
else
    call('DECR', count)
end
return 1
