-- SPDX-License-Identifier: MIT
--
-- The state of a name at this node: what it consists of and what always holds. common.lua is the rules
-- over it. (Two files: making functions costs microseconds, and the common case of acquire and
-- release is decided before.)
--
--   taken    = sum of the permits of the holder records, at most `capacity`
--   used     = the slots of the holder records (semaphore), no slot twice
--   soon    <= the deadline of every holder record: nobody is dead while now <= soon
--   far     >= deadline + lock delay of every holder record, and the end of every tombstone
--   waiters  = members of the queue = records in the waiter hash
--   seen    >= every reading of the clock that is in the records: now < seen means that it went back
--   the name's key expires later than now, far, closed and wexp; it is gone when nothing counts
--   both keys of the queue expire at wexp, later than every waiter's heartbeat + window
--   watched  = holder records with the flag WATCHED; lingers = those with LINGERS
--   top     >= every counter of this node and the floor; no counter ever falls (nor does the top)
--
-- Why two conflicting leases can never be held at this node at the same time: a holder record is only made if
-- its permits fit beside `taken` (its slots beside `used`), those change only together with a record, and
-- scripts run one at a time. A record goes only by its owner's release or a later attempt of its owner, by
-- break, by its owner's yielding, or when its deadline has passed on this node's clock.
--
-- Why a counter of this node orders the holders at this node: each grant raises it by what the grant takes in
-- the step that makes the record, and write only ever raises it while its caller holds. That majorities of such
-- nodes order everybody is the business of the client (quorum.h).
--
-- Most names have one holder, which releases before any other client comes: it is *alone* (a mutex, no lock delay). Its name
-- has no key. The lease is in the field of the counter, behind the counter: one number is both, since nothing raises the
-- counter without replacing the holder, and a write-back raises both. As long as it is not released there is a second field,
-- whose name is the lease's own: `l`, attempt, owner. So a release is one HDEL, without a script, and it tells what it
-- ended. The three forms of a counter's field:
--
--   free    counter. 8 bytes. Nobody holds, waits or is buried, and the name has no key
--   alone   counter, deadline, since (doubles), the request as it came. The lease lives while its second field is there and its
--           deadline has not passed; otherwise this is free
--   full    counter, a byte. The name has a key (or had one that has expired: then this is free)
--
-- A name that has a key has a field that says so, or none. All scripts but acquire, write and renew first write out a lease
-- that is alone as it would have been (common.lua: unfold). model/node.py shows that this does what the rules say.
--
-- Records are binary (struct, little-endian doubles: exact up to 2^53): text costs more than all calls.
--
-- Memory: a server at maxmemory refuses the first write of a script that may grow, but none after
-- a first write that cannot (HDEL, DEL, PEXPIREAT, ZREM). What frees or keeps a lease therefore begins
-- with one of those and works on a full server; acquire does not, and is refused before it
-- has changed anything.
--
-- Time: milliseconds, rounded down. Something is over when now > its end, so that what was
-- granted for t ms lasts at least t ms of the node's clock.

local STATE = '<Bddddddddddddddd' -- then: used
local STATE_LEN = 121
local HOLDER = '<dddddddddddddddI4I4' -- then: epoch, inbox, slots, label
local HOLDER_LEN = 152 -- with the epoch, which begins at ...
local HOLDER_EPOCH = 129
local WAITER = '<dddddddddddI4' -- then: epoch, inbox, label
local WAITER_LEN = 116
local WAITER_EPOCH = 93
local VERSION = 3
local FREE_LEN, FULL_LEN = 8, 9 -- of a counter's field; a longer one has a lease
local ESCAPED = { ['%'] = '%25', ['{'] = '%7B', ['}'] = '%7D' } -- in keys
local BELIEVED = 100000 -- a stamp may be this many microseconds behind it
local IDLE = 60000000 -- a counter that is this far behind need not be stored separately from the floor
local SLACK = 60000 -- keys outlive their contents by this, so that their expiry is not set in every call
local SWEEP = 64 -- a queue of this length is searched for dead waiters, and again when it has doubled
local SLOTS_MAX = 4096 -- that one lease can have
local NUMBERED, NUMBERED_WISH = 1, 64 -- its client wants to know its slots: of a record, and of a request, where 1 is that it waits
local DETACHED = 4
local WATCHED, LINGERS = 16, 32 -- a holder that is told when others wait; one whose process may keep it unused
local HEARS = 8 -- a waiter listened to its inbox here when it asked, so that we know whether its process is there
local FRESH = 100 -- milliseconds after a waiter's last call in which its listener is not checked
local DEAF = 64 -- at most this many waiters without a listener are passed over in one call

-- Two tables, because a function that is made anew for every call pays for each variable that it shares
-- (with 40 of them common.lua costs 11 microseconds a call).
local node = {} -- m: its field; epoch, max_ttl: no epoch: it is uninitialised; top, floor: of its counters; proposal: the caller's
local n = {} -- the name at hand:
-- key, wkey, qkey: its keys; id: its bytes, so that its counter is in the field 'n' .. id
-- before: how many waited when the call began; told: those that watch are to be told how it is now
-- mode, capacity: its kind; taken, holders, waiters: counts; used: see above
-- soon, far, seen: times, see above; closed: no grants before this is over (lock delay)
-- tomb: when to look for tombstones that are over; 0: there are none
-- exp, wexp: expiry of its key and of its queue's; sweep: see SWEEP
-- field: the field of its counter, or false; count: its counter; counted: it was raised
-- stale: the second field of a lease that has expired; lease: one that is alone, granted in this call
-- dirty: the state must be saved; fields: records to be written with it: field, record, ...
-- won: owner -> what a waiter was granted in this call
-- and the rules (common.lua)
