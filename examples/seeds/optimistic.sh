#!/bin/bash
# SPDX-License-Identifier: MIT
# optimistic.sh: the seed's optimistic locks on a table of one's own: none, a version, a timestamp. A wants to buy one and B
# two of the same goods, at the same time. sessions.sh says what CLIENT and HOLDFAST_STORE are. It drops and makes the table goods.
# shellcheck source=examples/seeds/sessions.sh
. "$(dirname "$0")/sessions.sh"
session A
session B
now='localtimestamp(0)' # whole seconds, as the seed's column has them
sql A "DROP TABLE IF EXISTS goods" >/dev/null
[ "$kind" = psql ] && stamp='timestamp(0)' || stamp='datetime'
sql A "CREATE TABLE goods (id int PRIMARY KEY, stock int NOT NULL, version int NOT NULL, updated_at $stamp, token bigint NOT NULL DEFAULT 0)"
sql A "INSERT INTO goods (id, stock, version, updated_at) VALUES (1, 20, 1, $now)"
get() { sql "$1" "SELECT $2 FROM goods WHERE id = 1"; }
reset() { sql A "UPDATE goods SET stock = $1, version = 1, token = 0, updated_at = $now WHERE id = 1"; }

part "Nothing: both read 20, A writes 19 and B writes 18."
a=$(get A stock)
b=$(get B stock)
is "$(changed A "UPDATE goods SET stock = $((a - 1)) WHERE id = 1")" 1
is "$(changed B "UPDATE goods SET stock = $((b - 2)) WHERE id = 1")" 1
is "$(get A stock)" 18
note "Three are sold, and the stock is 18: the sale of A is lost."

part "Nothing, with the subtraction in the database: both read 2, which is enough."
reset 2
is "$(get A stock) $(get B stock)" "2 2"
is "$(changed A "UPDATE goods SET stock = stock - 1 WHERE id = 1")" 1
is "$(changed B "UPDATE goods SET stock = stock - 2 WHERE id = 1")" 1
is "$(get A stock)" -1
note "No sale is lost, but one more is sold than there is: the stock is -1."

part "A version: write only if it is the one that was read."
reset 20
a=$(get A version)
b=$(get B version)
sell() { changed "$1" "UPDATE goods SET stock = stock - $2, version = version + 1 WHERE id = 1 AND version = $3"; }
is "$(sell A 1 "$a")" 1
is "$(sell B 2 "$b")" 0
is "$(sell B 2 "$(get B version)")" 1
is "$(get A stock)" 17
note "B has changed no row, so it reads again and tries again: 17. This is right. Its price: with many buyers most attempts fail."

part "A timestamp: write only if updated_at is the one that was read."
for ((try = 1; try <= 100; try++)); do # until both sales are in one second
    reset 20
    a=$(get A "stock, updated_at")
    b=$(get B "stock, updated_at")
    a=${a//$'\t'/|} b=${b//$'\t'/|}
    sell() { changed "$1" "UPDATE goods SET stock = $((${3%%|*} - $2)), updated_at = $now WHERE id = 1 AND updated_at = '${3#*|}'"; }
    is "$(sell A 1 "$a")" 1
    [ "$(sell B 2 "$b")" = 1 ] && break
done
is "$(get A stock)" 18
note "Both sales were in one second, so B found the timestamp that it had read: three are sold, and the stock is 18."
note "Finer timestamps make it rarer, and a clock that is set back brings it again. A version only goes up."

part "Holdfast: a lock around reading and writing, and its token in place of the version."
reset 20
# shellcheck disable=SC2016 # for the shell that holdfast runs
sell_one='
stock=$(printf "SELECT stock FROM goods WHERE id = 1;\n" | "$@")
printf "UPDATE goods SET stock = %d, token = %s WHERE id = 1 AND token < %s;\n" $((stock - 1)) "$HOLDFAST_TOKEN" "$HOLDFAST_TOKEN" | "$@"'
buyers=()
for _ in 1 2 3 4 5; do
    holdfast run seed/goods/1 -- sh -c "$sell_one" sell "${client[@]}" &
    buyers+=($!)
done
for buyer in "${buyers[@]}"; do wait "$buyer" || fail "a buyer"; done
is "$(get A stock)" 15
note "Five buyers at once: each waits for its turn, none tries in vain, and 15 are left."
late=$(($(get A token) - 1)) # a holder that was stopped, lost its lease, and woke up: its token is an older one
is "$(changed B "UPDATE goods SET stock = 99, token = $late WHERE id = 1 AND token < $late")" 0
note "A holder that wakes up after its lease has ended changes nothing: its token is smaller than the last one."

part "Holdfast: a cell is a value with a version, where there is no table."
holdfast cell put seed/stock 20 >/dev/null
version=$(holdfast cell get seed/stock --json | sed -n 's/.*"version": "\([0-9]*\)".*/\1/p')
holdfast cell cas seed/stock 19 --version "$version" >/dev/null || fail "the first one"
holdfast cell cas seed/stock 19 --version "$version" >/dev/null 2>&1
is $? 75
holdfast cell rm seed/stock
note "A swaps 20 for 19. B, which has read the same version, gets exit code 75, and reads again."
sql A "DROP TABLE goods" >/dev/null
