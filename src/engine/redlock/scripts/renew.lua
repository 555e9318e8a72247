-- SPDX-License-Identifier: MIT
--
-- Renew leases, of many names at once. Never re-creates: a lease whose deadline has passed is lost,
-- also if nobody has taken its record out yet. The new end may be earlier than the old one, but no longer than
-- the cluster's max_ttl was when it was granted: a node that has lost its data is let in again after that.
-- The answer is what the record witnesses: a client counts only nodes that witness its token.
--
-- A renewal also says which token of its block holds now, and in which thread (0: as it is): so a lost note
-- of a local pass (note.lua) is made good here at the latest. It never sets the token back.
--
-- A name that fails leaves nothing half done (each.lua): the key's type, its version and the records are read
-- before its first write. What is written then is a whole each time: one who is alone is written out, or
-- not; and a record and its state are one HSET.

-- include: clock
-- include: state
-- include: common
-- include: each

local relieved = false

return each(#KEYS, function(i)
    local at = 5 * i - 4
    local owner, attempt, ttl, current, thread = ARGV[at], ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3] + 0,
        ARGV[at + 4] + 0
    n.key = KEYS[i]
    local got = n.load(owner)
    if not (got[1] and got[2]) then return 0 end
    local record = got[2]
    local deadline, own_ttl, window, c, held, tid, tokens, permits, delay, since, flags, own, stamp, start, limit =
        unpack(HOLDER, record)
    if now > deadline or own ~= attempt or ttl + delay > limit then return 0 end
    if current > held then record = sub(record, 1, 32) .. pack('<dd', current, thread) .. sub(record, 49) end
    if not relieved then
        call('PEXPIREAT', n.key, n.exp) -- a write that needs no memory
        relieved = true
    end
    n.extend(owner, record, now + ttl, ttl, window, delay)
    n.save()
    return c
end)
