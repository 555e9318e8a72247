#!/bin/bash
# SPDX-License-Identifier: MIT
# Run fuzz targets under libFuzzer: fuzz.sh BUILD SECONDS [TARGET...]
#
# Each target runs for SECONDS, as many at a time as there are processors (FUZZ_JOBS). It starts from
# test/fuzz/corpus/TARGET and from what earlier runs found in BUILD/fuzz/TARGET, which is kept. Inputs that
# crash, hang or leak are BUILD/fuzz/TARGET.found-*. The closing lines say how many inputs each has executed.
set -u

build=$1 seconds=$2
shift 2
source=$(cd "$(dirname "$0")/.." && pwd)
programs=$(cd "$build/bin/fuzz" && pwd) || exit 1
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(ls "$programs")
jobs=${FUZZ_JOBS:-$(nproc)}
mkdir -p "$build/fuzz" && cd "$build/fuzz" || exit 1

export ASAN_OPTIONS="detect_stack_use_after_return=1:${ASAN_OPTIONS:-}"
run() {
    local name=$1 dictionary=() corpus=$source/test/fuzz/corpus/$1
    [ -f "$source/test/fuzz/$name.dict" ] && dictionary=("-dict=$source/test/fuzz/$name.dict")
    mkdir -p "$name"
    # -close_fd_mask=1: drop the output of targets; reports go to standard error.
    "$programs/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -close_fd_mask=1 \
        -print_final_stats=1 -artifact_prefix="$name.found-" "${dictionary[@]}" "$name" "$corpus" >"$name.log" 2>&1
    echo $? >"$name.status"
}

for name in "${targets[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    run "$name" &
done
wait

total=0 bad=0
for name in "${targets[@]}"; do
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$name.log")
    total=$((total + ${inputs:-0}))
    printf '%-10s %12d inputs' "$name" "${inputs:-0}"
    if [ "$(cat "$name.status")" -ne 0 ]; then
        printf '  FOUND SOMETHING: %s' "$(sed -n 's/^SUMMARY: //p; s/.*: this must hold/this must hold/p' "$name.log" | head -1)"
        bad=$((bad + 1))
    fi
    echo
done
printf '%-10s %12d inputs, %d of %d targets found something (see %s)\n' 'all' "$total" "$bad" "${#targets[@]}" "$PWD"
[ "$bad" -eq 0 ]
