#!/bin/bash
# SPDX-License-Identifier: MIT
# Run ctest in several builds and add up: run-tests.sh NAME:DIR:LABELS ...
#
# LABELS is a regular expression over whole labels (unit|sim); empty: all. The last line is
# "N passed, N failed" over all builds. A test that did not run (skipped, not built) has failed, and
# so has a build in which no test has such a label: nothing may look green because it was not there.
# For the same reason a run called asan or tsan first proves that its sanitizers are on, and has failed
# otherwise.
# TEST_JOBS: tests at a time; by default one more than twice the processors, for most of them wait.
set -u

passed=0
failed=0
summary=()

export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
export ASAN_OPTIONS="strict_string_checks=1:detect_stack_use_after_return=1:${ASAN_OPTIONS:-}"
# A forked child of a program with threads may start threads of its own: ours do.
export TSAN_OPTIONS="die_after_fork=0:second_deadlock_stack=1:${TSAN_OPTIONS:-}"

# ThreadSanitizer of GCC 12 needs less address randomness than new kernels use by default.
without_aslr=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
    without_aslr=(setarch "$(uname -m)" -R)
fi

declare -A sanitizers=([asan]='address undefined' [tsan]=thread)
caught=$(dirname "$0")/../test/sanitizers/caught.sh

for run in "$@"; do
    IFS=: read -r name dir labels <<<"$run"
    wrapper=()
    [ "$name" = tsan ] && wrapper=("${without_aslr[@]}")
    select=()
    [ -n "$labels" ] && select=(-L "^($labels)\$")
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
        continue
    fi
    "${wrapper[@]}" ctest --test-dir "$dir" "${select[@]}" -j "${TEST_JOBS:-$((2 * $(nproc) + 1))}" \
        --output-on-failure --no-tests=error --output-junit "$PWD/$report" </dev/null
    status=$?

    # <testsuite ... tests="N" failures="N" disabled="N" skipped="N" ...>
    count() { sed -n "/<testsuite/,/>/s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$report" 2>/dev/null | head -n 1; }
    total=$(count tests)
    total=${total:-0}
    bad=$(($(count failures || true) + $(count disabled || true) + $(count skipped || true) + 0))
    [ "$status" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
    good=$((total > bad ? total - bad : 0))
    passed=$((passed + good))
    failed=$((failed + bad))
    summary+=("$(printf '%-8s %4d passed %4d failed %5d s' "$name" "$good" "$bad" $((SECONDS - start)))")
done

echo
printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
