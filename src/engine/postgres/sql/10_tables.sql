-- SPDX-License-Identifier: MIT
--
-- The tables. What begins with @ gets the schema and the prefix. What ends with _1 is a function whose parameters and answer are
-- those of _1: a version of Holdfast that needs others makes its own beside them. PG_VERSION (internal.h) is raised with every
-- change of what is here: whoever comes with a higher one replaces all functions, for everybody.
--
-- A row of `names` is the name's lock: every function that changes anything of a name locks that row first,
-- and none but renew and note locks two (those in the order of the names). So nobody waits in a circle, and two
-- names never wait for each other. A holder who has all permits of a name (a mutex, a writer) is in that row
-- itself, so that an uncontended acquire or release changes one row and no index; others are in `holders`.
--
--   taken    = sum of the permits of the holders
--   soon    <= the end of every holder (of the one in the row: its end)
--   waiters  = rows in `waiters`, all with seq > head
--   ttl, delay: of the holder in the row; of several holders the largest ttl, and the delay for which it is closed
--   last    >= every token ever given, and less than 1000 microseconds (50000 of a lease that lingers, flag 32) ahead of the
--              clock unless that went back: a block of tokens is made shorter (of one at least) where it would end later
--   token, tokens: of a holder, the block that it was granted. One that lingers has further ones, up to `last` (refill)
--
-- A semaphore whose size was set (resize) has a row in `holders` that holds nothing: owner '', no permits, flag 128, an end that never comes
-- (9007199254740991). So it counts as in use, also for clients of older versions, and its capacity stays. While it is there no holder is in
-- the row of the name; nor is ever one whose permits have numbers (flag 64).
--
-- Times are of the server's clock, in microseconds since 1970. Something is over when now > its end. No end is further
-- ahead of the clock than the ttl beside it (or the delay), unless the clock was set back since: then turn cuts it.
CREATE TABLE IF NOT EXISTS @names (
    name bytea PRIMARY KEY,
    mode int8 NOT NULL DEFAULT 0, -- 0 mutex, 1 read-write, 2 semaphore
    capacity int8 NOT NULL DEFAULT 0,
    taken int8 NOT NULL DEFAULT 0,
    holders int8 NOT NULL DEFAULT 0,
    waiters int8 NOT NULL DEFAULT 0,
    last int8 NOT NULL DEFAULT 0,
    closed int8 NOT NULL DEFAULT 0, -- no grants before this is over (lock delay)
    soon int8 NOT NULL DEFAULT 0,
    head int8 NOT NULL DEFAULT 0,
    owner bytea, -- who has all of it; NULL: nobody
    client int8 NOT NULL DEFAULT 0,
    token int8 NOT NULL DEFAULT 0,
    tokens int8 NOT NULL DEFAULT 0,
    current int8 NOT NULL DEFAULT 0, -- the token of the block that holds now
    tid int8 NOT NULL DEFAULT 0, -- which thread; 0: not known, -1: none, it lingers
    ttl int8 NOT NULL DEFAULT 0,
    delay int8 NOT NULL DEFAULT 0,
    flags int8 NOT NULL DEFAULT 0,
    since int8 NOT NULL DEFAULT 0,
    label bytea
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS @holders (
    name bytea NOT NULL,
    owner bytea NOT NULL,
    client int8 NOT NULL,
    permits int8 NOT NULL,
    until int8 NOT NULL,
    token int8 NOT NULL,
    tokens int8 NOT NULL,
    current int8 NOT NULL,
    tid int8 NOT NULL DEFAULT 0,
    ttl int8 NOT NULL,
    delay int8 NOT NULL,
    flags int8 NOT NULL,
    since int8 NOT NULL,
    label bytea,
    slots int4[], -- flag 64: the numbers of its permits
    PRIMARY KEY (name, owner)
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS @waiters (
    owner bytea PRIMARY KEY,
    name bytea NOT NULL,
    seq int8 NOT NULL GENERATED ALWAYS AS IDENTITY,
    client int8 NOT NULL,
    permits int8 NOT NULL,
    tokens int8 NOT NULL,
    span int8 NOT NULL, -- the claim window
    ttl int8 NOT NULL,
    delay int8 NOT NULL,
    flags int8 NOT NULL,
    since int8 NOT NULL,
    label bytea,
    replaces bytea, -- it takes the place of the holder with this owner (claim); NULL: of nobody
    UNIQUE (name, seq)
);
-- A waiter lives as long as its client does. Only the client's own beat and bell write its row. `bell` is the number of an
-- advisory lock that the connection with this pid, of this role, has as long as it lives (bell).
CREATE TABLE IF NOT EXISTS @clients (
    client int8 PRIMARY KEY,
    until int8 NOT NULL,
    bell int8 NOT NULL DEFAULT 0,
    pid int4 NOT NULL DEFAULT 0,
    role name
) WITH (fillfactor = 50);
-- What a client that naps is told (nap), in the words of a notification. The client deletes what it has heard.
CREATE TABLE IF NOT EXISTS @mail (
    client int8 NOT NULL,
    seq int8 NOT NULL GENERATED ALWAYS AS IDENTITY,
    words text NOT NULL,
    PRIMARY KEY (client, seq)
);
-- bytes NULL: there is no such cell, but somebody waits for one.
CREATE SEQUENCE IF NOT EXISTS @versions;
CREATE TABLE IF NOT EXISTS @cells (
    name bytea PRIMARY KEY,
    version int8 NOT NULL,
    bytes bytea,
    until int8
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS @watchers (
    name bytea NOT NULL,
    client int8 NOT NULL,
    until int8 NOT NULL,
    PRIMARY KEY (name, client)
);
