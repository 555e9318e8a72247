-- SPDX-License-Identifier: MIT
--
-- Adopt a detached lease by its handle, and renew it. Only detached leases can be adopted, with
-- the owner's id: a live process keeps its own.

-- include: clock
-- include: state
-- include: common

n.key, n.id = KEYS[2], ARGV[1]
local owner, ttl = ARGV[2], ARGV[3] + 0
n.join(call('HGET', ckey, 'm'))

local got = n.load(owner)
if not (got[1] and got[2]) then return { 'N' } end
local deadline, own_ttl, window, c, held, tid, tokens, permits, delay, since, flags, attempt, stamp, start, limit,
    inbox_len, slots_len = unpack(HOLDER, got[2])
if ttl == 0 then ttl = own_ttl end
if now > deadline or flags % 8 < DETACHED or ttl + delay > limit then return { 'N' } end
call('PEXPIREAT', n.key, n.exp) -- a write that needs no memory
n.extend(owner, got[2], now + ttl, ttl, window, delay)
n.save()
return { 'A', n.mode, n.capacity, permits, c, tokens, attempt, ttl, delay, n.slots_of(got[2], inbox_len, slots_len),
    flags % 2 == NUMBERED and 1 or nil }
