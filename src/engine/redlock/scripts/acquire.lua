-- SPDX-License-Identifier: MIT
--
-- Acquire at this node, or stand in its queue, or be refused.
--
-- Safe: granted only in the epoch that the node is in, where it fits, after the dead were taken out, and (unless
-- it may barge) only if nobody waits; the counter is raised in the same step. Idempotent: an
-- attempt that holds or waits already is found and gets the same answer again. A later attempt of the same
-- owner takes the place of the earlier one, which its client has given up. An owner with a tombstone has
-- been released by somebody who did not know whether it would still arrive.

-- include: clock

local argv = ARGV
name, id = KEYS[2], argv[2]
local owner, field = argv[3], 'n' .. id
local wanted, tokens, ttl, window = argv[9] + 0, argv[10] + 0, argv[11] + 0, argv[13] + 0
local home = call('HMGET', ckey, 'm', 's', field)

-- The common case first, as the rules below would decide it: a mutex that nobody holds or waits for has no key, and
-- whoever takes it is alone. (Text stays text: most of it is deleted without anybody's having read it.) The key
-- expires with the lease; not before, since its time is taken later.
if home[1] and home[3] and argv[5] == '0' and argv[12] == '0' and string.find(home[1], argv[1], 2, true) == 2 and
    byte(home[1]) == 1 then
    local top, floor = unpack('<dd', home[2])
    local max_ttl, c = unpack('<d', home[1], 50), unpack('<d', home[3]) + tokens
    if wanted + tokens - 1 > c and wanted <= us + AHEAD then c = wanted + tokens - 1 end
    if ttl <= max_ttl and window <= max_ttl and c < TOKEN_LIMIT and call('HSETNX', name, 'm', '\2' .. owner .. ' ' ..
        argv[4] .. ' ' .. argv[10] .. ' ' .. argv[11] .. ' ' .. argv[13] .. ' ' .. argv[8] .. ' ' .. argv[14] .. ' ' ..
        argv[15] .. ' ' .. pack('<dddI4', now, c, max_ttl, #argv[16]) .. argv[1] .. argv[16] .. argv[17]) == 1 then
        call('PEXPIRE', name, argv[11])
        call('HSET', ckey, 's', pack('<dd', c > top and c or top, floor), field, pack('<d', c))
        return c
    end
end

-- include: state
-- include: common

wkey, qkey = KEYS[3], KEYS[4]
local attempt, want_mode, want_capacity, permits, flags = argv[4] + 0, argv[5] + 0, argv[6] + 0, argv[7] + 0, argv[8] + 0
local delay, stamp, start, inbox, label = argv[12] + 0, argv[14] + 0, argv[15] + 0, argv[16], argv[17]

if not home[1] then return { 'U' } end
join(home[1], home[2])
if argv[1] ~= epoch then return { 'E', epoch } end
if math.max(ttl, window) + delay > max_ttl then return { 'T', max_ttl } end
if want_mode == 2 and permits > SLOTS_MAX then error('too many slots for one lease') end
local wait, barge, detached = flags % 2 >= 1, flags % 4 >= 2, flags % 8 >= 4 and DETACHED or 0
propose(wanted)
local got = load(owner, true)
set_count(home[3])
expire()

local function answer(reply)
    promote()
    if dirty then save() end
    return reply
end

if got[3] then
    local highest, over = unpack('<dd', got[3])
    if now <= over and attempt <= highest then return answer({ 'X' }) end
end

local replaced = false -- it held with an earlier attempt
if got[2] then
    local deadline, own_ttl, own_window, c, held, tid, own_tokens, own_permits, own_delay, since, own_flags, own,
        own_stamp, own_start, limit, inbox_len, slots_len = unpack(HOLDER, got[2])
    if now <= deadline then
        local slots = slots_of(got[2], inbox_len, slots_len)
        if own > attempt then return answer({ 'X' }) end
        if own == attempt then
            if sub(got[2], HOLDER_EPOCH, HOLDER_LEN) ~= epoch then return answer({ 'X' }) end
            if now + ttl > deadline then deadline, own_ttl = now + ttl, math.max(ttl, own_ttl) end
            extend(owner, got[2], deadline, own_ttl, own_window, own_delay)
            return answer({ 'G', c, own_tokens, deadline - now, slots })
        end
        call('HDEL', name, 'h' .. owner)
        vacate(own_permits, slots)
        replaced = true
    end
end

-- In the queue already: alive again, in the same place.
local mine = waiters > 0 and call('HGET', wkey, owner)
if mine then
    local beat, w, p, n, t, d, f, since, own, own_stamp = unpack(WAITER, mine)
    if own > attempt then return answer({ 'X' }) end
    if wait and mode == want_mode and capacity == want_capacity then
        queue(owner, window, permits, tokens, ttl, delay, detached, since, attempt, own_stamp, start, inbox, label)
        touch_queue(window)
        promote()
        return answer(place(owner))
    end
    leave(owner)
end

if not replaced then promote() end
if holders == 0 and waiters > 0 then head() end
if holders == 0 and waiters == 0 then
    if now > closed or wait then mode, capacity, used = want_mode, want_capacity, '' end
elseif mode ~= want_mode or capacity ~= want_capacity then
    return answer({ 'M', mode, capacity })
end

if now > closed and permits <= capacity - taken and (barge or replaced or waiters == 0) then
    local c = raise(tokens)
    if not c then return answer({ 'F' }) end
    local slots = hold(owner, ttl, ttl, window, c, tokens, permits, delay, detached, attempt, stamp, start, inbox,
        label)
    if mode ~= 2 then return answer(c) end
    return answer({ 'G', c, tokens, ttl, slots })
end
if not wait then return answer({ 'B', next_change() }) end
if not next_count(tokens) then return answer({ 'F' }) end

-- Into the queue. A long one is first searched for the dead, who would otherwise stay until
-- it is their turn.
if waiters >= sweep then
    local all, dead = call('HGETALL', wkey), {}
    for i = 1, #all, 2 do
        local beat, w = unpack('<dd', all[i + 1])
        if now > beat + w then dead[#dead + 1] = all[i] end
    end
    for i = 1, #dead do leave(dead[i]) end
    sweep = math.max(SWEEP, 2 * waiters)
end
queue(owner, window, permits, tokens, ttl, delay, detached, now, attempt, believe(stamp, us), start, inbox, label)
waiters = waiters + 1
touch_queue(window)
promote() -- it may be the first
local reply = place(owner)
save()
return reply
