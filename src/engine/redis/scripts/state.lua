-- SPDX-License-Identifier: MIT
--
-- The state of a name: what it consists of and what always holds. common.lua is the rules over it.
-- (Two files: making the functions of common.lua costs 3.5 microseconds a call, and the common
-- case of acquire and release is decided before.)
--
-- The field m of the name's key has one of three forms. Its first byte says which:
--
--   HELD   the *thin* form: one holder of a mutex that nobody waits for, without a lock delay. Last token, expiry of the key,
--          deadline; then the holder's request as it came (REQUEST). Its first token is last - tokens + 1, and its age
--          that of this token. The token that holds now is the first one. An empty field beside m has the owner as its
--          name, and it is what makes the lease: the holder ends it by a plain HDEL of that field, and m stays as it is.
--          Without the field m counts as FREE, of which it has the beginning (settled)
--   FREE   thin as well: nobody holds. Last token, expiry of the key
--   FULL   everything else: STATE, and a record for each holder, waiter and tombstone
--
-- A thin name has no waiter, no tombstone, no lock delay that runs, and no other field and key. The call that ends this
-- makes it full (inflate): the same holder with the same deadline and tokens, and the field of its owner goes in the same
-- call. So a HDEL finds the field only where nobody waits, and else answers 0: then release.lua must be asked. The call that
-- leaves nobody in a full name makes it thin again (save). A lease that has lapsed loses its field to the next grant, so
-- that a late HDEL is answered 0 as well.
--
-- A thin deadline is never further ahead than the longest that its holder was promised, or else the clock was set back. So
-- a thin name needs no second number to notice that.
--
-- Of the full form:
--
--   taken    = sum of the permits of the holder records, at most `capacity` (unless that was set smaller since)
--   soon    <= the deadline of every holder record: nobody is dead while now <= soon
--   far     >= deadline + lock delay of every holder record, and the end of every tombstone
--   waiters  = members of the queue = records in the waiter hash
--   last    >= every token ever given, and < us + AHEAD unless the clock went back: a block is made shorter
--              (of one token at least) where it would end later. So a server that has lost everything gives
--              larger tokens than before as soon as AHEAD has passed
--   last     is also at least the clock's reading, in microseconds and less one, at which any deadline, or the
--            end of a lock delay, was written: last > us + BACK means that the clock was set back since
--   closed  <= the clock's reading when it was written + the field c, a lock delay
--   the name's key expires later than now, far, closed, wexp and `last` as a time
--   both keys of the queue expire at wexp, later than every waiter's heartbeat + window
--
-- A semaphore whose size was set (resize.lua) has the mode SIZED. It stays full while it is free, its key expires at NEVER, and
-- `capacity` is that size. common.lua has this apart: `sized`, with the mode of a semaphore. Only the rules handle such a name, not
-- the common cases before them.
--
-- The permits of a holder with NUMBERED have numbers: the lowest ones, at its grant, that no such holder has. They are 4 bytes
-- each, in ascending order, between the record and its label, so whoever writes a record anew keeps them. They need no
-- state beside the records: numbers of a record that goes are free. Each number is below the capacity at the grant, for
-- fewer permits than that have numbers.
--
-- Why two conflicting leases can never be held at the same time: a holder record is only made if its permits fit
-- beside `taken`, `taken` changes only together with a record, and scripts run one at a time. A record goes only
-- by its owner's release, by break with its token, or when its deadline has passed on the server's clock; a key of
-- ours never expires before its last deadline has passed.
--
-- The state and the records are binary (struct, little-endian doubles: exact up to 2^53), because
-- formatting and parsing text costs more here than all calls of a script together (measured: 5.6
-- against 0.7 microseconds for a state).
--
-- Memory: a server at maxmemory refuses the first write of a script that may grow, but none after
-- a first write that cannot (HDEL, PEXPIREAT, LREM). What frees or keeps a lease therefore begins
-- with one of those and works on a full server; acquire does not, and is refused before it
-- has changed anything.
--
-- Time: milliseconds, rounded down. Something is over when now > its end, so that what was
-- granted for t ms lasts at least t ms of the server's clock.
--
-- A clock that is set back would keep a dead holder's record for as long as it went back. But a deadline is
-- never further ahead than the longest that its holder was promised, its ttl or its window, from the moment it was
-- written. So one that is was written before the clock went back, and becomes exactly that, counted from
-- now on (common.lua: expire): a living holder has all that it was promised, and renews; a dead one
-- goes then. A clock that went back by a second or less is not noticed, and lengthens a lease by no more.

local spread = unpack
local call, pack, unpack, sub, byte = redis.call, struct.pack, struct.unpack, string.sub, string.byte

local HELD, FREE, FULL = 5, 6, 7 -- 1 to 4 were other formats, and are refused
local REQUEST = '<c16I4I4I2Bc8I4' -- owner, ttl, window, tokens, flags, client id, attempt; then: label
local REQUEST_AT, REQUEST_LEN = 26, 39 -- in a thin state: its place and length
local TTL_MAX = 4294967295 -- that fits into it
local STATE = '<BBddddddddddddd'
local HOLDER = '<dddddddddddc8' -- then: label
local HOLDER_LEN = 96
local WAITER = '<dddddddddc8' -- then: label
local WAITER_LEN = 80
local TOKEN_LIMIT = 9007199254740992
local AHEAD = 1000 -- a block of tokens ends less than this many microseconds ahead of the server's clock
local SLACK = 60000 -- keys outlive their contents by this, so that their expiry is not set in every call
local SWEEP = 64 -- a queue of this length is searched for dead waiters, and again when it has doubled
local AHEAD_LINGERING = 50000 -- ... of a lease that lingers: each of its acquisitions has a token
local NUMBERED = 1 -- of a record; NUMBERED_WISH of a request, where 1 is that it waits
local NUMBERED_WISH = 64
local DETACHED = 4
local HEARS = 8 -- a waiter's inbox is at this very server, so the server knows whether its process listens
local WATCHED = 16 -- a holder wants to be told when others wait
local LINGERS = 32 -- ... and its process may keep the lease while nobody uses it
local FRESH = 100 -- milliseconds after a waiter's last call in which its listener is not checked (1 us a hand-over)
local DEAF = 64 -- at most this many waiters without a listener are passed over in one call
local BACK = 1000000 -- microseconds: tokens are never this far ahead of the clock by themselves
local SEMAPHORE, SIZED = 2, 3 -- modes; SIZED: the size was set
local NEVER = 9000000000000000 -- when the key of a name expires whose size was set; a time like others, for PEXPIREAT is the write that a full server allows

local name = KEYS[1] -- of the name at hand
local us, now -- the server's clock, in microseconds and in milliseconds
local wkey, qkey -- keys of its queue
local version, watched -- watched: what the holders want at most. 0: nothing, 1: WATCHED, 2: LINGERS
local mode, capacity, taken, holders, waiters -- the kind, and counts of records
local sized -- its size was set
local used, lowest -- once a number was given: those that holders have, and one below which all are
local last -- highest token
local soon, far, closed -- times; closed: no grants before this is over (lock delay)
local tomb -- when to look for tombstones that are over; 0: there are none
local exp, wexp, sweep -- expiry of the name's key and of the queue's; see SWEEP
local had -- waiters at the beginning
local back -- the clock was set back since something of this name was written
local dirty -- the state must be saved
local fields -- holder records to be written with it: field, record, ...
local said -- messages of grants, behind it: inbox, text, ...
local untold -- a waiter queues behind a grant of this call, whose holder must be told once it is stored
