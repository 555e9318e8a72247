#!/bin/bash
# SPDX-License-Identifier: MIT
# Does the C program of README.md build and run? check-readme.sh BUILD [SANITIZER]
set -eu

build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-readme.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "README: $*" >&2; exit 1; }

# The first block of C.
awk '/^```c$/ { on = 1; next } /^```$/ && on { exit } on' "$source/README.md" >"$dir/program.c"
[ -s "$dir/program.c" ] || fail "there is no C program in it"
lines=$(wc -l <"$dir/program.c")
[ "$lines" -le 22 ] || fail "the program has $lines lines; it was to be short"

"${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror ${2:+-fsanitize=$2} -I"$source/include" \
    -o "$dir/program" "$dir/program.c" -L"$build/lib" -lholdfast -Wl,-rpath,"$build/lib" ||
    fail "the program does not build"
first=$("$dir/program" "file:$dir/store") || fail "the program does not run"
second=$("$dir/program" "file:$dir/store") || fail "the program does not run twice"

# Its output is a token, and the second is larger.
before=${first##* } after=${second##* }
if [ "$before" -le 0 ] || [ "$after" -le "$before" ]; then
    fail "tokens: '$first', then '$second'"
fi

# And on a Redis server, as README says.
# shellcheck disable=SC2016 # for the shell that has one
"$build/bin/test/with_server" redis sh -c '"$0" "redis://127.0.0.1:$HOLDFAST_TEST_PORT"' "$dir/program" >/dev/null ||
    fail "the program does not run on Redis"
