#!/bin/bash
# SPDX-License-Identifier: MIT
# lock_table.sh: the seed's lock in a database, a table with a unique index, and each of its faults as it happens; beside
# each, what Holdfast does. sessions.sh says what CLIENT and HOLDFAST_STORE are. It drops and makes the table database_lock.
# shellcheck source=examples/seeds/sessions.sh
. "$(dirname "$0")/sessions.sh"
session A
session B
sql A "DROP TABLE IF EXISTS database_lock" >/dev/null
sql A "CREATE TABLE database_lock (resource int NOT NULL UNIQUE, description varchar(1024) NOT NULL DEFAULT '')"

take="INSERT INTO database_lock (resource, description) VALUES (1, 'lock')"
give="DELETE FROM database_lock WHERE resource = 1"

part "It works as long as nothing happens."
is "$(sql A "$take")" ""
is "$(changed A "$give")" 1
note "A inserts the row, and deletes it."

part "It does not block."
is "$(sql A "$take")" ""
note "B: $(error_of B "$take")"
note "B gets an error at once and no place in a line. All that it can do is to try again and again; others may be luckier each time."

part "It is not reentrant."
note "A: $(error_of A "$take")"
note "A itself, which has it, gets the same error."

part "It does not expire."
hang_up A
note "The process of A is killed. B: $(error_of B "$take")"
note "The row is still there, and will be tomorrow."

part "A job that deletes old rows makes it worse."
is "$(changed B "$give")" 1 # the job: A has had it for so long that it must be dead
is "$(sql B "$take")" ""
session A # it was only slow; it does what it has wanted to do, and then
is "$(changed A "$give")" 1
note "A was not dead but slow: both worked, and then A deleted the row of B. Nothing in the row says whose it is."
sql B "DROP TABLE database_lock" >/dev/null

part "Holdfast in the same database: it waits in line, and a lease expires."
handle=$(holdfast lock seed/one --ttl 10m) || fail "holdfast lock: $?"
holdfast run -n -q seed/one -- true 2>/dev/null
is $? 75
holdfast unlock seed/one --lease "$handle" || fail "holdfast unlock: $?"
note "A has it. B does not want to wait (-n): exit code 75, and no error of a database."
# Its handle is thrown away: nobody will release or renew this lease.
holdfast lock seed/one --ttl 2s >/dev/null || fail "holdfast lock: $?"
holdfast run -w 5m seed/one -- echo "  A is never heard of again. B waits, and gets it when the lease of A has expired." ||
    fail "holdfast run: $?"

part "It is reentrant, and only its holder gives it back."
holdfast run seed/one -- holdfast run seed/one -- echo "  A run inside a run of the same name does not wait for itself." ||
    fail "holdfast run in holdfast run: $?"
handle=$(holdfast lock seed/one --ttl 10m) || fail "holdfast lock: $?"
holdfast unlock seed/one --lease "00000000000000000000000000000000-1" 2>/dev/null && fail "released by a stranger"
holdfast renew seed/one --lease "$handle" -q || fail "the holder has lost it"
holdfast unlock seed/one --lease "$handle" || fail "holdfast unlock: $?"
note "Without the handle nobody can release it. A holder that is slow and has lost it is told, and its token is too old"
note "for everything that compares tokens: optimistic.sh."
