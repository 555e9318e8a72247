-- SPDX-License-Identifier: MIT
--
-- Ask the holders of a name that watch, in the words of the asker. Changes nothing. The answer is how many were asked; 0: none
-- of the holders watches; -1: nobody holds it.

-- include: clock
-- include: state
-- include: common

local name, words, holders, asked = ARGV[1], ARGV[2], 0, 0
local home = call('HMGET', ckey, 'm', 'n' .. name)
n.join(home[1])
n.key = KEYS[2]

local function ask(owner, record)
    local deadline, ttl, window, c, held, tid, tokens, permits, delay, since, flags, attempt, stamp, start, limit, inbox_len =
        unpack(HOLDER, record)
    if now > deadline then return end
    holders = holders + 1
    if flags % LINGERS >= WATCHED then
        redis.pcall('PUBLISH', sub(record, HOLDER_LEN + 1, HOLDER_LEN + inbox_len), string.format('A %s %.0f :', owner, attempt) ..
            words)
        asked = asked + 1
    end
end

if home[2] and #home[2] > FULL_LEN and n.lives(home[2]) then
    local owner, record = n.parse(home[2])
    ask(owner, record)
else
    local all = call('HGETALL', n.key)
    for i = 1, #all, 2 do
        if all[i] == 'm' then n.open(all[i + 1]) end
    end
    for i = 1, #all, 2 do
        if byte(all[i]) == 104 then ask(sub(all[i], 2), all[i + 1]) end -- h
    end
end
return holders == 0 and -1 or asked
