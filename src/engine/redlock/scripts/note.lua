-- SPDX-License-Identifier: MIT
--
-- Note which token of its block holds now, and in which thread, after a lease was passed on inside
-- its process. For look; says nothing about who owns the lease. A note may come late: it never sets the token
-- back. A name that cannot be read is left out: its next renewal says why.

-- include: clock
-- include: state
-- include: common
-- include: each

n.join(call('HGET', ckey, 'm'))
each(#KEYS - 1, function(i)
    local owner, token, tid = ARGV[4 * i - 2], ARGV[4 * i - 1] + 0, ARGV[4 * i] + 0
    n.key, n.id = KEYS[i + 1], ARGV[4 * i - 3]
    local record = n.load(owner)[2]
    if record and now <= unpack('<d', record) and token > unpack('<d', record, 33) then
        call('HDEL', n.key, '') -- a write that needs no memory
        call('HSET', n.key, 'h' .. owner, sub(record, 1, 32) .. pack('<dd', token, tid) .. sub(record, 49))
    end
    return 0
end)
return { 'D' }
