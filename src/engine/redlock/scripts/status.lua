-- SPDX-License-Identifier: MIT
--
-- What this node is part of, and its counters. Writes nothing.

-- include: node

if epoch then
    local n, max_ttl = unpack('<dd', got[1], 42)
    local top, floor = unpack('<dd', got[2])
    return { 'S', epoch, sub(got[1], 26, 41), n, max_ttl, top, floor, call('HLEN', ckey) - (got[3] and 3 or 2) }
end
if not got[3] then return { 'U', '', 0 } end
return { 'U', sub(got[3], 1, 16), (age(unpack('<d', got[3], 17))) }
