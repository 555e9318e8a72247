-- SPDX-License-Identifier: MIT
--
-- What every script begins with: the calls it makes, the node's clock.

local spread = unpack
local call, pack, unpack, sub, byte = redis.call, struct.pack, struct.unpack, string.sub, string.byte

local TOKEN_LIMIT = 9007199254740992
local AHEAD = 60000000 -- a proposal may be this many microseconds ahead of the node's clock
local STEP = 1000000 -- when a counter exceeds the top, the top rises by this much more: so it is written once a second

local clock = call('TIME')
local us = clock[1] * 1000000 + clock[2]
local now = math.floor(us / 1000)
local ckey = KEYS[1] -- the cluster's, where a script has that
