-- SPDX-License-Identifier: MIT
-- Replace a cell's bytes if its version is still the expected one; 0: if there is no cell. Without new
-- bytes: delete it. With a ttl it is gone by itself after that; without, it stays, whatever it had before.
--
-- A new version is larger than the old one and no smaller than the server's microseconds, so that it is
-- never used twice for one name, also when the cell was deleted or expired in between: so a successful swap
-- proves that nobody wrote meanwhile.
--
-- A client that waits for a change subscribes to the channel with the name of the key: its message is the
-- new version, 0 if the cell was deleted. It is published with the write, so a client that subscribed before
-- it read the old version gets it. Expiry is not published: a reader learns how much time is left.

local got = redis.call('HMGET', KEYS[1], 'n', 'e')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = tonumber(got[1] or 0)
local version = last
if got[2] and math.floor(now / 1000) > tonumber(got[2]) then version = 0 end
if version ~= tonumber(ARGV[1]) then return { 'V', version } end

if not ARGV[2] then
    redis.call('DEL', KEYS[1])
    redis.pcall('PUBLISH', KEYS[1], '0')
    return { 'C', version }
end
if got[2] then redis.call('DEL', KEYS[1]) end -- with its time
version = math.max(last + 1, now)
local text = string.format('%.0f', version)
if ARGV[3] then
    local ends = string.format('%.0f', math.floor(now / 1000) + ARGV[3])
    redis.call('HSET', KEYS[1], 'n', text, 'v', ARGV[2], 'e', ends)
    redis.call('PEXPIREAT', KEYS[1], ends)
else
    redis.call('HSET', KEYS[1], 'n', text, 'v', ARGV[2])
end
redis.pcall('PUBLISH', KEYS[1], text)
return { 'C', version }
