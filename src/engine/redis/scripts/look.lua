-- SPDX-License-Identifier: MIT
--
-- Lists holders and waiters. Writes nothing (a replica can answer too), so expired records that are not
-- removed yet are left out, and an expired lease with a lock delay closes the name already.
--
-- `N`: nobody holds or waits, the name is open, and its size was not set. Else
-- `L`, mode, capacity, permits taken, ms closed (0: open), holders, waiters, and 1 if the size was set; where
-- a holder is owner, token that holds now, first token, tokens, permits, flags (1 numbered, 4 detached, 16 watched, 32 lingers), age ms,
-- ms left, ttl ms, lock delay ms, thread id (0: not told, -1: none, it is idle), client id, label, and the numbers of its permits if
-- it has some (4 bytes each); and
-- a waiter, in order, is owner, permits, flags, age ms, ttl ms, client id, label. An empty label is that of the client.

-- include: state
-- include: clock
-- include: common

local all, shown, queue = call('HGETALL', name), {}, {}
local state
for i = 1, #all, 2 do
    if all[i] == 'm' then state = all[i + 1] end
end
if not state then return { 'N' } end
state = settled(state)
if byte(state) == HELD then
    all = { thin_holder(state) }
    state = pack(STATE, FULL, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, SWEEP)
end
open(state)

local function age(since) -- the server's clock may have been set back
    return now > since and now - since or 0
end

local permits_taken = 0
for i = 1, #all, 2 do
    if byte(all[i]) == 104 then -- h
        local record = all[i + 1]
        local deadline, first, tokens, permits, delay, ttl, since, flags, window, token, tid, client =
            unpack(HOLDER, record)
        if now > deadline then
            close(deadline, delay)
        else
            permits_taken = permits_taken + permits
            local kept = flags % HEARS + flags - flags % WATCHED
            local numbers = flags % 2 == NUMBERED and 4 * permits
            shown[#shown + 1] = { sub(all[i], 2), token, first, tokens, permits, kept, age(since),
                math.min(deadline - now, math.max(ttl, window)), ttl, delay, tid, client,
                sub(record, HOLDER_LEN + 1 + (numbers or 0)), numbers and sub(record, HOLDER_LEN + 1, HOLDER_LEN + numbers) or nil }
        end
    end
end
if waiters > 0 then
    local records, order = {}, call('LRANGE', qkey, 0, -1)
    local pairs_of = call('HGETALL', wkey)
    for i = 1, #pairs_of, 2 do records[pairs_of[i]] = pairs_of[i + 1] end
    for i = 1, #order do
        local record = records[order[i]]
        if record then
            local beat, window, permits, tokens, ttl, delay, flags, since, attempt, client = unpack(WAITER, record)
            if now <= beat + window then
                queue[#queue + 1] = { order[i], permits, flags % HEARS, age(since), ttl, client,
                    sub(record, WAITER_LEN + 1) }
            end
        end
    end
end
if #shown == 0 and #queue == 0 and now > closed and not sized then return { 'N' } end
return { 'L', mode, capacity, permits_taken, now <= closed and closed - now + 1 or 0, shown, queue, sized and 1 or nil }
