-- SPDX-License-Identifier: MIT
--
-- Renew leases, of many names at once. Never re-creates: a lease whose deadline has passed is lost,
-- also if nobody has taken its record out yet. The new end may be earlier than the old one.
--
-- A renewal also says which token of its block holds now, and in which thread (0: as it is): so a lost note
-- of a local pass (note.lua) is made good here at the latest. Passes only go up, and a renewal may come late:
-- it never sets the token back.
--
-- A name that fails leaves nothing half done (each.lua): the key's type, its version and the records are read
-- before its first write, and that is one HSET of record and state. The expiry before it is the one that
-- the key has; the one behind it uses a command that was not refused before (the server looks at the rights to
-- keys before it begins with a script).

-- include: state
-- include: common
-- include: each

local relieved = false

return each(#KEYS, function(i)
    local at = 4 * i - 3
    local owner, ttl, current, tid = ARGV[at], ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3] + 0
    name = KEYS[i]
    local got = call('HMGET', name, 'm', 'h' .. owner)
    if not (got[1] and got[2]) then return 0 end
    open(got[1])
    local record = got[2]
    local deadline, first, tokens, permits, delay, old_ttl, since, flags, window, noted = unpack(HOLDER, record)
    if now > deadline then return 0 end
    if current > noted and current < first + tokens then
        record = sub(record, 1, 72) .. pack('<dd', current, tid) .. sub(record, 89)
    end
    if not relieved then
        call('PEXPIREAT', name, exp) -- a write that needs no memory
        relieved = true
    end
    extend(owner, record, now + ttl, delay, ttl)
    save()
    return 1
end)
