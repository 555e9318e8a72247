-- SPDX-License-Identifier: MIT
--
-- End exactly the lease that holds with this token now, whoever owns it. That is an unclean end: its
-- lock delay runs from now. Its owner is told on its inbox; if that message is lost it learns from its
-- next renewal.

-- include: state
-- include: common

local wanted = tonumber(ARGV[1])

local state = call('HGET', name, 'm')
if not state then return { 'N' } end
open(state)
expire()

local reply, all = 'N', call('HGETALL', name)
for i = 1, #all, 2 do
    if byte(all[i]) == 104 then -- h
        local record = all[i + 1]
        local deadline, first, tokens, permits, delay, ttl, since, flags, window, token, tid, inbox_len =
            unpack(HOLDER, record)
        if token == wanted then
            call('HDEL', name, all[i])
            taken, holders, dirty = taken - permits, holders - 1, true
            close(now, delay)
            redis.pcall('PUBLISH', sub(record, HOLDER_LEN + 1, HOLDER_LEN + inbox_len),
                string.format('L %s %.0f', sub(all[i], 2), first))
            reply = 'R'
            break
        end
    end
end
promote()
if dirty then save() end
return { reply }
