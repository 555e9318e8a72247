-- SPDX-License-Identifier: MIT
--
-- End a lease, and hand the name to the next waiter.
--
-- Only the record of exactly this owner is removed, and only while it is valid: one whose deadline has
-- passed is gone already, uncleanly, and may have been succeeded. An owner that still waits leaves the
-- queue. The first write is an HDEL, so a full server can always be relieved of a lease.

-- include: state

local owner, tomb_ms = ARGV[1], ARGV[2] + 0
local got = call('HMGET', name, 'm', 'h' .. owner)

-- The common case first, as the rules below would decide it: it holds, and nobody waits.
if got[1] and byte(got[1]) == VERSION and got[2] and tomb_ms == 0 then
    version, mode, capacity, taken, holders, waiters, last, soon, far, closed, tomb, exp,
        wexp, sweep = unpack(STATE, got[1])
    local deadline, token, tokens, permits = unpack(HOLDER, got[2])
    if version == VERSION and waiters == 0 and now <= deadline then
        if holders == 1 and tomb == 0 then far = 0 end
        local need, moved = now, false
        if last / 1000 > need then need = last / 1000 end
        if far > need then need = far end
        if closed > need then need = closed end
        need = need + SLACK
        if exp < need or exp > need + 10 * SLACK then exp, moved = math.ceil(need + SLACK), true end
        call('HDEL', name, 'h' .. owner)
        call('HSET', name, 'm', pack(STATE, VERSION, mode, capacity, taken - permits, holders - 1, 0, last,
            soon, far, closed, tomb, exp, wexp, sweep))
        if moved then call('PEXPIREAT', name, exp) end
        return { 'R' }
    end
    -- The other one: the only holder of a mutex goes, and the first of the queue is alive.
    if version == VERSION and capacity == 1 and holders == 1 and waiters > 0 and now <= deadline and
        now > closed and now <= wexp and (tomb == 0 or now <= tomb) then
        local heir = call('LINDEX', qkey, 0)
        local record = heir and call('HGET', wkey, heir)
        if record then
            local beat, window, wpermits, wtokens, ttl, wdelay, wflags, since, attempt_len, inbox_len =
                unpack(WAITER, record)
            if wflags % 16 >= HEARS and now > beat + FRESH and redis.pcall('PUBSUB', 'NUMSUB', sub(record,
                WAITER_LEN + attempt_len + 1, WAITER_LEN + attempt_len + inbox_len))[2] == 0 then
                beat = 0 -- nobody would hear it: see heir()
            end
            local first = last + 1
            if us > first then first = us end
            if first + wtokens > us + AHEAD then wtokens = math.max(1, us + AHEAD - first) end
            if now <= beat + window and first <= TOKEN_LIMIT - wtokens then
                local at = WAITER_LEN + attempt_len
                local inbox = sub(record, at + 1, at + inbox_len)
                last, soon, waiters = first + wtokens - 1, now + window, waiters - 1
                if tomb == 0 or soon + wdelay > far then far = soon + wdelay end
                if waiters == 0 then wexp, sweep = 0, SWEEP end
                local need, moved = far, false
                if last / 1000 > need then need = last / 1000 end
                if closed > need then need = closed end
                if wexp > need then need = wexp end
                need = need + SLACK
                if exp < need or exp > need + 10 * SLACK then exp, moved = math.ceil(need + SLACK), true end
                call('HDEL', name, 'h' .. owner)
                call('LPOP', qkey)
                call('HDEL', wkey, heir)
                call('HSET', name, 'm', pack(STATE, VERSION, mode, 1, wpermits, 1, waiters, last, soon,
                    far, closed, tomb, exp, wexp, sweep), 'h' .. heir, pack(HOLDER, soon, first, wtokens,
                    wpermits, wdelay, ttl, now, wflags, window, first, 0, inbox_len) .. sub(record, at + 1))
                if moved then call('PEXPIREAT', name, exp) end
                redis.pcall('PUBLISH', inbox, string.format('G %s %s %.0f %.0f %.0f', heir,
                    sub(record, WAITER_LEN + 1, at), first, wtokens, window))
                return { 'R' }
            end
        end
    end
end

-- include: common

open(got[1])
expire()

local reply = 'N'
if got[2] then
    local deadline, token, tokens, permits = unpack(HOLDER, got[2])
    if now <= deadline then
        call('HDEL', name, 'h' .. owner)
        taken, holders, dirty = taken - permits, holders - 1, true
        reply = 'R'
    end
end
if reply == 'N' and waiters > 0 and call('HEXISTS', wkey, owner) == 1 then leave(owner) end
if tomb_ms > 0 then
    if not dirty then call('HDEL', name, 'h' .. owner) end
    bury(owner, tomb_ms)
end
promote()
if dirty then save() end
return { reply }
