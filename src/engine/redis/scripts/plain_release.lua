-- SPDX-License-Identifier: MIT
--
-- Compare and delete: only the lock with exactly this value goes. Also for break, with the value that
-- look has shown.

-- include: foreign

if read('GET', KEYS[1]) ~= ARGV[1] then return 0 end
call('DEL', KEYS[1])
return 1
