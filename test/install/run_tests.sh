#!/bin/bash
# SPDX-License-Identifier: MIT
# How tools/run-tests.sh interprets ctest's report: run_tests.sh ctest is a
# small script that leaves a report in the form of ctest's own.
set -u

source=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-run-tests.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
bad=0

mkdir bin build
cat >bin/ctest <<'STUB'
#!/bin/bash
echo "ctest $*"
case " $* " in
*" -N "*) # which tests have a label that is never repeated
    case " $* " in *"^unit"*) echo 'Total Tests: 0' ;; *) echo 'Total Tests: 1' ;; esac
    exit 0
    ;;
*" --repeat until-fail:3 "*) exit "$(cat alone 2>/dev/null || echo 8)" ;;
esac
while [ $# -gt 0 ]; do [ "$1" = --output-junit ] && cp report "$2"; shift; done
exit "$(cat status)"
STUB
chmod +x bin/ctest

# report STATUS TESTS FAILURES SKIPPED, then the test cases from standard input
report() {
    echo "$1" >status
    {
        printf '<?xml version="1.0"?>\n<testsuite name="(empty)"\n\ttests="%s"\n\tfailures="%s"\n\tdisabled="0"\n\tskipped="%s"\n\t>\n' "$2" "$3" "$4"
        cat
        echo '</testsuite>'
    } >report
}
passed_case() { printf '\t<testcase name="%s" status="run">\n\t\t<system-out>%s</system-out>\n\t</testcase>\n' "$1" "${2:-}"; }
skipped_case() {
    printf '\t<testcase name="%s" status="notrun">\n\t\t<skipped message="SKIP_RETURN_CODE=77"/>\n\t\t<system-out>said\n%s\n</system-out>\n\t</testcase>\n' "$1" "$2"
}

# expect WHAT STATUS CLOSING-LINE [LINE]
expect() {
    local output status
    output=$(PATH=$dir/bin:$PATH "$source/tools/run-tests.sh" "${runs[@]}" 2>&1)
    status=$?
    if [ $status -ne "$2" ] || [ "${output##*$'\n'}" != "$3" ] || ! grep -qxF -- "${4:-$3}" <<<"$output"; then
        printf 'run-tests: %s: status %d, wanted %d; the last line was to be: %s %s; it said:\n%s\n' "$1" $status "$2" "$3" "${4:-}" "$output" >&2
        bad=1
    fi
}

runs=(plain:build:)
{ passed_case a; passed_case b; } | report 0 2 0 0
expect 'all pass' 0 '2 passed, 0 failed'

{ passed_case a; passed_case b; } | report 8 2 1 0
expect 'one fails' 1 '1 passed, 1 failed'

{ passed_case a; skipped_case b 'SKIPPED: mounts are not permitted here'; } | report 0 2 0 1
expect 'a skip that is allowed' 0 '1 passed, 0 failed, 1 skipped' 'skipped: plain b: mounts are not permitted here'

{ passed_case a; skipped_case b 'SKIPPED: it is Monday'; } | report 0 2 0 1
expect 'a skip for another reason has failed' 1 '1 passed, 1 failed' 'skipped: plain b: it is Monday'

{ passed_case a 'SKIPPED: mounts are not permitted here'; skipped_case b 'nothing'; } | report 0 2 0 1
expect 'a skip without a reason has failed' 1 '1 passed, 1 failed' 'skipped: plain b: it did not run'

{ skipped_case a 'SKIPPED: mounts are not permitted here'; } | report 0 1 0 1
expect 'nothing but skips has failed' 1 '0 passed, 0 failed, 1 skipped'

rm report
echo 8 >status
expect 'no report has failed' 1 '0 passed, 1 failed'

# What failed beside others is repeated alone.
failed_case() { printf '\t<testcase name="%s" status="fail">\n\t\t<system-out>%s</system-out>\n\t</testcase>\n' "$1" "${2:-}"; }
noisy='failed beside other tests, passed three times alone: plain'
{ passed_case a; failed_case b.c; } | report 8 2 1 0
expect 'one fails, alone too' 1 '1 passed, 1 failed' '== plain b.c, alone'
echo 0 >alone
expect 'one fails, and passes alone' 0 '2 passed, 0 failed' "$noisy b.c"
{ passed_case a; failed_case unit-b; } | report 8 2 1 0
expect 'a unit test is not repeated' 1 '1 passed, 1 failed'
{ passed_case a; failed_case b '==1==ERROR: AddressSanitizer: heap-use-after-free'; } | report 8 2 1 0
expect 'a finding of a sanitizer' 1 '1 passed, 1 failed'
{ passed_case a; failed_case b '1 violations'; } | report 8 2 1 0
expect 'two holders' 1 '1 passed, 1 failed'
{ passed_case a; failed_case b '==1==ERROR: LeakSanitizer: detected memory leaks'; } | report 8 2 1 0
expect 'a leak' 1 '1 passed, 1 failed'
{ passed_case a; failed_case b $'[  FAILED  ] x\n==1==ERROR: LeakSanitizer: detected memory leaks'; } | report 8 2 1 0
expect 'a leak that a failed case left' 0 '2 passed, 0 failed' "$noisy b"
{ passed_case a; for i in 1 2 3 4 5 6 7; do failed_case "b$i"; done; } | report 8 8 7 0
expect 'too many fail' 1 '1 passed, 7 failed'
rm alone

# Labels: some, all but some.
for labels in 'a|b:-L ^(a|b)$' '!a|b:-LE ^(a|b)$'; do
    { passed_case a; } | report 0 1 0 0
    said=$(PATH=$dir/bin:$PATH TEST_JOBS=1 "$source/tools/run-tests.sh" "plain:build:${labels%%:*}" | grep '^ctest ')
    [[ $said == "ctest --test-dir build ${labels#*:} -j 1 "* ]] || { echo "run-tests: labels $labels: $said" >&2 && bad=1; }
done

# A build that is called asan and has no sanitizer.
runs=(asan:build:)
{ passed_case a; } | report 0 1 0 0
expect 'sanitizers that are not on' 1 '0 passed, 2 failed' '== asan: NOT RUN: these sanitizers are not on in build: address undefined'
exit $bad
