-- SPDX-License-Identifier: MIT
--
-- Put a marker on an uninitialised node, or take note of the one that is there. A client that installs by it can
-- be sure that the node has been empty, and was not set up by another client, since the marker was put there. An
-- old one is overwritten where the caller says so: its install then fails.

-- include: node

if epoch then return { 'I' } end
local marker, overwrite = ARGV[1], ARGV[2] + 0
if got[2] then
    local since = unpack('<d', got[2], 17)
    local ms, t = age(since)
    if not (overwrite > 0 and ms > overwrite) then
        if since > t then -- the clock went back: it is new from now on, and not for a long time to come
            call('HSET', ckey, 'k', sub(got[2], 1, 16) .. pack('<d', t))
        end
        return { 'K', sub(got[2], 1, 16), ms }
    end
end
if #marker ~= 16 then error('a marker has 16 bytes') end
local ms, t = age(0)
call('HSET', ckey, 'k', marker .. pack('<d', t))
return { 'K', marker, 0 }
