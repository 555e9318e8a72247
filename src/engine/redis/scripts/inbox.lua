-- SPDX-License-Identifier: MIT
--
-- The inbox of a client. The prefix ends before the last brace that opens: it may have a {tag}, and those of the name are escaped.
local function inbox_of(client)
    local high, low = unpack('>I4I4', client)
    return string.format('%sinbox:%08x%08x', string.match(name, '^(.*){'), high, low)
end
