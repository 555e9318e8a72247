-- SPDX-License-Identifier: MIT
-- Several cells in one step. KEYS: one of each item; ARGV: of each item its expected version (0: there is no cell), what to do
-- (L: nothing, D: delete it, W: write it), the bytes, and the ttl in milliseconds (0: none).
--
-- All versions are compared before the first write, and nothing but the server itself can fail a write after that: all keys are
-- hashes or not there, since HMGET has read them; memory, replicas and the disk are asked about before the first write of a script and
-- not after it; and a user who may not write is refused before it begins, by a server that can tell (7.0; an earlier one refuses the
-- first such command, so rights must be complete there). So it is all or nothing.
--
-- Each cell is compared and written as cell_swap does it, with its version and its message.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local found, last, ends, same = {}, {}, {}, true
for i, key in ipairs(KEYS) do
    local got = redis.call('HMGET', key, 'n', 'e')
    last[i], ends[i] = tonumber(got[1] or 0), got[2]
    found[i] = last[i]
    if got[2] and math.floor(now / 1000) > tonumber(got[2]) then found[i] = 0 end
    if found[i] ~= tonumber(ARGV[4 * i - 3]) then same = false end
end
if not same then return { 'V', found } end

if redis.acl_check_cmd then
    local key = KEYS[1]
    if not (redis.acl_check_cmd('DEL', key) and redis.acl_check_cmd('HSET', key, 'n', '1')
            and redis.acl_check_cmd('PEXPIREAT', key, '1')) then
        return redis.error_reply('NOPERM a commit of cells needs DEL, HSET and PEXPIREAT')
    end
end

for i, key in ipairs(KEYS) do
    local act, bytes, ttl = ARGV[4 * i - 2], ARGV[4 * i - 1], tonumber(ARGV[4 * i])
    if act == 'D' then
        found[i] = 0
        redis.call('DEL', key)
        redis.pcall('PUBLISH', key, '0')
    elseif act == 'W' then
        if ends[i] then redis.call('DEL', key) end -- with its time
        found[i] = math.max(last[i] + 1, now)
        local text = string.format('%.0f', found[i])
        if ttl > 0 then
            local over = string.format('%.0f', math.floor(now / 1000) + ttl)
            redis.call('HSET', key, 'n', text, 'v', bytes, 'e', over)
            redis.call('PEXPIREAT', key, over)
        else
            redis.call('HSET', key, 'n', text, 'v', bytes)
        end
        redis.pcall('PUBLISH', key, text)
    end
end
return { 'C', found }
