-- SPDX-License-Identifier: MIT
--
-- Read the server's clock. (Apart: the release of a thin name does not need it.)

local clock = call('TIME')
us = clock[1] * 1000000 + clock[2]
now = math.floor(us / 1000)
