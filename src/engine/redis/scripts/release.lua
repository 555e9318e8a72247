-- SPDX-License-Identifier: MIT
--
-- End a lease, and hand the name to the next waiter.
--
-- Only the record of exactly this owner is removed, and only while it is valid: one whose deadline has
-- passed is gone already, uncleanly, and may have been succeeded. An owner that still waits leaves the
-- queue. The first write is an HDEL, so a full server can always be relieved of a lease.
--
-- A thin name that its own holder releases after the deadline was taken by nobody meanwhile, and has no lock delay: so the
-- clock need not be read, and it was released. (The client's own clock says whether it was lost before.) A client that was
-- granted the thin form deletes the field itself, and comes here only where that was not there.

-- include: state

local owner, tomb_ms = ARGV[1], ARGV[2] -- no second one: no tombstone
local got = call('HMGET', name, 'm', owner)
local state, form = got[1], FREE
if state then form = byte(state) end
if form == HELD and not tomb_ms then
    if not got[2] then return 0 end
    local minutes, hours = byte(state, REQUEST_AT + 18, REQUEST_AT + 19) -- of the ttl: a name is not remembered for days
    call('HDEL', name, owner)
    if minutes > 9 or hours > 0 then
-- include: clock
        last = unpack('<d', state, 2)
        exp = math.ceil(math.max(now, last / 1000) + 2 * SLACK)
        call('PEXPIREAT', name, exp)
        call('HSET', name, 'm', pack('<Bdd', FREE, last, exp))
    end
    return 1
end
if form == FREE and not tomb_ms then return 0 end

-- include: clock
wkey, qkey = KEYS[2], KEYS[3]
local record = form == FULL and call('HGET', name, 'h' .. owner)

-- The common case first, as the rules below would decide it: it holds, and nobody waits.
if record and not tomb_ms then
    version, watched, mode, capacity, taken, holders, waiters, last, soon, far, closed, tomb, exp,
        wexp, sweep = unpack(STATE, state)
    local deadline, token, tokens, permits = unpack(HOLDER, record)
    if waiters == 0 and now <= deadline and mode ~= SIZED then
        if holders == 1 and tomb == 0 then far = 0 end
        local need, moved = now, false
        if last / 1000 > need then need = last / 1000 end
        if far > need then need = far end
        if closed > need then need = closed end
        need = need + SLACK
        if exp < need or exp > need + 10 * SLACK then exp, moved = math.ceil(need + SLACK), true end
        call('HDEL', name, 'h' .. owner)
        if holders == 1 and tomb == 0 and now > closed then
            if closed > 0 then call('HDEL', name, 'c') end
            if mode == 1 then call('HDEL', name, 'u') end
            call('HSET', name, 'm', pack('<Bdd', FREE, last, exp))
        else
            call('HSET', name, 'm', pack(STATE, FULL, watched, mode, capacity, taken - permits, holders - 1, 0, last,
                soon, far, closed, tomb, exp, wexp, sweep))
        end
        if moved then call('PEXPIREAT', name, exp) end
        return 1
    end
    -- The other one: the only holder of a mutex goes, and the first of the queue is alive.
    if capacity == 1 and holders == 1 and waiters > 0 and now <= deadline and mode ~= SIZED and
        now > closed and now <= wexp and (tomb == 0 or now <= tomb) then
        local heir = call('LINDEX', qkey, 0)
        local waiter = heir and call('HGET', wkey, heir)
        if waiter then
            local beat, window, wpermits, wtokens, ttl, wdelay, wflags, since, attempt, client = unpack(WAITER, waiter)
-- include: inbox
            local inbox = inbox_of(client)
            if wflags % 16 >= HEARS and now > beat + FRESH and redis.pcall('PUBSUB', 'NUMSUB', inbox)[2] == 0 then
                beat = 0 -- nobody would hear it: see heir()
            end
            local first = last + 1
            if us > first then first = us end
            local ahead = wflags >= LINGERS and AHEAD_LINGERING or AHEAD
            if first + wtokens > us + ahead then wtokens = math.max(1, us + ahead - first) end
            if now <= beat + window and first <= TOKEN_LIMIT - wtokens and wflags % 2 ~= NUMBERED then
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
                watched = wflags >= LINGERS and 2 or wflags >= WATCHED and 1 or 0
                call('HSET', name, 'm', pack(STATE, FULL, watched, mode, 1, wpermits, 1, waiters, last, soon,
                    far, closed, tomb, exp, wexp, sweep), 'h' .. heir, pack(HOLDER, soon, first, wtokens,
                    wpermits, wdelay, ttl, now, wflags, window, first, 0, client) .. sub(waiter, WAITER_LEN + 1))
                if moved then call('PEXPIREAT', name, exp) end
                redis.pcall('PUBLISH', inbox, 'G' .. heir .. string.format(' %.0f %.0f %.0f %.0f', attempt, first, wtokens,
                    window) .. (watched > 0 and waiters > 0 and ' 1' or ''))
                return 1
            end
        end
    end
end

-- include: common

if form == HELD then state, record = read(owner, true, state) end
open(state)
expire()

local reply = 0
if record then
    local deadline, token, tokens, permits = unpack(HOLDER, record)
    if now <= deadline then
        call('HDEL', name, 'h' .. owner)
        taken, holders, dirty = taken - permits, holders - 1, true
        reply = 1
    end
end
if reply == 0 and waiters > 0 and call('HEXISTS', wkey, owner) == 1 then leave(owner) end
if tomb_ms then
    if not dirty then call('HDEL', name, 'h' .. owner) end
    bury(owner, tomb_ms + 0)
end
promote()
if dirty then save() end
return reply
