-- SPDX-License-Identifier: MIT
--
-- Lists holders and waiters at this node. Writes nothing (a replica can answer too), so expired records that are not
-- removed yet are left out, and an expired lease with a lock delay closes the name already.
--
-- `N`: nobody holds or waits, and the name is open. Else
-- `L`, mode, capacity, ms closed (0: open), holders, waiters; where
-- a holder is owner, attempt, c, tokens, permits, flags (1 numbered, 4 detached, 16 watched, 32 lingers), age ms, ms left, ttl ms, lock delay ms,
-- token that holds now (0: not told), thread id (0: not told), slots, label; and
-- a waiter, in order, is owner, attempt, permits, flags, age ms, ttl ms, stamp, label.

-- include: clock
-- include: state
-- include: common

n.key, n.wkey, n.qkey = KEYS[2], KEYS[3], KEYS[4]
local all, shown, queued = call('HGETALL', n.key), {}, {}
local home = call('HMGET', ckey, 'm', 'n' .. ARGV[1])
n.join(home[1])
if home[2] and #home[2] > FULL_LEN and n.lives(home[2]) then
    local owner, record, alone = n.parse(home[2])
    all = { 'm', alone, 'h' .. owner, record }
end
local state
for i = 1, #all, 2 do
    if all[i] == 'm' then state = all[i + 1] end
end
if not state then return { 'N' } end
n.open(state)

local back = now < n.seen and n.seen - now or 0 -- the clock went back: as rewind() would have it
n.closed = n.closed - back

local function age(since)
    return now > since and now - since or 0
end

for i = 1, #all, 2 do
    if byte(all[i]) == 104 then -- h
        local record = all[i + 1]
        local deadline, ttl, window, c, held, tid, tokens, permits, delay, since, flags, attempt, stamp, start, limit,
            inbox_len, slots_len = unpack(HOLDER, record)
        if now > deadline then
            n.close(deadline, delay)
        else
            shown[#shown + 1] = { sub(all[i], 2), attempt, c, tokens, permits, flags % HEARS + flags - flags % WATCHED, age(since),
                math.min(deadline - now, math.max(ttl, window)), ttl, delay, held, tid,
                n.slots_of(record, inbox_len, slots_len), sub(record, HOLDER_LEN + inbox_len + slots_len + 1) }
        end
    end
end
if n.waiters > 0 then
    local records, order = {}, call('ZRANGE', n.qkey, 0, -1)
    local pairs_of = call('HGETALL', n.wkey)
    for i = 1, #pairs_of, 2 do records[pairs_of[i]] = pairs_of[i + 1] end
    for i = 1, #order do
        local record = records[order[i]]
        if record then
            local beat, window, permits, tokens, ttl, delay, flags, since, attempt, stamp, start, inbox_len =
                unpack(WAITER, record)
            if now <= beat - back + window then
                queued[#queued + 1] = { order[i], attempt, permits, flags % HEARS, age(since - back), ttl, stamp,
                    sub(record, WAITER_LEN + inbox_len + 1) }
            end
        end
    end
end
if #shown == 0 and #queued == 0 and now > n.closed then return { 'N' } end
return { 'L', n.mode, n.capacity, now <= n.closed and n.closed - now + 1 or 0, shown, queued }
