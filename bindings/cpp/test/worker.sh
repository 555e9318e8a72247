#!/bin/bash
# SPDX-License-Identifier: MIT
# worker.sh PROGRAM URL: three workers of the cross-language test at once, and what their lines say together: every line has its
# form, the mutex has one holder at a time, and no value of the counter is added twice.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for seed in 1 2 3; do
    "$1" "$2" "$seed" 2 >"$dir/$seed" &
    pids="${pids-} $!"
done
for pid in $pids; do wait "$pid"; done

form='^[0-9]+ (ask [0-9]+ (mutex|semaphore|counter) [12]|got [0-9]+ [0-9]+|not [0-9]+ [A-Z_]+|(still|lost|letting) [0-9]+|let [0-9]+ [A-Z_]+|(adding|added|fenced|unsure) [0-9]+ [0-9]+)$'
! grep -Ev "$form" "$dir"/[123] || { echo "a line of another form"; exit 1; }
for seed in 1 2 3; do # each worker and mutex in turn: from when to when it held
    awk -v seed=$seed '$2 == "ask" { what = $4 } what != "mutex" { next } $2 == "got" { from = $1 } $2 == "letting" || $2 == "lost" { print from, $1, seed }' "$dir/$seed"
done | sort -n >"$dir/held"
[ -s "$dir/held" ] || { echo "nobody has had the mutex"; exit 1; }
awk '$1 < end { print "two holders at", $1; bad = 1 } $2 > end { end = $2 } END { exit bad }' "$dir/held"
twice=$(cat "$dir"/[123] | awk '$2 == "added" { print $3 }' | sort -n | uniq -d)
[ -z "$twice" ] || { echo "added twice: $twice"; exit 1; }
