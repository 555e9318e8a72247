-- SPDX-License-Identifier: MIT
--
-- For the wire modes in which other clients share the lock: the key may be of any type, and one that is
-- not a lock is answered `M` and never touched.

local call = redis.call

-- The answer of a reading command; nil, true if the key is of another type.
local function read(...)
    local got = redis.pcall(...)
    if type(got) ~= 'table' or not got.err then return got end
    if string.find(got.err, 'WRONGTYPE', 1, true) then return nil, true end
    error(got.err)
end

-- Milliseconds after which the key is certainly gone; 0: it does not expire.
local function until_gone(key)
    local pttl = call('PTTL', key)
    return pttl >= 0 and pttl + 1 or 0
end
