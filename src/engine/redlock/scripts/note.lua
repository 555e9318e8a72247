-- SPDX-License-Identifier: MIT
--
-- Note which token of its block holds now, and in which thread, after a lease was passed on inside
-- its process. For look; says nothing about who owns the lease.

-- include: state

for i = 1, #KEYS do
    local field, token, tid = 'h' .. ARGV[3 * i - 2], ARGV[3 * i - 1] + 0, ARGV[3 * i] + 0
    local record = call('HGET', KEYS[i], field)
    if record and now <= unpack('<d', record) then
        call('HSET', KEYS[i], field, sub(record, 1, 32) .. pack('<dd', token, tid) .. sub(record, 49))
    end
end
return { 'D' }
