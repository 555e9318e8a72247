#!/bin/bash
# SPDX-License-Identifier: MIT
# test.sh BUILD [LANGUAGE...]: the own tests of each language, then workers of these languages on one lock, on the embedded store and on Redis.
# No language means all. The word `together` among them puts workers of all languages on that lock. The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(realpath "$1") || exit 1
shift
. bindings/languages.sh
# shellcheck disable=SC2206 # a list of words
all=($languages)
tested=() share=()
for language in "${@:-${all[@]}}"; do
    case " together $languages " in
    *" $language "*) ;;
    *)
        echo "test: there is no language '$language'; there are: $languages, together" >&2
        exit 64
        ;;
    esac
    if [ "$language" = together ]; then share=("${all[@]}"); else tested+=("$language"); fi
done
[ ${#share[@]} -gt 0 ] || share=("${tested[@]}")
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

for language in "${tested[@]}"; do
    echo "== $language"
    start=$SECONDS
    "bindings/$language/test.sh" >"$tmp/log" 2>&1 </dev/null
    status=$?
    if [ $status -eq 0 ]; then tail -n 3 "$tmp/log"; else cat "$tmp/log"; fi
    count "$language" $status "$tmp/log"
done

workers=("c=$(program c worker)")
for language in "${share[@]}"; do
    # C++ and Python may not have been tested here, because make test does it. The others build what they have in their tests.
    case "$language" in
    cpp | python) "bindings/$language/test.sh" build </dev/null || echo "test: $language: its programs were not built" ;;
    esac
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
