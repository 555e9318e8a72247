-- SPDX-License-Identifier: MIT
--
-- At most so many calls in so many seconds, in a window that begins with its first call:
--
--     holdfast script run rate_limit.lua limit:10.0.0.7 , 60 10
--
-- KEYS[1]: whose calls are counted. ARGV[1]: seconds of a window. ARGV[2]: calls in it. Returns 1: go on, 0: too many.
--
-- Counting and setting the expiry are one step: by two commands, a client that died in between would leave a counter
-- that never ends, and shut its caller out for ever. At the edge of two windows up to twice as many calls can
-- come one after the other.

local calls = redis.call('INCR', KEYS[1])
if calls == 1 then
    redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return calls <= tonumber(ARGV[2]) and 1 or 0
