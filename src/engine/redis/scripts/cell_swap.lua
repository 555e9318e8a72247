-- SPDX-License-Identifier: MIT
-- Replace a cell's bytes if its version is still the expected one; 0: if there is no cell. Without new
-- bytes: delete it. A new version is larger than the old one and no smaller than the server's
-- microseconds, so that it is never used twice for one name, also when the cell was deleted in
-- between: who succeeds knows that nobody wrote meanwhile.

local expected = tonumber(ARGV[1])
local version = tonumber(redis.call('HGET', KEYS[1], 'n') or 0)
if version ~= expected then return { 'V', version } end
if not ARGV[2] then
    redis.call('DEL', KEYS[1])
    return { 'C', version }
end
local time = redis.call('TIME')
version = math.max(version + 1, time[1] * 1000000 + time[2])
redis.call('HSET', KEYS[1], 'n', string.format('%.0f', version), 'v', ARGV[2])
return { 'C', version }
