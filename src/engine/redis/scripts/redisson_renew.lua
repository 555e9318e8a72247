-- SPDX-License-Identifier: MIT
-- Set the expiry of many locks at once, of those in which our field is. Never re-creates.

-- include: foreign

local replies = {}
for i = 1, #KEYS do
    replies[i] = 0
    if read('HEXISTS', KEYS[i], ARGV[2 * i - 1]) == 1 then replies[i] = call('PEXPIRE', KEYS[i], ARGV[2 * i]) end
end
return replies
