#!/bin/bash
# SPDX-License-Identifier: MIT
# Do the C programs of README.md and docs build, and does the first one of README.md run? check-readme.sh BUILD [SANITIZER]
#
# A program is a block of C with main() that includes a header of ours. README.md need not have one.
set -eu
shopt -s globstar nullglob

build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-readme.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "check-readme: $*" >&2; exit 1; }

# The programs of FILE, as $dir/N-1.c, $dir/N-2.c and so on.
programs() {
    awk -v at="$dir/$2-" '
        /^```/ && on { if (text ~ /int main\(/ && text ~ /include <holdfast/) { n++; file = at n ".c"; printf "%s", text > file; close(file) } on = 0; next }
        /^```c$/ { on = 1; text = ""; next }
        on { text = text $0 "\n" }' "$1"
}

cd "$source"
number=0
for document in README.md README.zh-CN.md docs/**/*.md; do
    [ -f "$document" ] || continue
    number=$((number + 1))
    programs "$document" $number
    for program in "$dir/$number"-*.c; do
        "${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror ${2:+-fsanitize=$2} -I"$source/include" \
            -o "${program%.c}" "$program" -L"$build/lib" -lholdfast -Wl,-rpath,"$build/lib" ||
            fail "$document: program ${program##*-} does not build"
    done
done

# README.md, if it is there, is number 1. What its program says with a token is run.
program=$dir/1-1
[ -x "$program" ] && grep -q 'hf_lease_token' "$program.c" || exit 0
lines=$(wc -l <"$program.c")
[ "$lines" -le 22 ] || fail "README.md: the program has $lines lines; it was to be short"
first=$("$program" "file:$dir/store") || fail "README.md: the program does not run"
second=$("$program" "file:$dir/store") || fail "README.md: the program does not run twice"

# Its output is a token, and the second is larger.
before=${first##* } after=${second##* }
if [ "$before" -le 0 ] || [ "$after" -le "$before" ]; then
    fail "README.md: tokens: '$first', then '$second'"
fi

# And on a Redis server.
# shellcheck disable=SC2016 # for the shell that has one
"$build/bin/test/with_server" redis sh -c '"$0" "redis://127.0.0.1:$HOLDFAST_TEST_PORT"' "$program" >/dev/null ||
    fail "README.md: the program does not run on Redis"
