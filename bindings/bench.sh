#!/bin/bash
# SPDX-License-Identifier: MIT
# bench.sh BUILD [LANGUAGE...]: uncontended pairs in each language beside C, on the embedded store and on Redis. Go, Node and Java must have
# been built: bindings/test.sh does, and speed.py says what is missing. ROUND: seconds of a round. PIN=no: all cores.
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
for language in cpp python; do
    case " $* " in
    *" $language "*) "bindings/$language/test.sh" build || exit 1 ;;
    esac
done
programs=()
for language; do
    programs+=("$language=$(program "$language" bench)")
done
# Server and programs on one core. Waking an idle core of a virtual machine seems to be slow: with two cores a pair on Redis is
# mostly that (C: 6,600 pairs/s instead of 24,000), and it hides every difference between languages. All that is started inherits it.
pin=()
if [ "${PIN:-yes}" != no ]; then
    pin=(taskset -c "$(python3 -c 'import os; print(max(os.sched_getaffinity(0)))')")
fi
exec "${pin[@]}" "$build/bin/test/with_server" redis python3 -B bindings/together/speed.py "$build" "${ROUND:-1}" "${programs[@]}"
