-- SPDX-License-Identifier: MIT
-- Replace a cell's bytes if its version is still the expected one; 0: if there is no cell. A version
-- is never used twice for one cell, so who succeeds knows that nobody wrote in between.

local expected = tonumber(ARGV[1])
local version = tonumber(redis.call('HGET', KEYS[1], 'n') or 0)
if version ~= expected then return { 'V', version } end
redis.call('HSET', KEYS[1], 'n', string.format('%.0f', version + 1), 'v', ARGV[2])
return { 'C', version + 1 }
