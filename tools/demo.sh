#!/bin/bash
# SPDX-License-Identifier: MIT
# A show of half a minute's reading, on an embedded store in a temporary directory: demo.sh path/to/holdfast
#
# Three commands want one name; the first holder is killed. Everything is done and measured while it runs: the pictures are of
# these events. Fails if anything is not as it is told. Marks and colours only where a terminal has them (UTF-8, NO_COLOR).
set -eu

holdfast=$1
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-demo.XXXXXX")
mkdir "$dir/bin" "$dir/store"
ln -s "$(realpath "$holdfast")" "$dir/bin/holdfast"
PATH=$dir/bin:$PATH
export HOLDFAST_STORE=file:$dir/store HOLDFAST_CONFIG=/dev/null
unset HOLDFAST_NAME HOLDFAST_TOKEN HOLDFAST_RUN_FD HOLDFAST_SESSION

bold='' dim='' blue='' red='' off=''
hold='=' wait='.' killed='x'
if [ -t 1 ]; then
    if [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
        bold=$'\e[1m' dim=$'\e[2m' blue=$'\e[34m' red=$'\e[1;31m' off=$'\e[0m'
    fi
    [ "$(locale charmap 2>/dev/null)" != UTF-8 ] || { hold='█' wait='·' killed='✗'; }
fi

declare -A pid asked got ended token
cleanup() {
    local job
    for job in "${pid[@]}"; do kill "$job" 2>/dev/null || true; done
    rm -rf "$dir"
}
trap cleanup EXIT
fail() {
    echo "demo: $*" >&2
    cat "$dir"/*.err >&2 2>/dev/null || true
    exit 1
}

now() { date +%s%3N; }
say() { printf '\n%s%s%s\n' "$bold" "$*" "$off"; }
shown() { printf '%s$ %s%s\n' "$dim" "$*" "$off"; }

# until_true WHAT COMMAND...: within ten seconds.
until_true() {
    local what=$1 end
    shift
    end=$(($(now) + 10000))
    until "$@" >/dev/null 2>&1; do
        [ "$(now)" -lt "$end" ] || fail "never: $what"
        sleep 0.01
    done
}

# ask WHO SECONDS: in the background, a command that works under the lock for this time, or until it is killed. In a script background jobs belong to the
# terminal's foreground, so their messages go to a file.
ask() {
    asked[$1]=$(now)
    # shellcheck disable=SC2016 # the child expands it
    holdfast run deploy --label "$1" -- sh -c '
        echo "$(date +%s%3N) $HOLDFAST_TOKEN" >"$0.tmp"; mv "$0.tmp" "$0.got"
        [ "$1" != killed ] || exec sleep 60
        sleep "$1"; date +%s%3N >"$0.end"' \
        "$dir/$1" "$2" 2>"$dir/$1.err" &
    pid[$1]=$!
}
has_it() { [ -e "$dir/$1.got" ]; }
has_waiters() { holdfast ls | grep -qE "^deploy +mutex +1/1 +$1 "; }

# The picture has 44 columns for all of the time.
column() { echo $((($1 - first) * 44 / all)); }
repeat() {
    local i
    for ((i = 0; i < $2; i++)); do printf %s "$1"; done
}
line() {
    local from to end
    from=$(column "${asked[$1]}") to=$(column "${got[$1]}") end=$(column "${ended[$1]}")
    printf '  %s  %*s' "$1" "$from" ''
    printf '%s%s%s' "$dim" "$(repeat "$wait" $((to - from)))" "$off"
    printf '%s%s%s%s' "$blue" "$(repeat "$hold" $((end - to)))" "$off" "$2"
    printf '%*s  token %s\n' $((44 - end)) '' "${token[$1]}"
}
fold_words() { fold -s -w 79 | sed 's/ *$//'; }

# ---- the show ------------------------------------------------------------------------------------

say "1. A, B and C want the name 'deploy'. A has it, the others wait in their order."
ask A killed
until_true 'A has it' has_it A
ask B 0.4
until_true 'B waits' has_waiters 1
ask C 0.4
until_true 'C waits' has_waiters 2
shown holdfast ls
holdfast ls

say '2. With -n a command does not wait: it learns who has it, exit status 75.'
shown holdfast run -n deploy -- echo never
status=0
holdfast run -n deploy -- echo never 2>"$dir/busy" || status=$?
fold_words <"$dir/busy"
[ "$status" = 75 ] || fail "run -n: exit status $status"

say '3. kill -9 of A frees the name at once: B is woken, and then C.'
sleep 0.3 # or A has the name for too short a time to be drawn
ended[A]=$(now)
disown "${pid[A]}" # or the shell reports its death by a message of its own
kill -9 "${pid[A]}"
for who in B C; do wait "${pid[$who]}" || fail "$who failed"; done
for who in A B C; do
    read -r got[$who] token[$who] <"$dir/$who.got"
    [ "$who" = A ] || read -r ended[$who] <"$dir/$who.end"
done
for pair in 'A B' 'B C'; do
    read -r one next <<<"$pair"
    [ "${token[$one]}" -lt "${token[$next]}" ] || fail "tokens do not grow: ${token[*]}"
    [ "${ended[$one]}" -le "${got[$next]}" ] || fail "$one and $next had it at once"
done
first=${asked[A]} all=$((ended[C] - asked[A]))
line A "$red$killed$off"
line B ' '
line C ' '
printf '     %s%s waits  %s holds  %s killed; B had it %d ms after A was killed%s\n' \
    "$dim" "$wait" "$hold" "$killed" $((got[B] - ended[A])) "$off"

say '4. C has written to a resource. A write of A that comes later is refused.'
holdfast guard site --token "${token[C]}" --set new || fail 'the newest token is refused'
shown "holdfast guard site --token ${token[A]} --set old"
status=0
holdfast guard site --token "${token[A]}" --set old 2>"$dir/late" || status=$?
[ "$status" = 76 ] || fail "a stale token: exit status $status"
sed 's/file:[^ ]*: //' "$dir/late" | fold_words

say 'Now you, in your own store:'
printf '  %s\n' "$holdfast run hello -- sleep 60 &" "$holdfast ls" \
    "$holdfast lab    # what goes wrong with locks, on real servers"
