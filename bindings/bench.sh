#!/bin/bash
# SPDX-License-Identifier: MIT
# bench.sh BUILD [LANGUAGE...]: uncontended pairs in each language beside C, on the embedded store and on Redis. The bindings must have been
# built: bindings/test.sh does. ROUND: seconds of a round.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(realpath "$1") || exit 1
shift
. bindings/languages.sh
# shellcheck disable=SC2086 # a list of words
[ $# -gt 0 ] || set -- $languages
export HOLDFAST_BUILD=$build
case " $* " in
*" rust "*) # its tests use a build without optimization
    (cd bindings/rust && CARGO_TARGET_DIR=$build/bindings/rust cargo build --quiet --release --locked -p holdfast --example bench) || exit 1
    ;;
esac
programs=()
for language; do
    programs+=("$language=$(program "$language" bench)")
done
exec "$build/bin/test/with_server" redis python3 -B bindings/together/speed.py "$build" "${ROUND:-1}" "${programs[@]}"
