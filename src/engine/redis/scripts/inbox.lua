-- SPDX-License-Identifier: MIT
--
-- The inbox of a client.
local function inbox_of(client)
    local high, low = unpack('>I4I4', client)
    return string.format('%sinbox:%08x%08x', sub(name, 1, string.find(name, '{', 1, true) - 1), high, low)
end
