-- SPDX-License-Identifier: MIT
--
-- A rate limit's decision: take (t), look (l), give back (b), set the rule (s) or unset it (u), by the server's clock. prim/limit_plan.h
-- says what is decided and why that is right; this decides the same and leaves the same bytes
-- (test/redis/limit.c). All numbers are whole and below 2^53, where doubles are exact; dividing up
-- goes by fmod, which is exact too, and not by a quotient that may have been rounded.
--
-- ARGV[1] is the head of the state: "L1", the kind, rate, period, burst. ARGV[2] is the question in one string, and so is the
-- answer: an argument for each number, and a table for the answer, cost as much as the decision. A refusal that needs no
-- numbers is its letter alone. An answer by another rule than that of the question has the head of the state behind it.
--
-- The head of nearly all states is that of the question. Whatever else there is to decide about rules is done where it is not.
--
-- The state is a string under the cell's key, so that a name which is a cell already is
-- refused by the server (WRONGTYPE), and the other way round. It expires when it is over, unless a rule was set.

local call, pack, unpack, sub, byte = redis.call, struct.pack, struct.unpack, string.sub, string.byte
local fmod = math.fmod
local HOLD, MORE, LOG, LINE, ANSWER = 10000000, 44, 60, 12, '<c1i8i8i8i8'

local clock = call('TIME')
local state = call('GET', KEYS[1])
local now = clock[1] * 1000000 + clock[2]
local head = ARGV[1]
local act, kind, permits, most, rate, period, full, unit, speed = unpack('<c1Bi8i8i8i8i8i8i8', ARGV[2])
local seen, over, level = now, 0, full -- level: of a bucket, or the first number of another kind
local how, other -- how the rule came, if it was not with requests; the head, if the rule is that of the state

if state then
    local ours = sub(state, 1, 27) == head
    if not ours then
        if byte(state) ~= 76 then return 'M' end
        if byte(state, 2) < 49 or byte(state, 2) > 51 then return 'V' end
    end
    if #state < (byte(state, 3) == 98 and 51 or 59) then return 'X' end
    seen, over, level = unpack('<i8i8i8', state, 28)
    if seen > now then
        local shift = now - seen
        if shift >= -HOLD then
            now = seen
        else
            seen, over = now, over + shift
            if byte(state, 3) == 115 then
                level = level + shift
                local lines = { sub(state, 1, MORE - 1), pack('<i8', level), sub(state, MORE + 8, LOG - 1) }
                for i = LOG, #state, LINE do
                    local when, count = unpack('<i8i4', state, i)
                    lines[#lines + 1] = pack('<i8i4', when + shift, count)
                end
                state = table.concat(lines)
            end
        end
    end
    local live = now < over
    if not ours and (live or byte(state, 2) == 50) then
        local was = sub(state, 2, 2)
        local was_kind, was_rate, was_period, was_burst = unpack('<Bi8i8i8', state, 3)
        local was_unit, was_speed = 0, 0
        if was_kind == 98 then
            local a, b = was_rate, was_period
            while b ~= 0 do a, b = b, fmod(a, b) end
            was_unit, was_speed = was_period / a, was_rate / a
        end
        if rate ~= 0 and was_kind ~= kind then return 'M' end
        if rate == 0 or (was == '2' and act ~= 's') or (was == '3' and act == 'b') then
            how, other = was, sub(state, 1, 27)
            head = other
            kind, rate, period, unit, speed = was_kind, was_rate, was_period, was_unit, was_speed
            full = was_burst * was_unit
            if act == 't' then
                if permits > (kind == 98 and was_burst or rate) then return 'P' end
                local longest = 2251799813685248
                if kind == 98 and most > (longest - fmod(longest, speed)) / speed then
                    most = (longest - fmod(longest, speed)) / speed
                end
            end
        elseif act ~= 's' and was ~= '3' then
            return 'M'
        elseif live and sub(state, 3, 27) ~= sub(head, 3) then
            -- Carry it over.
            if kind == 102 then
                local begin = over - was_period
                over = begin + period + (begin > now and 1 or 0)
                state = sub(state, 1, MORE + 7) .. pack('<i8', 0)
            elseif kind == 115 then
                if level <= now - was_period then level = 0 end
                over = over + period - was_period
                state = sub(state, 1, MORE - 1) .. pack('<i8', level) .. sub(state, MORE + 8)
            else
                level = level + (now - seen) * was_speed
                seen = now
                if level < 0 then
                    local lack = was_speed - 1 - level
                    local till = (lack - fmod(lack, was_speed)) / was_speed + 1
                    if till > (2251799813685248 - fmod(2251799813685248, speed)) / speed then return 'M' end
                    level = -till * speed
                else
                    local missing = was_burst * was_unit - level
                    local parts = fmod(missing, was_unit)
                    local whole = (missing - parts) / was_unit
                    if whole * unit >= full then
                        level = 0
                    else
                        local to, scaled, rest, bit = unit, 0, 0, 2251799813685248
                        while bit >= 1 do
                            scaled, rest = scaled * 2, rest * 2
                            if to >= bit then
                                to, rest = to - bit, rest + parts
                            end
                            while rest >= was_unit do
                                scaled, rest = scaled + 1, rest - was_unit
                            end
                            bit = bit / 2
                        end
                        level = full - whole * unit - scaled - (rest > 0 and 1 or 0)
                    end
                end
                local lack = full - level + speed - 1
                over = now + (lack - fmod(lack, speed)) / speed
            end
            live = now < over
        end
    end
    if not live then state = nil end
end
if rate == 0 then return act == 'u' and 'U' or 'N' end
if act == 's' or act == 'u' then
    if act == 'u' and how ~= '2' then return 'U' end
    how = act == 's' and '2' or state and '3' or '1'
    head = 'L' .. how .. sub(head, 3)
end
if act == 'b' and (not state or most <= now) then return 'K' end
local refill = state and over - now or 0

-- Read the state, and find when the permits are available.
local at, left, more = now, 0, nil
local used, before = 0, 0 -- f, fixed
local gone, total, first, size = 0, 0, LOG, LOG -- s, sliding: the log from `first` to before `size`
if kind == 102 then
    if state then
        used, before = level, unpack('<i8', state, MORE + 8)
    else
        over = now + period
    end
    if over - period <= now then left = rate - used end
    at = used + permits > rate and over or over - period
    if at < now then at = now end
elseif kind == 115 then
    if state then
        gone, total = level, unpack('<i8', state, MORE + 8)
        size = #state + 1
        if act ~= 'b' then
            while first < size do
                local when, count = unpack('<i8i4', state, first)
                if when > now - period then break end
                gone, total, first = when, total - count, first + LINE
            end
            if gone + period > at then at = gone + period end
            if first < size then
                local last = unpack('<i8', state, size - LINE)
                if last > at then at = last end
            end
        end
    end
    if at <= now then left = rate - total end
    local line, sum = first, total
    while line < size and sum + permits > rate do
        local when, count = unpack('<i8i4', state, line)
        if when + period > at then at = when + period end
        sum, line = sum - count, line + LINE
    end
else
    if state then level = level + (now - seen) * speed else level = full end
    if level > 0 then left = (level - fmod(level, unit)) / unit end
    local need = permits * unit - level
    if need > 0 then
        need = need + speed - 1
        at = now + (need - fmod(need, speed)) / speed
    end
end

if left < 0 then left = 0 end -- more was used than the rule of now allows

if act == 'l' then return pack(ANSWER, 'L', 0, left, refill, now) .. (other or '') end
if act == 't' then
    if at - now > most then return pack(ANSWER, 'R', at - now, left, refill, at) .. (other or '') end
    if kind == 102 then
        if used + permits > rate then
            before, used, over = used, 0, over + period
        end
        used = used + permits
    elseif kind == 115 then
        while size - first >= rate * LINE do
            local when, count = unpack('<i8i4', state, first)
            gone, total, first = when, total - count, first + LINE
        end
        local log, count = '', permits
        if first < size then
            local when, last = unpack('<i8i4', state, size - LINE)
            if when == at then
                count, size = last + permits, size - LINE
            end
            log = sub(state, first, size - 1)
        end
        over = at + period
        more = pack('<i8i8', gone, total + permits) .. log .. pack('<i8i4', at, count)
    else
        level = level - permits * unit
    end
elseif act ~= 'b' then
    if not state then
        over, more = now, pack('<i8i8', 0, 0)
    elseif kind == 115 then
        more = sub(state, MORE)
    end
elseif kind == 102 then
    if most ~= over - period or used < permits then return 'K' end
    used = used - permits
    if used == 0 then
        over, used, before = most, before, rate
    end
elseif kind == 115 then
    local lines, found, last = {}, false, gone
    for i = LOG, size - 1, LINE do
        local when, count = unpack('<i8i4', state, i)
        if when == most and count >= permits and not found then
            found, count = true, count - permits
        end
        if count > 0 then
            last = when
            lines[#lines + 1] = pack('<i8i4', when, count)
        end
    end
    if not found then return 'K' end
    over = last + period
    more = pack('<i8i8', gone, total - permits) .. table.concat(lines)
else
    local debt = speed - 1 - level
    -- More than a bucket: reserved by the rule before this one. It would spill.
    if permits > full / unit or level >= 0 or most ~= now + (debt - fmod(debt, speed)) / speed then return 'K' end
    level = level + permits * unit
end

local bytes
if kind == 98 then
    local lack = full - level + speed - 1
    over = now + (lack - fmod(lack, speed)) / speed
    bytes = pack('<c27i8i8i8', head, now, over, level)
elseif kind == 102 then
    bytes = pack('<c27i8i8i8i8', head, now, over, used, before)
else
    bytes = pack('<c27i8i8', head, now, over) .. more
end
refill = over - now
if how == '2' then
    call('SET', KEYS[1], bytes)
else
    local life = math.floor(refill / 1000) + 1
    call('SET', KEYS[1], bytes, 'PX', life)
end
if act == 't' then
    local answer = pack(ANSWER, 'G', at - now, at > now and 0 or left - permits, refill, at)
    return other and answer .. other or answer
end
if act == 's' then return pack(ANSWER, 'L', 0, left, refill, now) end
return act == 'b' and 'B' or 'U'
