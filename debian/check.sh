#!/bin/sh
# SPDX-License-Identifier: MIT
# A light check while the packages are built: check.sh HOLDFAST
# Nothing outside of a temporary directory is used, and no server.
set -eu

dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-check.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "check: $*" >&2; exit 1; }

export HOME="$dir" HOLDFAST_STORE="file:$dir/store"
# shellcheck disable=SC2016 # for the shell that has a lease
token=$("$1" run check -- sh -c 'echo "$HOLDFAST_TOKEN"') || fail "run"
[ "$token" -gt 0 ] || fail "run: the token is '$token'"
# A run within a run of the same name would share its lease: the environment says so.
"$1" run check -- env -i "HOLDFAST_STORE=$HOLDFAST_STORE" "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}" "$1" run -n check -- true 2>"$dir/says" &&
    fail "two held one name"
grep -q busy "$dir/says" || fail "run -n: $(cat "$dir/says")"
sed -n 's/^ENGINE(\([a-z0-9]*\),.*/\1/p' src/engine/engines.def | while read -r engine; do
    "$1" engines "$engine" >"$dir/says" 2>&1 || fail "engines $engine: $(cat "$dir/says")"
done
echo "check: run, a busy name, and the module of every engine"
