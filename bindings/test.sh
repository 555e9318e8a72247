#!/bin/bash
# SPDX-License-Identifier: MIT
# test.sh BUILD [LANGUAGE...]: every binding's own tests, then workers of all languages on one lock, on the embedded store and on Redis.
# The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(realpath "$1") || exit 1
shift
. bindings/languages.sh
# shellcheck disable=SC2086 # a list of words
[ $# -gt 0 ] || set -- $languages
export HOLDFAST_BUILD=$build

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0
summary=()

# count NAME STATUS LOG: what its last line says; one failure, if it says nothing or has failed without a count.
count() {
    local good bad
    read -r good bad < <(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed.*/\1 \2/p' "$3" | tail -n 1)
    good=${good:-0} bad=${bad:-1}
    [ "$2" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
    passed=$((passed + good)) failed=$((failed + bad))
    summary+=("$(printf '%-16s %4d passed %4d failed %5d s' "$1" "$good" "$bad" $((SECONDS - start)))")
}

for language; do
    echo "== $language"
    start=$SECONDS
    "bindings/$language/test.sh" >"$tmp/log" 2>&1 </dev/null
    status=$?
    if [ $status -eq 0 ]; then tail -n 3 "$tmp/log"; else cat "$tmp/log"; fi
    count "$language" $status "$tmp/log"
done

workers=("c=$(program c worker)")
for language; do
    workers+=("$language=$(program "$language" worker)")
done
for store in embedded redis; do
    echo "== together, $store"
    start=$SECONDS
    server=()
    [ $store = embedded ] || server=("$build/bin/test/with_server" "$store")
    "${server[@]}" python3 -B bindings/together/together.py "$build" 8 "${workers[@]}" 2>&1 </dev/null | tee "$tmp/log"
    count "together $store" "${PIPESTATUS[0]}" "$tmp/log"
done

echo
printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
