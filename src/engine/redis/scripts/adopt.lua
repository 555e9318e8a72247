-- SPDX-License-Identifier: MIT
--
-- Adopt a detached lease by its handle, and renew it. Only detached leases can be adopted, with
-- the owner's id and the token: a live process keeps its own.

-- include: state
-- include: clock
-- include: common

local owner, token, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local state, record, others = read(owner)
if others then return { 'N' } end
open(state)
if not record then return { 'N' } end
local deadline, first, tokens, permits, delay, own_ttl, since, flags = unpack(HOLDER, record)
if now > deadline or first ~= token or flags % 8 < DETACHED then return { 'N' } end
if ttl == 0 then ttl = own_ttl end
call('PEXPIREAT', name, exp) -- a write that needs no memory
extend(owner, record, now + ttl, delay, ttl)
save()
local numbers = flags % 2 == NUMBERED and sub(record, HOLDER_LEN + 1, HOLDER_LEN + 4 * permits) or nil
return { 'A', mode, capacity, permits, first, tokens, ttl, delay, numbers }
