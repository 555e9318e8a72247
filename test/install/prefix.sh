#!/bin/bash
# SPDX-License-Identifier: MIT
# A build folder that gets another prefix later (`make demo`, then `make build install PREFIX=...`) installs nothing into the first one.
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-prefix.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "prefix: $*" >&2; exit 1; }

for prefix in "$dir/first" "$dir/second"; do
    cmake -S "$source" -B "$dir/build" -G Ninja -DHOLDFAST_TESTS=OFF -DHOLDFAST_BENCH=OFF -DHOLDFAST_LAB=OFF -DHOLDFAST_SEE=OFF \
        -DHOLDFAST_ENGINES=lmdb -DHOLDFAST_SYSTEMD=ON "-DCMAKE_INSTALL_PREFIX=$prefix" >"$dir/log" 2>&1 || { cat "$dir/log"; fail "cannot configure"; }
done
left=$(grep -rn --include=cmake_install.cmake --include='*.service' --include='*.pc' --include='*.conf' "$dir/first" "$dir/build") &&
    fail "the first prefix is still there: $left"
grep -q "^ExecStart=$dir/second/bin/holdfast " "$dir/build/systemd/holdfast-serve.service" || fail "the unit does not name the second prefix"
