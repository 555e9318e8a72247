-- SPDX-License-Identifier: MIT
--
-- May this user run all commands of the other scripts, and of counters? Each command is tried on keys that no name has; the answer
-- is a list of those that the server refuses (empty: all are allowed). Nothing is left behind: everything that was written is
-- deleted at the end, and no client can see it in between. KEYS: three like those of a name, but of none that can be (`%` is written
-- `%25` in names). ARGV: a channel that nobody listens to.

local name, wkey, qkey = KEYS[1], KEYS[2], KEYS[3]
local refused = {}

local function try(command, ...)
    local answer = redis.pcall(command, ...)
    local text = type(answer) == 'table' and answer.err
    if text and (string.find(text, 'NOPERM', 1, true) or string.find(text, "can't run", 1, true) or
            string.find(text, "can't access", 1, true)) then
        refused[#refused + 1] = command
    end
end

try('DEL', name, wkey, qkey)
try('TIME')
try('HSET', name, 'm', '')
try('HGET', name, 'm')
try('HMGET', name, 'm')
try('HGETALL', name)
try('HEXISTS', name, 'm')
try('PEXPIREAT', name, 1)
try('HDEL', wkey, 'm')
try('HSETNX', wkey, 'm', '')
try('RPUSH', qkey, 'm')
try('LINDEX', qkey, 0)
try('LRANGE', qkey, 0, 0)
try('LREM', qkey, 1, 'm')
try('LPOP', qkey)
try('PUBLISH', ARGV[1], '')
try('PUBSUB', 'NUMSUB', ARGV[1])
try('SET', name, '1')
try('GET', name)
try('INCRBY', name, 1)
redis.pcall('DEL', name, wkey, qkey)
return refused
