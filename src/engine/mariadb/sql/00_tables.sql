-- SPDX-License-Identifier: MIT
--
-- The tables. ~ is the prefix of their names. Times are microseconds since 1970 of the server's clock,
-- durations are milliseconds. Something is over when the clock is past its end.
--
-- names: one row for each name; its row lock is the lock of all that belongs to the name. A lease that was
-- granted at once and takes the whole capacity is in the row itself (x_...): acquire and release are then
-- one statement on one row. Everybody else has a row in claims.
--
--   taken   = permits of x and of the claims in state G or H, at most capacity
--   holders = how many these are; waiters = claims in state W
--   soon   <= the end of every claim in state G or H
--   head   <= the ticket of every claim in state W; tickets rise: first come, first served
--   token  >= every token ever given, and less than 1000 microseconds (50000 of a lease that lingers, flag 32) ahead of the clock
--             unless that went back: a block of tokens is made shorter (of one at least) where it would end later
--   x_token, x_tokens (of a claim: token, tokens): the block of the grant. A lease that lingers has further ones, up to the name's
--             token (refill). x_tid: which thread has it; 0: not known, -1: none, it lingers
--   x_ttl, x_delay: of x; without x the longest ttl or window of the claims in state G or H, and the delay for which it is closed
--
-- No end is further ahead of the clock than the ttl beside it (of a claim: ttl or window; of `closed`: the delay), unless the
-- clock was set back since: then settle cuts it.
--
-- claims: W waits; G granted by hand-over and not renewed yet: the bell tells its client; H held; L was broken,
-- its client is to be told.
--
-- A semaphore whose size was set (resize) has a claim in state H that holds nothing: an owner of zeros, no permits, flag 128, an end that never
-- comes (9007199254740991). So it counts as in use, also for clients of older versions, and its capacity stays. While it is there no
-- lease is in the row of the name; nor is ever one whose permits have numbers (flag 64).
--
-- slots: the numbers of a name, from 0 on without a gap, and which claim (by its ticket) had each of them last. A number is taken while that
-- claim is in state G or H.
--
-- letters: what a holder that asked for it (flag 16) is told (want): kind W, U or A, for the claim of this owner. They stay for a while,
-- each with a random number, by which its client knows it.
CREATE TABLE IF NOT EXISTS `~names` (
  name VARBINARY(512) NOT NULL,
  mode TINYINT NOT NULL DEFAULT 0,
  capacity INT NOT NULL DEFAULT 1,
  taken INT NOT NULL DEFAULT 0,
  holders INT NOT NULL DEFAULT 0,
  waiters INT NOT NULL DEFAULT 0,
  token BIGINT NOT NULL DEFAULT 0,
  ticket BIGINT NOT NULL DEFAULT 0,
  head BIGINT NOT NULL DEFAULT 0,
  soon BIGINT NOT NULL DEFAULT 0,
  closed BIGINT NOT NULL DEFAULT 0,
  x_owner VARBINARY(16) NOT NULL DEFAULT '',
  x_client BIGINT NOT NULL DEFAULT 0,
  x_flags INT NOT NULL DEFAULT 0,
  x_token BIGINT NOT NULL DEFAULT 0,
  x_tokens INT NOT NULL DEFAULT 0,
  x_holds BIGINT NOT NULL DEFAULT 0,
  x_tid BIGINT NOT NULL DEFAULT 0,
  x_ttl BIGINT NOT NULL DEFAULT 0,
  x_delay BIGINT NOT NULL DEFAULT 0,
  x_since BIGINT NOT NULL DEFAULT 0,
  x_until BIGINT NOT NULL DEFAULT 0,
  x_label VARBINARY(127) NOT NULL DEFAULT '',
  PRIMARY KEY (name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
CREATE TABLE IF NOT EXISTS `~claims` (
  name VARBINARY(512) NOT NULL,
  ticket BIGINT NOT NULL,
  owner BINARY(16) NOT NULL,
  client BIGINT NOT NULL,
  state CHAR(1) NOT NULL,
  permits INT NOT NULL,
  flags INT NOT NULL,
  token BIGINT NOT NULL DEFAULT 0,
  tokens INT NOT NULL,
  holds BIGINT NOT NULL DEFAULT 0,
  tid BIGINT NOT NULL DEFAULT 0,
  ttl BIGINT NOT NULL,
  delay BIGINT NOT NULL,
  claim_window BIGINT NOT NULL,
  since BIGINT NOT NULL,
  until BIGINT NOT NULL DEFAULT 0,
  label VARBINARY(127) NOT NULL,
  PRIMARY KEY (name, ticket),
  KEY owner (owner),
  KEY client (client)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
CREATE TABLE IF NOT EXISTS `~clients` (
  client BIGINT NOT NULL,
  until BIGINT NOT NULL,
  PRIMARY KEY (client)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
CREATE TABLE IF NOT EXISTS `~cells` (
  name VARBINARY(512) NOT NULL,
  version BIGINT NOT NULL,
  bytes LONGBLOB NULL,
  until BIGINT NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
CREATE TABLE IF NOT EXISTS `~watches` (
  name VARBINARY(512) NOT NULL,
  client BIGINT NOT NULL,
  until BIGINT NOT NULL,
  PRIMARY KEY (name, client)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
CREATE TABLE IF NOT EXISTS `~letters` (
  client BIGINT NOT NULL,
  letter BINARY(16) NOT NULL,
  kind CHAR(1) NOT NULL,
  owner BINARY(16) NOT NULL,
  words VARBINARY(256) NOT NULL,
  until BIGINT NOT NULL,
  PRIMARY KEY (client, letter)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
CREATE TABLE IF NOT EXISTS `~slots` (
  name VARBINARY(512) NOT NULL,
  number INT NOT NULL,
  ticket BIGINT NOT NULL,
  PRIMARY KEY (name, number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
CREATE TABLE IF NOT EXISTS `~meta` (
  item VARBINARY(16) NOT NULL,
  number BIGINT NOT NULL,
  bytes VARBINARY(512) NOT NULL,
  PRIMARY KEY (item)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET binary;
