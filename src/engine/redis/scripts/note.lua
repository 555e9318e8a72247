-- SPDX-License-Identifier: MIT
--
-- Note which token of its block holds now, and in which thread, after a lease was passed on inside
-- its process. For look and break; says nothing about who owns the lease.

-- include: state
-- include: common

for i = 1, #KEYS do
    local field, token, tid = 'h' .. ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
    local record = call('HGET', KEYS[i], field)
    if record then
        local deadline, first, tokens = unpack(HOLDER, record)
        if now <= deadline and token >= first and token < first + tokens then
            call('HSET', KEYS[i], field, sub(record, 1, 72) .. pack('<dd', token, tid) .. sub(record, 89))
        end
    end
end
return { 'D' }
