#!/bin/sh
# SPDX-License-Identifier: MIT
#
# compat.sh BUILD [STORE...]: checks that the tree of COMPAT_REV (db63293) and the one that was built in BUILD can share
# every kind of store. The old one is taken from this repository's history and built too. test/compat/compat.py has the
# cases.
set -eu
build=$1
shift
rev=${COMPAT_REV:-db63293}
cd "$(dirname "$0")/.."
old=$build/compat/$(git rev-parse --short "$rev^{commit}")
if [ ! -x "$old/build/bin/holdfast" ]; then
    mkdir -p "$old/source"
    git archive "$rev" | tar -x -C "$old/source"
    cmake -S "$old/source" -B "$old/build" -G Ninja -DHOLDFAST_TESTS=OFF -DHOLDFAST_BENCH=OFF >/dev/null
    cmake --build "$old/build" >"$old/log" 2>&1 || { tail -20 "$old/log"; exit 1; }
fi
exec python3 -B test/compat/compat.py "$old/build/bin/holdfast" "$build/bin/holdfast" "$build/bin/test/with_server" "$@"
