-- SPDX-License-Identifier: MIT
--
-- Each name of a call has its own outcome: a failure of one of them (a key of another type, a name of another
-- version, a damaged record) is the answer for that name, an error at its position in the list, and the
-- others are served. Otherwise one bad key would cost a process all leases that are renewed with it.
--
-- pcall() takes nothing back. So a judge must not fail between two writes of one name: it reads all that can
-- fail before it writes (each script says how).
--
-- Errors of the server itself are raised for the whole call, since the client goes to another server then, or
-- waits: none of them can come after a write. They come with the first one, or never.

local SERVER = { READONLY = true, MISCONF = true, NOREPLICAS = true, OOM = true }

-- The words of the error behind the place in the script, and its code. (Redis 6.2 has the place in the text.)
local function words_of(problem)
    local words = type(problem) == 'table' and problem.err or tostring(problem)
    words = string.gsub(words, '^.*user_script: ?%d+: %-?', '')
    return words, string.match(words, '^(%u+) ')
end

local function each(count, judge)
    local replies = {}
    for i = 1, count do
        local fine, reply = pcall(judge, i)
        if not fine then
            local words, code = words_of(reply)
            if SERVER[code] then error(reply, 0) end
            reply = { err = code and words or 'ERR ' .. words }
        end
        replies[i] = reply
    end
    return replies
end
