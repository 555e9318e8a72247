#!/bin/sh
# Run an example as test.sh has built it: examples/run.sh workers|worker|bench ARGUMENT... The process becomes the program.
# HOLDFAST_BUILD, HOLDFAST_JAVA_OUT: as for test.sh. JAVA: the java to use. JAVA_OPTIONS: more options for it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
out=${HOLDFAST_JAVA_OUT:-${HOLDFAST_BUILD:-$root/build}/bindings/java}
case ${1:-} in
workers) class=Workers ;;
worker) class=Worker ;;
bench) class=Bench ;;
*)
    echo "usage: examples/run.sh workers|worker|bench ARGUMENT..." >&2
    exit 64
    ;;
esac
shift
if [ ! -e "$out/examples/$class.class" ]; then
    echo "examples/run.sh: there is no $class.class in $out/examples: run test.sh first" >&2
    exit 1
fi
# shellcheck disable=SC2086
exec "${JAVA:-java}" ${JAVA_OPTIONS:-} -Dholdfast.library="$out/native/libholdfast_jni.so" \
    -cp "$out/holdfast.jar:$out/examples" "$class" "$@"
