#!/bin/sh
# SPDX-License-Identifier: MIT
# Does the bench run, is its JSON complete, does it clean up, does it refuse nonsense? smoke.sh PROGRAM
set -eu

bench=$1
dir=$(mktemp -d "${TMPDIR:-/tmp}/bench-smoke.XXXXXX")
trap 'rm -rf "$dir"' EXIT
export TMPDIR="$dir"
fail() { echo "bench smoke: $*" >&2; exit 1; }
status() { code=0; "$@" >/dev/null 2>&1 || code=$?; echo "$code"; }

"$bench" --quick --only pair --json --svg "$dir/plot.svg" >"$dir/out.json" || fail "exit status $?"
jq -e '
    (.version | type == "string") and .quick == true and (.seconds | type == "number")
    and (.file_system | type == "string") and (.measurements | length) == 1
    and (.measurements[0] | .name == "pair" and .error == null
        and (.rows | length) >= 3
        and (.rows[0] | .unit == "per_second" and .measured > 0 and .baseline > 0 and .ratio > 0
            and .ratio_low <= .ratio and .ratio <= .ratio_high and .rounds >= 5
            and .target == {of: "ratio", at_least: 0.5, aim: 0.8} and (.met | type == "boolean"))
        and (.rows[1] | .target == null and .met == null))
' "$dir/out.json" >/dev/null || { cat "$dir/out.json"; fail "not the JSON that was promised"; }
python3 -c 'import sys, xml.dom.minidom as d; d.parse(sys.argv[1])' "$dir/plot.svg" || fail "the plot is not XML"
[ "$(find "$dir" -mindepth 1 -maxdepth 1 -type d | wc -l)" = 0 ] || fail "it left a directory behind"

# Without a redis-server that group is skipped, which is no failure.
mkdir "$dir/empty"
PATH="$dir/empty" "$bench" --quick --json redis-pair >"$dir/out.json" || fail "no redis-server: exit status $?"
jq -e '.measurements[0] | .name == "redis-pair" and .group == "redis" and .error == null
    and (.skipped | contains("not installed")) and .rows == []' "$dir/out.json" >/dev/null ||
    { cat "$dir/out.json"; fail "not skipped"; }
rmdir "$dir/empty"

# With one: the raw clients and ours on the same server, which is gone afterwards.
if command -v redis-server >/dev/null; then
    "$bench" --quick --json redis-parallel redis-passes prims-limit >"$dir/out.json" || fail "redis: exit status $?"
    jq -e '.measurements | length == 3
        and all(.error == null and .skipped == null and (.rows | length) >= 2 and .rows[0].ratio > 0)
        ' "$dir/out.json" >/dev/null || { cat "$dir/out.json"; fail "redis"; }
    "$bench" --quick --json redlock-pair >"$dir/out.json" || fail "redlock: exit status $?"
    jq -e '.measurements | length == 1 and .[0].group == "redlock" and .[0].error == null and (.[0].rows | length) >= 5
        and .[0].rows[0].measured > 0 and .[0].rows[1].ratio > 0' "$dir/out.json" >/dev/null ||
        { cat "$dir/out.json"; fail "redlock"; }
    [ -z "$(find /proc/[0-9]*/cwd -lname "$dir/*" 2>/dev/null)" ] || fail "a redis-server is left"
fi

# Curves: the first points of each, drawn.
"$bench" --growth --most 10 --json --svg "$dir/curves.svg" embedded >"$dir/out.json" || fail "--growth: exit status $?"
jq -e '.measurements | length == 1 and .[0].name == "growth-embedded" and .[0].error == null
    and (.[0].rows | map(.axis) | unique) == ["clients", "names", "waiters"]
    and (.[0].rows | map(select(.what == "pair, CPU") | .at)) == [10, 1, 10, 1, 10]' "$dir/out.json" >/dev/null ||
    { cat "$dir/out.json"; fail "--growth"; }
python3 -c 'import sys, xml.dom.minidom as d; d.parse(sys.argv[1])' "$dir/curves.svg" || fail "the curves are not XML"
[ "$(status "$bench" --growth zookeeper)" = 64 ] || fail "--growth of what has no curves"
[ "$(status "$bench" --growth --most 0)" = 64 ] || fail "--most 0"

"$bench" --list | grep -q '^handoff ' || fail "--list"
"$bench" --help | grep -q -- --svg || fail "--help"
[ "$(status "$bench" --only nonsense)" = 64 ] || fail "--only nonsense"
[ "$(status "$bench" --seconds 0)" = 64 ] || fail "--seconds 0"
[ "$(status "$bench" --seconds 1x)" = 64 ] || fail "--seconds 1x"
[ "$(status "$bench" nonsense)" = 64 ] || fail "an operand that is no name"
[ "$(status "$bench" --list --svg)" = 64 ] || fail "--svg without a file"
[ "$(status env TMPDIR=/nonexistent "$bench" --quick --only pair)" = 70 ] || fail "no directory for the stores"

# A signal ends it as it should, and nothing stays behind.
"$bench" --only handoff --seconds 60 >/dev/null 2>&1 &
pid=$!
sleep 1
kill -TERM "$pid"
code=0
wait "$pid" || code=$?
[ "$code" = 143 ] || fail "SIGTERM: status $code"
[ "$(find "$dir" -mindepth 1 -maxdepth 1 -type d | wc -l)" = 0 ] || fail "SIGTERM left a directory behind"
