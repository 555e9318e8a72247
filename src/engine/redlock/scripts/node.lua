-- SPDX-License-Identifier: MIT
--
-- What this node is part of, for the scripts that set it up. The whole life of the field m is: none,
-- then install (once, by a marker), then seal (from exactly one epoch to the next).

local call, pack, unpack, sub, byte = redis.call, struct.pack, struct.unpack, string.sub, string.byte
local ckey = KEYS[1]
local got = call('HMGET', ckey, 'm', 'k')
if got[1] and byte(got[1]) ~= 3 then error('this node was set up by another version of Holdfast') end
local epoch = got[1] and sub(got[1], 2, 25)

-- Milliseconds since then; 0 if the clock went back.
local function age(since)
    local clock = call('TIME')
    local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
    return now > since and now - since or 0, now
end
