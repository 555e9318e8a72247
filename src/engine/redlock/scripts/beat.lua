-- SPDX-License-Identifier: MIT
--
-- Heartbeats of waiters, of many names at once. Each is first refreshed, then its name's promotion
-- is run again: a message that was lost, a holder that died, a name that has opened are found here
-- at the latest. A waiter that the node has forgotten gets N and joins the queue again; so does one of another
-- epoch, whose grant must not count in this one.
--
-- Yielding: the asker holds here, but not at a majority. It goes back only behind one whose stamp is
-- earlier, and nodes mostly agree on stamps: so of several that hold a part each, one yields to nobody. If they do
-- not agree, a client must yield although it is the first: flag 2.
--
-- A name that fails leaves nothing half done (each.lua): the types of all three keys and the version are asked
-- for before the first write. (A damaged record stops this script half way, as it would any other.)

-- include: clock
-- include: state
-- include: common
-- include: each

n.join(call('HGET', ckey, 'm'))
if not node.epoch then return { 'U' } end
if ARGV[1] ~= node.epoch then return { 'E', node.epoch } end
node.proposal = ARGV[2] + 0

-- Whether the first waiter comes before this one.
local function preceded(owner, stamp)
    local first, record = n.heir()
    if not first then return false end
    local score = unpack('<d', record, 73)
    return score < stamp or score == stamp and first < owner
end

local function one(owner, attempt, window, yield, back)
    call('HGET', n.wkey, owner)
    call('ZRANGE', n.qkey, 0, 0)
    local got = n.load(owner)
    n.expire()
    if got[2] then
        local record = got[2]
        local deadline, ttl, own_window, c, held, tid, tokens, permits, delay, since, flags, own, stamp, start,
            limit, inbox_len, slots_len = unpack(HOLDER, record)
        if now <= deadline and own == attempt and sub(record, HOLDER_EPOCH, HOLDER_LEN) == node.epoch then
            local slots = n.slots_of(record, inbox_len, slots_len)
            if window > node.max_ttl - delay then window = node.max_ttl - delay end
            call('PEXPIREAT', n.key, n.exp) -- a write that needs no memory
            stamp = n.believe(stamp, since * 1000 + 999)
            if yield and (back and n.heir() or preceded(owner, stamp)) then
                call('HDEL', n.key, 'h' .. owner)
                n.vacate(permits, slots, flags)
                if back then n.promote() end -- before we are in the queue
                n.queue(owner, window, permits, tokens, ttl, delay, flags, since, attempt, stamp, start,
                    sub(record, HOLDER_LEN + 1, HOLDER_LEN + inbox_len),
                    sub(record, HOLDER_LEN + inbox_len + slots_len + 1))
                n.waiters = n.waiters + 1
                n.touch_queue(window)
                n.promote()
                return n.place(owner)
            end
            if now + window > deadline then deadline = now + window end
            n.extend(owner, record, deadline, ttl, math.max(window, own_window), delay)
            n.promote()
            return { 'G', c, tokens, deadline - now, slots }
        end
    end
    local mine = n.waiters > 0 and call('HGET', n.wkey, owner)
    if mine then
        local beat, w, permits, tokens, ttl, delay, flags, since, own = unpack(WAITER, mine)
        if own == attempt and sub(mine, WAITER_EPOCH, WAITER_LEN) == node.epoch then
            if window > node.max_ttl - delay then window = node.max_ttl - delay end
            n.touch_queue(window, true)
            if n.deaf(mine) then flags = flags - HEARS end -- it is there, and will not be passed over again
            call('HSET', n.wkey, owner, pack('<dd', now, window) .. sub(mine, 17, 48) .. pack('<d', flags) .. sub(mine, 57))
            n.promote()
            if n.watched > 0 and n.waiters > 0 and n.head() == owner then n.told, n.dirty = true, true end
            return n.place(owner)
        end
    end
    n.promote()
    return { 'N' }
end

return each((#KEYS - 1) / 3, function(i)
    n.key, n.wkey, n.qkey = KEYS[3 * i - 1], KEYS[3 * i], KEYS[3 * i + 1]
    local at = 5 * i - 2
    n.id = ARGV[at]
    local reply = one(ARGV[at + 1], ARGV[at + 2] + 0, ARGV[at + 3] + 0, ARGV[at + 4] % 2 >= 1, ARGV[at + 4] % 4 >= 2)
    if n.dirty then n.save() end
    return reply
end)
