-- SPDX-License-Identifier: MIT
-- Does this server let a script use a key that was not declared? If not, this fails.

return redis.call('HGET', KEYS[1] .. ':w', 'm')
