#!/bin/bash
# SPDX-License-Identifier: MIT
# Is a sanitizer on in this build? caught.sh BUILD address|undefined|thread
#
# A mistake of each kind must end a program of the same build with a report, and every product must
# have the sanitizer's calls in it. tools/run-tests.sh runs this before anything else.
set -u

build=$1 sanitizer=$2
fail() { echo "caught: $sanitizer: $*" >&2; exit 1; }

case $sanitizer in
address) kind=heap report='AddressSanitizer: heap-buffer-overflow' symbol=__asan_report_ ;;
undefined) kind=signed report='runtime error: signed integer overflow' symbol=__ubsan_handle_ ;;
thread) kind=race report='ThreadSanitizer: data race' symbol=__tsan_func_entry ;;
*) fail "no such sanitizer" ;;
esac

program=$build/bin/test/caught
[ -x "$program" ] || fail "$program is not built"
output=$("$program" $kind 2>&1)
status=$?
[ $status -ne 0 ] || fail "it is not on: '$program $kind' ended with status 0 and said: $output"
[[ $output == *"$report"* ]] || fail "'$program $kind' ended with status $status, but not with '$report': $output"

products=("$build/bin/holdfast" "$build/lib/libholdfast.so" "$build"/lib/holdfast/*.so)
for product in "${products[@]}"; do
    calls=$(nm -D --undefined-only "$product" | grep -c "$symbol")
    [ "$calls" -gt 0 ] || fail "$product has no call of $symbol*: it was compiled without"
done
echo "$sanitizer: caught; in ${#products[@]} products"
