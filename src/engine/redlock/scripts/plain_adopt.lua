-- SPDX-License-Identifier: MIT
--
-- wire=plain: a lock whose value begins with the owner, whatever its attempt, gets the ttl. The value says which attempt it is,
-- and a majority of nodes must say the same one. Never re-creates.

local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' or not held or string.sub(held, 1, #ARGV[1] + 1) ~= ARGV[1] .. '.' then return { 'N' } end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return { 'A', held }
