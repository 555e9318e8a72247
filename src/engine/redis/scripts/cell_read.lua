-- SPDX-License-Identifier: MIT
-- A cell's version, bytes and remaining milliseconds, read at one moment; -1: it stays until it is
-- removed. With an argument: without the bytes. A cell has expired when its own time says so, even if
-- the server has not deleted it yet: cell_swap decides the same.

local got = redis.call('HMGET', KEYS[1], 'n', 'e', ARGV[1] and 'n' or 'v')
if not got[1] then return { 'N' } end
local left = -1
if got[2] then
    local time = redis.call('TIME')
    left = tonumber(got[2]) - math.floor((time[1] * 1000000 + time[2]) / 1000) + 1
    if left <= 0 then return { 'N' } end
end
return { 'C', tonumber(got[1]), ARGV[1] and '' or got[3], left }
