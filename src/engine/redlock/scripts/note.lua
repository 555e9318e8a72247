-- SPDX-License-Identifier: MIT
--
-- Note which token of its block holds now, and in which thread, after a lease was passed on inside
-- its process. For look; says nothing about who owns the lease.

-- include: clock
-- include: state
-- include: common

for i = 1, #KEYS do
    local owner, token, tid = ARGV[3 * i - 2], ARGV[3 * i - 1] + 0, ARGV[3 * i] + 0
    n.key = KEYS[i]
    local record = n.load(owner, true)[2]
    if record and now <= unpack('<d', record) then
        call('HSET', n.key, 'h' .. owner, sub(record, 1, 32) .. pack('<dd', token, tid) .. sub(record, 49))
    end
end
return { 'D' }
