-- SPDX-License-Identifier: MIT
--
-- Heartbeats of waiters, of many names at once. Each is first refreshed, then its name's promotion
-- is run again: a message that was lost, a holder that died, a name that has opened are found here
-- at the latest. A waiter that the node has forgotten is told so (N) and queues anew; so is one of another
-- epoch, whose grant must not be counted in this one.
--
-- Yielding: the asker holds here, but not at a majority. It goes back only behind one whose stamp is
-- earlier, and nodes agree on stamps: so of several that hold a part each, one yields to nobody.

-- include: clock
-- include: state
-- include: common

local home = call('HMGET', ckey, 'm', 's')
if not home[1] then return { 'U' } end
join(home[1], home[2])
if ARGV[1] ~= epoch then return { 'E', epoch } end
propose(ARGV[2] + 0)

-- Whether the first waiter comes before this one.
local function preceded(owner, stamp)
    local first, record = head()
    if not first then return false end
    local score = unpack('<d', record, 73)
    return score < stamp or score == stamp and first < owner
end

local function one(owner, attempt, window, yield)
    local got = load(owner)
    expire()
    if got[2] then
        local record = got[2]
        local deadline, ttl, own_window, c, held, tid, tokens, permits, delay, since, flags, own, stamp, start,
            limit, inbox_len, slots_len = unpack(HOLDER, record)
        if now <= deadline and own == attempt and sub(record, HOLDER_EPOCH, HOLDER_LEN) == epoch then
            local slots = slots_of(record, inbox_len, slots_len)
            if window > max_ttl - delay then window = max_ttl - delay end
            call('PEXPIREAT', name, exp) -- a write that needs no memory
            stamp = believe(stamp, since * 1000 + 999)
            if yield and preceded(owner, stamp) then
                call('HDEL', name, 'h' .. owner)
                vacate(permits, slots)
                queue(owner, window, permits, tokens, ttl, delay, flags, since, attempt, stamp, start,
                    sub(record, HOLDER_LEN + 1, HOLDER_LEN + inbox_len),
                    sub(record, HOLDER_LEN + inbox_len + slots_len + 1))
                waiters = waiters + 1
                touch_queue(window)
                promote()
                return place(owner)
            end
            if now + window > deadline then deadline = now + window end
            extend(owner, record, deadline, ttl, math.max(window, own_window), delay)
            promote()
            return { 'G', c, tokens, deadline - now, slots }
        end
    end
    local mine = waiters > 0 and call('HGET', wkey, owner)
    if mine then
        local beat, w, permits, tokens, ttl, delay, flags, since, own = unpack(WAITER, mine)
        if own == attempt and sub(mine, WAITER_EPOCH, WAITER_LEN) == epoch then
            if window > max_ttl - delay then window = max_ttl - delay end
            touch_queue(window, true)
            call('HSET', wkey, owner, pack('<dd', now, window) .. sub(mine, 17))
            promote()
            return place(owner)
        end
    end
    promote()
    return { 'N' }
end

local replies = {}
for i = 1, (#KEYS - 1) / 3 do
    name, wkey, qkey = KEYS[3 * i - 1], KEYS[3 * i], KEYS[3 * i + 1]
    local at = 5 * i - 2
    id = ARGV[at]
    replies[i] = one(ARGV[at + 1], ARGV[at + 2] + 0, ARGV[at + 3] + 0, ARGV[at + 4] % 2 >= 1)
    if dirty then save() end
end
return replies
