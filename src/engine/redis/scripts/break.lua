-- SPDX-License-Identifier: MIT
--
-- End exactly the lease that holds with this token now, whoever owns it. That is an unclean end: its
-- lock delay runs from now. Its owner is told on its inbox; if that message is lost it learns from its
-- next renewal. A lease that lingers has taken many tokens before the store hears of it: any of its own ends it.

-- include: state
-- include: clock
-- include: common

local wanted = tonumber(ARGV[1])

local state = settled(call('HGET', name, 'm'))
if not state then return { 'N' } end
if byte(state) == HELD then
    local token, tokens = unpack('<d', state, 2), unpack('<I2', state, REQUEST_AT + 24)
    local lingers = byte(state, REQUEST_AT + 26) >= LINGERS
    if not (token - tokens + 1 == wanted or lingers and token - tokens + 1 <= wanted and wanted <= token) then
        return { 'N' }
    end
    state = inflate(state)
end
open(state)
expire()

local reply, all = 'N', call('HGETALL', name)
for i = 1, #all, 2 do
    if byte(all[i]) == 104 then -- h
        local record = all[i + 1]
        local deadline, first, tokens, permits, delay, ttl, since, flags, window, token, tid, client =
            unpack(HOLDER, record)
        if token == wanted or flags >= LINGERS and first <= wanted and wanted < first + tokens then
            call('HDEL', name, all[i])
            taken, holders, dirty = taken - permits, holders - 1, true
            close(now, delay)
            redis.pcall('PUBLISH', inbox_of(client), 'L' .. sub(all[i], 2) .. string.format(' %.0f', first))
            reply = 'R'
            break
        end
    end
end
promote()
if dirty then save() end
return { reply }
