-- SPDX-License-Identifier: MIT
--
-- What this node is part of, and its counters. Writes nothing.

-- include: node

if epoch then
    local n, max_ttl, top, floor = unpack('<dddd', got[1], 42)
    return { 'S', epoch, sub(got[1], 26, 41), n, max_ttl, top, floor, call('HLEN', ckey) - (got[2] and 2 or 1) }
end
if not got[2] then return { 'U', '', 0 } end
return { 'U', sub(got[2], 1, 16), (age(unpack('<d', got[2], 17))) }
