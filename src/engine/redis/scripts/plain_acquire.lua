-- SPDX-License-Identifier: MIT
--
-- wire=plain: the lock is a string with an expiry at exactly the name, as redis-py, redsync and others
-- make it. The same owner's value again is the same acquisition again: granted, until the later end.
-- A foreign key without expiry (its owner died between SETNX and EXPIRE) can be given one.

-- include: foreign

local key, value, ttl, repair = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local held, other = read('GET', key)
if other then return { 'M' } end
if not held then
    call('SET', key, value, 'PX', ttl)
    return { 'G', ttl }
end
local pttl = call('PTTL', key)
if held == value then
    if pttl >= ttl then return { 'G', pttl } end
    call('PEXPIRE', key, ttl)
    return { 'G', ttl }
end
if pttl == -1 and repair > 0 then call('PEXPIRE', key, repair) end
return { 'B', until_gone(key) }
