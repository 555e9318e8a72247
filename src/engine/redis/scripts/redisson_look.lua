-- SPDX-License-Identifier: MIT
-- Who holds: `L`, ms left (0: it does not expire), field, count, ... ; more than one field, and one
-- called "mode", is a read-write lock of Redisson's. Writes nothing.

-- include: foreign

local reply, other = read('HGETALL', KEYS[1])
if other then return { 'M' } end
if #reply == 0 then return { 'N' } end
table.insert(reply, 1, until_gone(KEYS[1]))
table.insert(reply, 1, 'L')
return reply
