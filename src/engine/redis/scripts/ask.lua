-- SPDX-License-Identifier: MIT
--
-- Ask the holders politely: tells those who want to hear it, with the asker's words. Changes nothing. 1: one was told, 0: it is
-- held, and nobody wants to hear; -1: nobody holds it.

-- include: state
-- include: clock
-- include: common

local state = settled(call('HGET', name, 'm'))
if not state or byte(state) == FREE then return -1 end
if byte(state) == HELD then
    local field, record, deadline = thin_holder(state)
    local flags = byte(state, REQUEST_AT + 26)
    if now > deadline then return -1 end
    if flags < WATCHED then return 0 end
    redis.pcall('PUBLISH', inbox_of(sub(record, HOLDER_LEN - 7, HOLDER_LEN)), 'A' .. sub(field, 2) .. ' ' .. ARGV[1])
    return 1
end
open(state)
if tell('A', ' ' .. ARGV[1]) > 0 then return 1 end
local all = call('HGETALL', name)
for i = 1, #all, 2 do
    if byte(all[i]) == 104 and now <= unpack('<d', all[i + 1]) then return 0 end
end
return -1
