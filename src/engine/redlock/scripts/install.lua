-- SPDX-License-Identifier: MIT
--
-- Make this node part of a cluster. Only on an empty node, and by its marker, which is consumed: so of all clients
-- that try, one succeeds, once. Its counters begin at the floor, which is above all that the others had.

-- include: node

local marker, new, cluster = ARGV[1], ARGV[2], ARGV[3]
local n, max_ttl, floor = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
if epoch then return { 'I' } end
if not got[2] or sub(got[2], 1, 16) ~= marker then return { 'N' } end
if #new ~= 24 or #cluster ~= 16 then error('an epoch has 24 bytes, a cluster id 16') end
call('DEL', ckey) -- the marker, and counters of another life
call('HSET', ckey, 'm', '\3' .. new .. cluster .. pack('<dddd', n, max_ttl, floor, floor))
return { 'D' }
