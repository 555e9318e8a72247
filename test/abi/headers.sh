#!/bin/bash
# SPDX-License-Identifier: MIT
# headers.sh INCLUDE: do the headers, and every HF_*_INIT, compile without a warning as C99 to C17 and C++11 to C++20? And does
# ignoring a result warn?
set -eu
include=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

{
    for header in holdfast primitives redis observe; do
        echo "#include <holdfast/$header.h>"
    done
    echo 'int use(void); int use(void) { size_t sizes = 0;'
    sed -n 's/^#define \(HF_[A-Z_]*_INIT\) HF_INIT(\(hf_[a-z_]*\))$/\2 \1/p' "$include"/holdfast/*.h |
        while read -r type init; do
            echo "{ $type value = $init; sizes += value.size; }"
        done
    echo 'int64_t wait_ms = HF_FOREVER; uint64_t flags = HF_FLAG_STRICT | HF_CAP_SCRIPTS; size_t len = HF_CSTRING;'
    echo 'return sizes > 0 && wait_ms < 0 && flags > 0 && len > 0; }'
} >"$dir/use.c"
[ "$(grep -c 'value.size' "$dir/use.c")" -ge 14 ] || { echo "few HF_*_INIT were found"; exit 1; }

warnings=(-Wall -Wextra -pedantic -Wconversion -Werror -fsyntax-only "-I$include")
for compiler in gcc clang; do
    command -v "$compiler" >/dev/null || continue
    for standard in c99 c11 c17; do
        "$compiler" -std=$standard "${warnings[@]}" -Wc++-compat "$dir/use.c"
    done
done
for compiler in g++ clang++; do
    command -v "$compiler" >/dev/null || continue
    for standard in c++11 c++14 c++17 c++20; do
        "$compiler" -x c++ -std=$standard "${warnings[@]}" -Wold-style-cast "$dir/use.c"
    done
done

# Each header alone.
for header in holdfast primitives redis observe; do
    echo "#include <holdfast/$header.h>" >"$dir/alone.c"
    cc -std=c99 "${warnings[@]}" "$dir/alone.c"
done

# A result that must not be ignored.
cat >"$dir/ignores.c" <<'END'
#include <holdfast/holdfast.h>
void ignores(hf_store *store, const hf_acquire_request *request, hf_lease **lease);
void ignores(hf_store *store, const hf_acquire_request *request, hf_lease **lease)
{
    hf_acquire(store, request, lease, 0);
}
END
if cc -std=c99 -Werror "-I$include" -c -o "$dir/ignores.o" "$dir/ignores.c" 2>"$dir/said" || ! grep -q unused-result "$dir/said"; then
    echo "nobody warns of an acquire whose result is ignored"
    exit 1
fi
