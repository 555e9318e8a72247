-- SPDX-License-Identifier: MIT
--
-- Tell each holder that asked for it; returns how many. It is advice: a message that is lost is repeated by the first
-- waiter's heartbeat, and renewals say it too.
local function tell(letter, words)
    local all, told = call('HGETALL', name), 0
    for i = 1, #all, 2 do
        if byte(all[i]) == 104 then -- h
            local deadline, token, tokens, permits, delay, ttl, since, flags, window, noted, tid, client =
                unpack(HOLDER, all[i + 1])
            if flags >= WATCHED and now <= deadline then
                redis.pcall('PUBLISH', inbox_of(client), letter .. sub(all[i], 2) .. words)
                told = told + 1
            end
        end
    end
    return told
end
