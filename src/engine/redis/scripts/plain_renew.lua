-- SPDX-License-Identifier: MIT
--
-- Compare and set the expiry, of many locks at once. Never re-creates. The server itself deletes
-- what has expired, so a value that can be read is a lease that holds.

-- include: foreign

local replies = {}
for i = 1, #KEYS do
    replies[i] = 0
    if read('GET', KEYS[i]) == ARGV[2 * i - 1] then replies[i] = call('PEXPIRE', KEYS[i], ARGV[2 * i]) end
end
return replies
