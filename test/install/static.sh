#!/bin/bash
# SPDX-License-Identifier: MIT
# A libholdfast with its engine compiled in, and no module anywhere: static.sh
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-static.XXXXXX")
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/store"

cmake -S "$source" -B "$dir/build" -G Ninja -DHOLDFAST_STATIC_ENGINES=lmdb -DHOLDFAST_TESTS=OFF \
    -DHOLDFAST_BENCH=OFF -DCMAKE_INSTALL_PREFIX="$dir/nowhere" >/dev/null
cmake --build "$dir/build" --target product >"$dir/log" || { cat "$dir/log"; exit 1; }

if [ -e "$dir/build/lib/holdfast" ]; then
    echo "static: there is a module all the same" >&2
    exit 1
fi
"$dir/build/bin/holdfast" -S "file:$dir/store" run x -- true
