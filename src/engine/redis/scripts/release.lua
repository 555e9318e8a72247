-- uses: common
--
-- End a lease, and hand the name to whoever is next.
--
-- Only the record of exactly this owner goes, and only while it counts: one whose deadline has
-- passed is gone already, uncleanly, and may have been succeeded. An owner that still waits leaves the
-- queue. The first write is an HDEL, so a full server can always be relieved of a lease.

local owner, tomb_ms = ARGV[1], tonumber(ARGV[2])

name, wkey, qkey = KEYS[1], KEYS[2], KEYS[3]
local got = call('HMGET', name, 'm', 'h' .. owner)
open(got[1])
expire()

local reply = 'N'
if got[2] then
    local deadline, token, tokens, permits = unpack(HOLDER, got[2])
    if now <= deadline then
        call('HDEL', name, 'h' .. owner)
        taken, holders, dirty = taken - permits, holders - 1, true
        reply = 'R'
    end
end
if reply == 'N' and waiters > 0 and call('HEXISTS', wkey, owner) == 1 then leave(owner) end
if tomb_ms > 0 then
    if not dirty then call('HDEL', name, 'h' .. owner) end
    bury(owner, tomb_ms)
end
promote()
if dirty then save() end
return { reply }
