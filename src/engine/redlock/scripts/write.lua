-- SPDX-License-Identifier: MIT
--
-- Write back: the counter becomes at least t, if the caller holds here now, by a grant of this epoch. So there is one moment
-- at which it held and the counter was what is answered; grants that come later are above that.

-- include: clock
-- include: state
-- include: common

n.key, n.id = KEYS[2], ARGV[2]
local owner, attempt, t = ARGV[3], ARGV[4] + 0, ARGV[5] + 0
local home = call('HMGET', ckey, 'm', 'n' .. n.id)
if not home[1] then return { 'U' } end
n.join(home[1])
if ARGV[1] ~= node.epoch then return { 'E', node.epoch } end

local field = home[2]
if field and #field > FULL_LEN then -- alone: one number is both
    if sub(field, 55, 86) ~= owner or unpack('<I4', field, 51) ~= attempt or sub(field, 26, 49) ~= node.epoch or
        not n.lives(field) then
        return { 'N' }
    end
    if t >= TOKEN_LIMIT then return { 'F' } end
    local c = unpack('<d', field)
    if t > c then
        c, n.field = t, field
        if t > node.top then node.top = math.min(t + STEP, TOKEN_LIMIT - 1) end
        n.put(pack('<d', t) .. sub(field, 9))
    end
    return { 'G', c }
end

local record = n.load(owner, true, nil, field)[2]
if not record then return { 'N' } end
local deadline, ttl, window, c, held, tid, tokens, permits, delay, since, flags, own = unpack(HOLDER, record)
if now > deadline or own ~= attempt or sub(record, HOLDER_EPOCH, HOLDER_LEN) ~= node.epoch then return { 'N' } end
if t >= TOKEN_LIMIT then return { 'F' } end

if t > n.count then
    n.count = t
    if t > node.top then node.top = math.min(t + STEP, TOKEN_LIMIT - 1) end
    n.put(pack('<d', t) .. 'f')
end
if c ~= n.count then
    call('HSET', n.key, 'h' .. owner, sub(record, 1, 24) .. pack('<d', n.count) .. sub(record, 33))
end
return { 'G', n.count }
