-- SPDX-License-Identifier: MIT
--
-- The holder of a thin name as it is in the full form: its field, its record, its deadline. That is no further ahead than the
-- longest that the holder was promised: else the clock was set back since.
local function thin_holder(state)
    local token, expiry, deadline, owner, ttl, window, tokens, flags, client = unpack('<dddc16I4I4I2Bc8', state, 2)
    local first, most = token - tokens + 1, now + math.max(ttl, window)
    if deadline > most then deadline = most end
    return 'h' .. owner, pack(HOLDER, deadline, first, tokens, 1, 0, ttl, math.floor(first / 1000),
        flags - flags % DETACHED, window, first, 0, client) .. sub(state, REQUEST_AT + REQUEST_LEN), deadline
end
