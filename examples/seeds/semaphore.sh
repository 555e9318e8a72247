#!/bin/bash
# SPDX-License-Identifier: MIT
# semaphore.sh redis://HOST:PORT: the two counting semaphores of the seed, each as it stands there, and how each admits one
# more than it should; then the semaphore of Holdfast in the same positions. It deletes the keys seed:*.
#
# A machine's clock is a number here, so that what goes wrong does so every time. SKEW is a command that runs another one with
# its clock set ahead, if there is such a command (SKEW="faketime -f +60s"); the last part is run under it.
set -eu
url=${1:?the URL of a Redis that may be written to}

redis() { redis-cli -u "$url" --raw "$@"; }
fail() { echo "not as expected: $*" >&2; exit 1; }
yes() { "$@" || fail "refused: $*"; }
no() { ! "$@" || fail "admitted: $*"; }
begin() { redis DEL seed:sem seed:owner seed:counter >/dev/null; printf '\n%s\n' "$*"; }

second=1000
timeout=$((10 * second))
noon=$((1700000000 * second)) # what the right time is when a part begins

# ---- the basic one: a sorted set of holders by the time of THEIR clocks ---------------------------------------------------

# basic_acquire ID LIMIT NOW
basic_acquire() {
    redis ZREMRANGEBYSCORE seed:sem -inf $(($3 - timeout)) >/dev/null # those that have not refreshed
    redis ZADD seed:sem "$3" "$1" >/dev/null
    [ "$(redis ZRANK seed:sem "$1")" -lt "$2" ] && return
    redis ZREM seed:sem "$1" >/dev/null
    return 1
}

begin "The basic semaphore, limit 1."
yes basic_acquire A 1 $((noon))
no basic_acquire B 1 $((noon + 5))
echo "  Equal clocks: A has it, B is refused 5 ms later."

begin "The basic semaphore, limit 1, and A's clock is 10 ms fast."
yes basic_acquire A 1 $((noon + 10))
yes basic_acquire B 1 $((noon + 5))
[ "$(redis ZCARD seed:sem)" = 2 ] || fail "two holders"
echo "  B asks 5 ms later. Its score is smaller, so it ranks before A: both have it, and nobody tells A."

# ---- the fair one: the order is that of a counter, the time only says who has died ------------------------------------------

# fair_ticket NOW: remove the dead, and draw a number
fair_ticket() {
    redis ZREMRANGEBYSCORE seed:sem -inf $(($1 - timeout)) >/dev/null
    redis ZINTERSTORE seed:owner 2 seed:owner seed:sem WEIGHTS 1 0 >/dev/null
    redis INCR seed:counter
}
# fair_enter ID LIMIT NOW TICKET: stand in line with it, and see where
fair_enter() {
    redis ZADD seed:sem "$3" "$1" >/dev/null
    redis ZADD seed:owner "$4" "$1" >/dev/null
    [ "$(redis ZRANK seed:owner "$1")" -lt "$2" ] && return
    redis ZREM seed:sem "$1" >/dev/null
    redis ZREM seed:owner "$1" >/dev/null
    return 1
}
fair_acquire() { fair_enter "$1" "$2" "$3" "$(fair_ticket "$3")"; } # ID LIMIT NOW
# fair_refresh ID NOW: false if it was not there any more
fair_refresh() {
    [ "$(redis ZADD seed:sem "$2" "$1")" = 0 ] && return
    redis ZREM seed:sem "$1" >/dev/null
    return 1
}

begin "The fair semaphore, limit 1, and A's clock is 10 ms fast."
yes fair_acquire A 1 $((noon + 10))
no fair_acquire B 1 $((noon + 5))
yes fair_refresh A $((noon + second))
echo "  B has the larger number and is refused: a small difference of the clocks does no harm any more."

begin "The fair semaphore, limit 1, and B's clock is a minute fast."
yes fair_acquire A 1 $((noon))
yes fair_acquire B 1 $((noon + 60 * second))
no fair_refresh A $((noon + 5))
echo "  B takes A for dead and removes it: both have it, until A asks to refresh and learns that it is gone."

begin "The fair semaphore, limit 1, equal clocks, and B overtakes A between two commands."
ticket=$(fair_ticket $((noon)))
yes fair_acquire B 1 $((noon + 1))
yes fair_enter A 1 $((noon + 2)) "$ticket"
[ "$(redis ZCARD seed:owner)" = 2 ] || fail "two holders"
echo "  A has the smaller number but is not in line yet when B looks: B is first, then A is. Both have it."

# ---- the seed's remedy: a lock around the acquiring -------------------------------------------------------------------------

begin "The same with a lock around it, as the seed recommends."
handle=$(holdfast -S "$url" lock seed/semaphore --ttl 10m)
ticket=$(fair_ticket $((noon)))
status=0
holdfast -S "$url" lock seed/semaphore -n --ttl 10m -q 2>/dev/null || status=$?
[ $status = 75 ] || fail "B comes between"
yes fair_enter A 1 $((noon + 2)) "$ticket"
holdfast -S "$url" unlock seed/semaphore --lease "$handle"
no fair_acquire B 1 $((noon + 3))
echo "  B cannot begin while A is between two commands. But the clock that is a minute fast still removes A:"
yes fair_acquire B 1 $((noon + 60 * second))
echo "  no lock around it helps against that."

# ---- ours ---------------------------------------------------------------------------------------------------------------------

begin "The semaphore of Holdfast, limit 1."
# One script on the server counts, admits and queues, so nobody comes between; it asks the server for the time, so no
# client's clock matters. A client that has been refused can wait in line: -w, or no -n.
read -ra skew <<<"${SKEW:-}"
handle=$("${skew[@]}" holdfast -S "$url" lock seed/slots --slots 1 --ttl 10m)
status=0
holdfast -S "$url" lock seed/slots --slots 1 -n --ttl 10m -q 2>/dev/null || status=$?
[ $status = 75 ] || fail "a second holder"
status=0
"${skew[@]}" holdfast -S "$url" lock seed/slots --slots 1 -n --ttl 10m -q 2>/dev/null || status=$?
[ $status = 75 ] || fail "a second holder, whose clock is fast"
holdfast -S "$url" renew seed/slots --lease "$handle" -q || fail "the holder has lost it"
holdfast -S "$url" unlock seed/slots --lease "$handle"
if [ ${#skew[@]} -gt 0 ]; then
    echo "  A has it. B is refused, also with a clock that is $("${skew[@]}" date +%s | awk -v n="$(date +%s)" '{ print $1 - n }') seconds fast, and A still has it."
else
    echo "  A has it, B is refused, and A still has it. (SKEW is not set: both clocks are this machine's.)"
fi
redis DEL seed:sem seed:owner seed:counter >/dev/null
