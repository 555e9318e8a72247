-- SPDX-License-Identifier: MIT
--
-- End a lease at this node, and hand the name to the next waiter.
--
-- Only a record of this owner goes, of this attempt or an earlier one, and only while it counts: one whose
-- deadline has passed is gone already, uncleanly, and may have been succeeded. An owner that still waits
-- leaves the queue. The first write needs no memory, so a full server can always be relieved of a lease.
-- No epoch is checked: a release grants nothing to its caller. The answer is a number: for a list Redis
-- allocates a block of 16 KB.
--
-- A lease that is alone is released by a plain HDEL (state.lua). If that finds nothing, because a waiter has come or the
-- lease has ended, its client calls this.

-- include: clock
-- include: state

local key, wkey, qkey = KEYS[2], KEYS[3], KEYS[4]
local owner, attempt, tomb_ms = ARGV[2], ARGV[3] + 0, ARGV[4] + 0
local home = call('HMGET', ckey, 'm', 'n' .. ARGV[1])
local got = call('HMGET', key, 'm', 'h' .. owner, 'x' .. owner)

-- The common case: the only holder of a mutex goes, and nobody waits, or the first of the queue is alive.
if home[1] and home[2] and got[2] and byte(got[1]) == VERSION and tomb_ms == 0 and byte(home[1]) == VERSION then
    local version, mode, capacity, taken, holders, waiters, soon, far, closed, tomb, exp, wexp, sweep, seen =
        unpack(STATE, got[1])
    if mode == 0 and holders == 1 and tomb == 0 and now > closed and now >= seen and
        now <= unpack('<d', got[2]) and unpack('<d', got[2], 89) <= attempt then
        if waiters == 0 then
            call('DEL', key)
            call('HSET', ckey, 'n' .. ARGV[1], sub(home[2], 1, 8))
            return 1
        end
        local heir = now <= wexp and call('ZRANGE', qkey, 0, 0)[1]
        local record = heir and call('HGET', wkey, heir)
        if record and string.find(home[1], sub(record, WAITER_EPOCH, WAITER_LEN), 2, true) == 2 then
            local beat, window, permits, tokens, ttl, delay, flags, since, its, stamp, start, inbox_len =
                unpack(WAITER, record)
            if flags % 16 >= HEARS and now > beat + FRESH and
                redis.pcall('PUBSUB', 'NUMSUB', sub(record, WAITER_LEN + 1, WAITER_LEN + inbox_len))[2] == 0 then
                beat = 0 -- nobody would hear it: see heir()
            end
            local top = unpack('<d', home[1], 58)
            local proposed, c = ARGV[5] + tokens - 1, unpack('<d', home[2]) + tokens
            if proposed > c and (ARGV[5] + 0 <= us + AHEAD or proposed <= top) then c = proposed end
            if now <= beat + window and c < TOKEN_LIMIT and flags < WATCHED then
                soon, waiters = now + window, waiters - 1
                far = soon + delay
                if waiters == 0 then wexp, sweep = 0, SWEEP end
                local need = math.max(far, wexp) + SLACK
                local moved = exp < need or exp > need + 10 * SLACK
                if moved then exp = math.ceil(need + SLACK) end
                call('HDEL', key, 'h' .. owner)
                call('ZREM', qkey, heir)
                call('HDEL', wkey, heir)
                if c > top then
                    call('HSET', ckey, 'm', sub(home[1], 1, 57) .. pack('<d', math.min(c + STEP, TOKEN_LIMIT - 1)) ..
                        sub(home[1], 66))
                end
                call('HSET', ckey, 'n' .. ARGV[1], pack('<d', c) .. 'f')
                call('HSET', key, 'm', pack(STATE, VERSION, 0, capacity, permits, 1, waiters, soon, far, closed, 0, exp,
                    wexp, sweep, now, 0, 0), 'h' .. heir, pack(HOLDER, soon, ttl, window, c, 0, 0, tokens, permits, delay,
                    now, flags, its, stamp, start, unpack('<d', home[1], 50), inbox_len, 0) .. sub(record, WAITER_EPOCH))
                if moved then call('PEXPIREAT', key, exp) end
                redis.pcall('PUBLISH', sub(record, WAITER_LEN + 1, WAITER_LEN + inbox_len), string.format(
                    'G %s %.0f %.0f %.0f %.0f ', heir, its, c, tokens, window))
                return 1
            end
        end
    end
end

-- include: common

n.key, n.wkey, n.qkey, n.id = key, wkey, qkey, ARGV[1]
n.join(home[1])
node.proposal = ARGV[5] + 0
n.load(owner, false, got, home[2])
n.expire()

local reply = 'N'
if got[2] then
    local deadline, ttl, window, c, held, tid, tokens, permits, delay, since, flags, own, stamp, start, limit,
        inbox_len, slots_len = unpack(HOLDER, got[2])
    if now <= deadline and own <= attempt then
        call('HDEL', n.key, 'h' .. owner)
        n.vacate(permits, n.slots_of(got[2], inbox_len, slots_len), flags)
        reply = 'R'
    end
end
local mine = reply == 'N' and n.waiters > 0 and call('HGET', n.wkey, owner)
if mine then
    local beat, window, permits, tokens, ttl, delay, flags, since, own = unpack(WAITER, mine)
    if own <= attempt then n.leave(owner) end
end
if tomb_ms > 0 then
    if not n.dirty then call('HDEL', n.key, '') end -- a write that needs no memory
    n.bury(owner, attempt, tomb_ms, got[3])
end
n.promote()
if n.dirty then n.save() end
return reply == 'R' and 1 or 0
