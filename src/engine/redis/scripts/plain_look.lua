-- SPDX-License-Identifier: MIT
-- The holder's value, and its remaining ms (0: it does not expire). Writes nothing.

-- include: foreign

local value, other = read('GET', KEYS[1])
if other then return { 'M' } end
if not value then return { 'N' } end
return { 'L', value, until_gone(KEYS[1]) }
