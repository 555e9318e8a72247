#!/bin/sh
# Build libholdfast_jni.so: native/build.sh OUTPUT_DIRECTORY. HOLDFAST_BUILD: the build folder of the C library
# (default: build in the root of the repository). JAVA_HOME: the JDK whose jni.h is used (default: that of javac).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=${HOLDFAST_BUILD:-$root/build}
out=${1:?usage: native/build.sh OUTPUT_DIRECTORY}
jdk=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}

if [ ! -e "$build/lib/libholdfast.so" ]; then
    echo "native/build.sh: $build/lib/libholdfast.so is missing: build the C library first" >&2
    exit 1
fi
build=$(cd "$build" && pwd) # what is recorded must be true in every folder
mkdir -p "$out"
library=$out/libholdfast_jni.so
if [ -e "$library" ] && [ -z "$(find "$here" "$root/include" -newer "$library" -type f)" ]; then
    exit 0
fi
# The directory of the C library is recorded, so that a build tree works without an installation.
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -g -fPIC -fvisibility=hidden -pthread -Wall -Wextra -Werror ${CFLAGS:-} \
    -I"$root/include" -isystem "$jdk/include" -isystem "$jdk/include/linux" \
    -shared -o "$library.new" "$here"/*.c -Wl,--no-undefined \
    -L"$build/lib" -lholdfast -Wl,-rpath,"${HOLDFAST_RPATH-$build/lib}"
mv "$library.new" "$library"
