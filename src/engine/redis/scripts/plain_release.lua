-- SPDX-License-Identifier: MIT
--
-- Compare and delete: only the lock with exactly this value goes. Also for break, with the value that
-- look has shown.

local held = redis.pcall('GET', KEYS[1])
if held == ARGV[1] then return redis.call('DEL', KEYS[1]) end
if type(held) ~= 'table' then return 0 end

-- include: foreign

read('GET', KEYS[1]) -- another type of key; anything else is an error of the server
return 0
