-- SPDX-License-Identifier: MIT
-- Set a counter (ARGV[1]; '': delete it), if it is what is expected (ARGV[2]; '': whatever it is). One that is
-- not there is 0. Numbers are compared as text: Redis writes each in one way only, and Lua's own numbers have 53
-- bits. A string that is no number is answered M; another type of key is the server's WRONGTYPE.

local now = redis.call('GET', KEYS[1])
if now and not string.find(now, '^-?%d+$') then return { 'M' } end
now = now or '0'
if ARGV[2] ~= '' and ARGV[2] ~= now then return { 'V', now } end
if ARGV[1] == '' then
    redis.call('DEL', KEYS[1])
else
    redis.call('SET', KEYS[1], ARGV[1])
end
return { 'C' }
