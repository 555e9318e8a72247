-- SPDX-License-Identifier: MIT
-- A cell's version and bytes, of one moment. Cells stay until they are removed: they do not expire.

local got = redis.call('HMGET', KEYS[1], 'n', 'v')
if not got[1] then return { 'N' } end
return { 'C', tonumber(got[1]), got[2] }
