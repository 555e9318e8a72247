#!/bin/sh
# SPDX-License-Identifier: MIT
# build.sh [FOLDER]: build the addon, FOLDER/holdfast.node. HOLDFAST_BUILD is the build folder of Holdfast (default: that of this tree);
# without one, an installed Holdfast is used (pkg-config). NODE_INCLUDE: the headers of Node, if they are at an unusual place.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${HOLDFAST_BUILD:-$root/build}
out=${1:-$here/build}
mkdir -p "$out"

# The headers: beside node, Debian's libnode-dev, or the package node-api-headers with Debian's libuv1-dev.
node=$(node -p 'process.execPath')
include=
for folder in "${NODE_INCLUDE:-}" "$(dirname "$node")/../include/node" /usr/include/node /usr/include/nodejs/src \
    "$here/node_modules/node-api-headers/include" "$out/node_modules/node-api-headers/include"; do
    if [ -z "$include" ] && [ -n "$folder" ] && [ -f "$folder/node_api.h" ]; then include=$folder; fi
done
if [ -z "$include" ]; then
    echo "build.sh: no node_api.h: install libnode-dev, or npm install node-api-headers" >&2
    exit 1
fi

# Built again only if something is newer.
target=$out/holdfast.node
if [ -f "$target" ] && [ -z "$(find "$here/native" "$here/build.sh" "$root/include" -newer "$target" 2>/dev/null)" ]; then exit 0; fi

if [ -f "$build/lib/libholdfast.so" ]; then
    build=$(cd "$build" && pwd) # what is recorded must be true in every folder
    set -- "-I$root/include" "-L$build/lib" "-Wl,-rpath,$build/lib" -lholdfast
elif flags=$(pkg-config --cflags --libs holdfast 2>/dev/null); then
    # shellcheck disable=SC2086 # a list of words
    set -- $flags
else
    echo "build.sh: no library: neither $build/lib/libholdfast.so nor an installed one; set HOLDFAST_BUILD" >&2
    exit 1
fi
# shellcheck disable=SC2086 # CFLAGS is a list of words
${CC:-cc} -std=gnu11 -O2 -g -fPIC -shared -fvisibility=hidden -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror \
    ${CFLAGS:-} -o "$target.new" "$here"/native/*.c -isystem "$include" "$@" -lpthread
mv "$target.new" "$target"
