#!/bin/bash
# SPDX-License-Identifier: MIT
# for_update.sh: the seed's pessimistic lock, SELECT ... FOR UPDATE: with an index, without one, and on a row that is not there.
# sessions.sh says what CLIENT and HOLDFAST_STORE are. It drops and makes the table goods.
# shellcheck source=examples/seeds/sessions.sh
. "$(dirname "$0")/sessions.sh"
session A
session B
sql A "DROP TABLE IF EXISTS goods" >/dev/null
sql A "CREATE TABLE goods (id int PRIMARY KEY, description varchar(100) NOT NULL)"
sql A "INSERT INTO goods (id, description) VALUES (1, 'lock'), (2, 'key'), (3, 'door')"
lock() { echo "SELECT id FROM goods WHERE $1 FOR UPDATE"; }
both() { sql A "$1" && sql B "$1"; }

part "By its key: a lock on the row."
both BEGIN
is "$(sql A "$(lock 'id = 1')")" 1
is "$(sql B "$(lock 'id = 2')")" 2
note "A has row 1, and B gets row 2 at once."
start B "$(lock 'id = 1')"
waits B
note "B wants row 1, too, and waits: the server says so."
sql A COMMIT
is "$(answer B)" 1
note "A commits, and B has it."
sql B COMMIT

part "By a column without an index."
both BEGIN
is "$(sql A "$(lock "description = 'lock'")")" 1
if [ "$kind" = psql ]; then
    is "$(sql B "$(lock 'id = 2')")" 2
    note "A wants only row 1, and has read the whole table to find it. PostgreSQL locks the rows that were found: B gets row 2."
else
    start B "$(lock 'id = 2')"
    waits B
    note "A wants only row 1, but has read the whole table to find it, and InnoDB locks all that was read: B waits for row 2."
    sql A COMMIT
    is "$(answer B)" 2
fi
sql A COMMIT
sql B COMMIT

part "By a condition that is not one row: id > 0."
both BEGIN
is "$(sql A "$(lock 'id > 0')" | wc -l | tr -d ' ')" 3
insert="INSERT INTO goods (id, description) VALUES (4, 'window')"
if [ "$kind" = psql ]; then
    is "$(sql B "$insert")" ""
    note "A has all three rows. B may still insert a fourth, which A has not seen and has not locked."
else
    start B "$insert"
    waits B
    note "A has all three rows and the gaps between them: B cannot even insert a fourth."
    sql A ROLLBACK
    is "$(answer B)" ""
fi
both ROLLBACK

part "A row that is not there."
both BEGIN
is "$(sql A "$(lock 'id = 99')")" ""
is "$(sql B "$(lock 'id = 99')")" ""
insert() { echo "INSERT INTO goods (id, description) VALUES ($1, 'window')"; }
if [ "$kind" = psql ]; then
    note "Both found nothing, and PostgreSQL has locked nothing: both go on to insert it."
    is "$(sql A "$(insert 99)")" ""
    start B "$(insert 99)"
    waits B
    note "A's insert is done, and B's waits for the end of A's transaction: the key makes it wait, not the lock."
    sql A COMMIT
    note "A commits. B: $(answer B | grep '^ERROR' || fail "both have inserted it")"
else
    note "Both found nothing, and InnoDB has locked the gap in which it would be, for both of them: locks of a gap let each other be."
    session C
    sql C "SET innodb_lock_wait_timeout = 1"
    note "C wants to insert row 50, which lies in the same gap: $(error_of C "$(insert 50)")"
    start A "$(insert 99)"
    waits A
    note "A wants to insert row 99, and waits for B's lock of the gap."
    start B "$(insert 99)"
    note "B wants to insert it too: $( { answer B; answer A; } | grep '^ERROR 1213' || fail "there is no deadlock")"
    hang_up C
fi
both ROLLBACK >/dev/null # of which one is none any more
sql A "DELETE FROM goods WHERE id = 99"

part "Waiting ends with an error, after a time that belongs to the database."
both BEGIN
is "$(sql A "$(lock 'id = 1')")" 1
if [ "$kind" = psql ]; then sql B "SET LOCAL lock_timeout = '1s'"; else sql B "SET innodb_lock_wait_timeout = 1"; fi
note "B: $(error_of B "$(lock 'id = 1')")"
both ROLLBACK

part "Holdfast: a name is what is locked, whatever the table looks like."
handle=$(holdfast lock seed/goods/1 --ttl 10m)
holdfast run -n seed/goods/2 -- echo "  A has goods/1, and B gets goods/2 at once: there is no index that could be missing."
holdfast run -n -q seed/goods/1 -- true 2>/dev/null
is $? 75
missing=$(holdfast lock seed/goods/99 --ttl 10m)
holdfast run -n -q seed/goods/99 -- true 2>/dev/null
is $? 75
holdfast unlock seed/goods/99 --lease "$missing"
note "goods/99, for which there is no row, is locked like any other: B is refused."
holdfast run -q -w 300ms seed/goods/1 -- true 2>/dev/null
is $? 75
holdfast unlock seed/goods/1 --lease "$handle"
note "How long to wait is each caller's own choice (-w), and no transaction stays open meanwhile."
sql A "DROP TABLE goods" >/dev/null
