#!/bin/bash
# SPDX-License-Identifier: MIT
# Run ctest in several builds and add up: run-tests.sh NAME:DIR:LABELS ...
#
# LABELS is a regular expression over whole labels (unit|sim); empty: all; !unit|sim: all but these. The last line is
# "N passed, N failed" over all builds. A test that did not run (skipped, not built) has failed, and
# so has a build in which no test has such a label: nothing may look green because it was not there.
# Only what a test cannot do on this machine is skipped, if the test says so in words that are listed
# below: such tests are named, and the last line is "N passed, N failed, N skipped".
# A few tests that failed beside others are repeated alone when all else has ended: see repeat_alone().
# For the same reason a run called asan or tsan first proves that its sanitizers are on, and has failed
# otherwise.
# Several builds run side by side: most tests wait, and what one build waits for another one uses. What a build
# has to say comes in one piece, when it has ended.
# TEST_JOBS: tests at a time in each build. By default nine for two processors, which the builds share so that they end at about the same
# time; one more than twice the processors, if it is the only build.
set -u

# In a network of their own: no other user of this machine reaches the servers that tests start, and they reach nothing outside.
IFS=: read -r _ first _ <<<"${1:-}"
if [ -z "${HOLDFAST_CLOSED:-}" ] && [ -x "$first/bin/test/closed" ]; then
    exec "$first/bin/test/closed" "$0" "$@"
fi

# After "SKIPPED: " on a line of its own, by a test that ends with its SKIP_RETURN_CODE.
may_skip=('mounts are not permitted here' 'PID namespaces are not permitted here' 'only root can become other users')

export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
# Where the thread-local block of a library begins 16 bytes after a page, LeakSanitizer of GCC 12 takes what stands before it for a header
# of an old libc, and crashes on what it reads there. It happened to libgnutls in `holdfast engines --matrix --json`.
export ASAN_OPTIONS="strict_string_checks=1:detect_stack_use_after_return=1:intercept_tls_get_addr=0:${ASAN_OPTIONS:-}"
# A forked child of a program with threads may start threads of its own: ours do.
export TSAN_OPTIONS="die_after_fork=0:second_deadlock_stack=1:${TSAN_OPTIONS:-}"

# ThreadSanitizer of GCC 12 needs less address randomness than new kernels use by default.
without_aslr=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
    without_aslr=(setarch "$(uname -m)" -R)
fi

declare -A share=([plain]=4 [asan]=3 [tsan]=2) # of nine, for two processors
declare -A sanitizers=([asan]='address undefined' [tsan]=thread)
caught=$(dirname "$0")/../test/sanitizers/caught.sh

# Name and reason of every test of a report that did not run.
skipped_tests() {
    awk '
        /<testcase / { match($0, /name="[^"]*"/); name = substr($0, RSTART + 6, RLENGTH - 7); skipped = 0; reason = "" }
        /<skipped/ { skipped = 1 }
        /^(.*<system-out>)?SKIPPED: / { reason = $0; sub(/.*SKIPPED: /, "", reason); sub(/<.*/, "", reason) }
        /<\/testcase>/ { if (skipped) print name "\t" reason }
    ' "$1" 2>/dev/null
}

# Names of the tests of a report that failed, without those that reported what no repetition could excuse: a sanitizer's finding, or
# two holders in a history. A case of cmocka that failed leaves what it had, so that leaks count only where no case failed.
failed_tests() {
    awk '
        /<testcase / { match($0, /name="[^"]*"/); name = substr($0, RSTART + 6, RLENGTH - 7); final = leaks = cases = 0
                       failed = /status="fail"/ }
        /(ERROR|WARNING): (Address|Thread|Memory)Sanitizer|runtime error:|[1-9][0-9]* violations/ { final = 1 }
        /ERROR: LeakSanitizer/ { leaks = 1 }
        /\[  FAILED  \]/ { cases = 1 }
        /<\/testcase>/ { if (failed && !final && (!leaks || cases)) print name }
    ' "$1" 2>/dev/null
}

# The machine is small and noisy, and nine tests at a time stall one another now and then. A test that failed is run three times more,
# alone; it has passed if it passes three times, and is named at the end all the same. Not so where a failure needs no noise to
# be explained: unit tests, models, simulations, fuzzers and histories; and not if more than REPEAT_MAX failed.
REPEAT_MAX=6
repeat_alone() {
    local run name dir labels test wrapper repeats=()
    for run in "$@"; do
        IFS=: read -r name dir labels <<<"$run"
        while read -r test; do
            ctest --test-dir "$dir" -N -R "^${test//./\\.}\$" -LE '^(unit|sim|model|fuzz|torture)$' |
                grep -q '^Total Tests: 1$' && repeats+=("$name:$dir:$test")
        done < <(failed_tests "$dir/junit.xml")
    done
    [ ${#repeats[@]} -gt 0 ] && [ ${#repeats[@]} -le $REPEAT_MAX ] || return 0
    for run in "${repeats[@]}"; do
        IFS=: read -r name dir test <<<"$run"
        wrapper=()
        [ "$name" = tsan ] && wrapper=("${without_aslr[@]}")
        echo "== $name $test, alone"
        "${wrapper[@]}" ctest --test-dir "$dir" -R "^${test//./\\.}\$" --repeat until-fail:3 --output-on-failure </dev/null || continue
        all_failed=$((all_failed - 1))
        all_passed=$((all_passed + 1))
        all_noisy+=("$name $test")
    done
}

# One build, from "name:dir:labels", $3 tests at a time. What it counts goes to the file $2, as shell assignments.
run_build() {
    local name dir labels wrapper select report start off sanitizer status total bad left_out good test reason allowed
    local passed=0 failed=0 skipped=0
    local summary=() skips=()
    IFS=: read -r name dir labels <<<"$1"
    wrapper=()
    [ "$name" = tsan ] && wrapper=("${without_aslr[@]}")
    select=()
    case $labels in
    '') ;;
    !*) select=(-LE "^(${labels#!})\$") ;;
    *) select=(-L "^($labels)\$") ;;
    esac
    report=$dir/junit.xml
    rm -f "$report"

    echo "== $name${labels:+ ($labels)}"
    start=$SECONDS
    off=
    for sanitizer in ${sanitizers[$name]:-}; do
        if "${wrapper[@]}" "$caught" "$dir" "$sanitizer"; then
            passed=$((passed + 1))
        else
            off="$off $sanitizer"
            failed=$((failed + 1))
        fi
    done
    if [ -n "$off" ]; then
        echo "== $name: NOT RUN: these sanitizers are not on in $dir:$off"
        summary+=("$(printf '%-8s not run: these sanitizers are not on:%s' "$name" "$off")")
        declare -p passed failed skipped summary skips | sed 's/^declare/declare -g/' >"$2"
        return
    fi
    "${wrapper[@]}" ctest --test-dir "$dir" "${select[@]}" -j "${TEST_JOBS:-$3}" \
        --output-on-failure --no-tests=error --output-junit "$PWD/$report" </dev/null
    status=$?

    # <testsuite ... tests="N" failures="N" disabled="N" skipped="N" ...>
    count() { sed -n "/<testsuite/,/>/s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$report" 2>/dev/null | head -n 1; }
    total=$(count tests)
    total=${total:-0}
    bad=$(($(count failures || true) + $(count disabled || true) + $(count skipped || true) + 0))
    [ "$status" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
    left_out=0
    while IFS=$'\t' read -r test reason; do
        skips+=("$name $test: ${reason:-it did not run}")
        for allowed in "${may_skip[@]}"; do
            [ "$reason" = "$allowed" ] && left_out=$((left_out + 1))
        done
    done < <(skipped_tests "$report")
    bad=$((bad - left_out))
    good=$((total > bad + left_out ? total - bad - left_out : 0))
    passed=$((passed + good))
    failed=$((failed + bad))
    skipped=$((skipped + left_out))
    summary+=("$(printf '%-8s %4d passed %4d failed %4d skipped %5d s' "$name" "$good" "$bad" "$left_out" $((SECONDS - start)))")
    declare -p passed failed skipped summary skips | sed 's/^declare/declare -g/' >"$2"
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
pids=()
if [ $# -gt 1 ]; then
    trap 'trap - INT TERM; kill 0; exit 130' INT TERM # background processes do not receive Ctrl-C
    for run in "$@"; do
        run_build "$run" "$tmp/${#pids[@]}.counts" $(((${share[${run%%:*}]:-2} * $(nproc) + 1) / 2)) \
            >"$tmp/${#pids[@]}.log" 2>&1 &
        pids+=($!)
    done
else
    run_build "$1" "$tmp/0.counts" $((2 * $(nproc) + 1))
    pids=(none)
fi
all_passed=0 all_failed=0 all_skipped=0
all_summary=()
all_skips=()
for i in "${!pids[@]}"; do
    [ $# -gt 1 ] && wait "${pids[i]}"
    [ $# -gt 1 ] && cat "$tmp/$i.log"
    passed=0 failed=1 skipped=0
    summary=("a run that did not end")
    skips=()
    # shellcheck disable=SC1090 # what run_build wrote
    [ -f "$tmp/$i.counts" ] && . "$tmp/$i.counts"
    all_passed=$((all_passed + passed))
    all_failed=$((all_failed + failed))
    all_skipped=$((all_skipped + skipped))
    all_summary+=("${summary[@]}")
    all_skips+=("${skips[@]}")
done
all_noisy=()
[ "$all_failed" -eq 0 ] || repeat_alone "$@"
passed=$all_passed failed=$all_failed skipped=$all_skipped
summary=("${all_summary[@]}")
skips=("${all_skips[@]}")

echo
printf '%s\n' "${summary[@]}"
[ ${#skips[@]} -eq 0 ] || printf 'skipped: %s\n' "${skips[@]}"
[ ${#all_noisy[@]} -eq 0 ] || printf 'failed beside other tests, passed three times alone: %s\n' "${all_noisy[@]}"
closing="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || closing="$closing, $skipped skipped"
echo "$closing"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
