#!/bin/bash
# SPDX-License-Identifier: MIT
# Which engines a build has: engines.sh
#
# An engine is added by a folder and a line (test/engine), without a change of any other file; only the engines that
# are asked for are built; what is missing is said.
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-engines.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "engines: $*" >&2; exit 1; }
configure() { # NAME option...
    local name=$1
    shift
    cmake -S "$source" -B "$dir/$name" -G Ninja -DHOLDFAST_TESTS=OFF -DHOLDFAST_BENCH=OFF "$@" >"$dir/log" 2>&1
}

# A folder and a line, in another place than src/engine; of those only the embedded engine.
configure a "-DHOLDFAST_ENGINE_DIRS=$source/src/engine;$source/test/engine" "-DHOLDFAST_ENGINES=lmdb;memory" ||
    { cat "$dir/log"; fail "cannot configure"; }
cmake --build "$dir/a" --target product >"$dir/log" 2>&1 || { cat "$dir/log"; fail "cannot build"; }
modules=$(cd "$dir/a/lib/holdfast" && echo *)
[ "$modules" = "lmdb.so memory.so" ] || fail "modules: $modules"
holdfast=$dir/a/bin/holdfast
"$holdfast" -S memory:x run x -- true || fail "memory: cannot run"
"$holdfast" -S memory:x doctor | grep -q 'locks between the threads' || fail "memory: no doctor"
"$holdfast" engines | grep -q '^memory' || fail "memory: not listed"
mkdir "$dir/store"
"$holdfast" -S "file:$dir/store" run x -- true || fail "file: cannot run"
! "$holdfast" -S redis://127.0.0.1:1 run x -- true 2>"$dir/says" || fail "redis: is there"
grep -q "engine 'redis' is not part of this build" "$dir/says" || fail "redis: $(cat "$dir/says")"

# What there is not.
! configure b -DHOLDFAST_ENGINES=lmbd || fail "an engine that there is not: accepted"
grep -q "there is no engine 'lmbd'" "$dir/log" || { cat "$dir/log"; fail "an engine that there is not: not said"; }
mkdir "$dir/more"
echo 'ENGINE(other, "other", "no-such-library", "", "libother-dev", "", "")' >"$dir/more/engines.def"
! configure c "-DHOLDFAST_ENGINE_DIRS=$dir/more" || fail "a library that there is not: accepted"
tr '\n' ' ' <"$dir/log" | tr -s ' ' | grep -q "engine other: no-such-library not found. Install it (Debian: libother-dev)" ||
    { cat "$dir/log"; fail "a library that there is not: not said"; }
