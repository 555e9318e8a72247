-- SPDX-License-Identifier: MIT
--
-- Give up waiting. If the grant came first the answer is that grant, with its window from now on:
-- the caller keeps it or releases it, and either way nothing is left behind.

-- include: state
-- include: clock
-- include: common

local owner, tomb_ms = ARGV[1], tonumber(ARGV[2])

local state, record, others = read(owner, tomb_ms > 0)
if others then return { 'N' } end
open(state)
expire()
if back and record then record = call('HGET', name, 'h' .. owner) end

local reply = { 'N' }
if record then
    local deadline, token, tokens, permits, delay, ttl, since, flags, window = unpack(HOLDER, record)
    if now <= deadline then
        if now + window > deadline then deadline = now + window end
        call('PEXPIREAT', name, exp) -- a write that needs no memory
        extend(owner, record, deadline, delay, ttl)
        reply = granted(token, tokens, deadline - now, permits, flags, record)
    end
end
if #reply == 1 then
    if waiters > 0 and call('HEXISTS', wkey, owner) == 1 then
        leave(owner)
        reply = { 'C' }
    end
    if tomb_ms > 0 then
        if not dirty then call('HDEL', name, 'h' .. owner) end
        bury(owner, tomb_ms)
    end
end
promote()
if dirty then save() end
return reply
