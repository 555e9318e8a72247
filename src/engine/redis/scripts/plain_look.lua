-- SPDX-License-Identifier: MIT
-- Who holds, by its value, and for how many ms (0: it does not expire). Writes nothing.

-- include: foreign

local value, other = read('GET', KEYS[1])
if other then return { 'M' } end
if not value then return { 'N' } end
return { 'L', value, until_gone(KEYS[1]) }
