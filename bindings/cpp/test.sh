#!/bin/bash
# SPDX-License-Identifier: MIT
# The checks of the C++ binding: test.sh; test.sh build: only the programs of examples. HOLDFAST_BUILD is a finished build of the
# library (default: build in the root); what is made here is in its folder bindings/cpp. The test programs are built with the address
# and undefined-behaviour sanitizers, as C++17, and as C++20 where they need coroutines. CXX (default g++) is their compiler.
set -u
cd "$(dirname "$0")" || exit 1
root=$(cd ../.. && pwd)
build=$(cd "${HOLDFAST_BUILD:-$root/build}" && pwd) || exit 1
out=$build/bindings/cpp
cxx=${CXX:-g++}
passed=0
failed=0
mkdir -p "$out"
rm -f "$out"/later.*
export ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1

count() { # count NAME PASSED FAILED
    passed=$((passed + $2))
    failed=$((failed + $3))
    [ "$3" -eq 0 ] || echo "FAILED: $1"
}
check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then count "$name" 1 0; else count "$name" 0 1; fi
}

# later NAME COMMAND...: as check, beside others of its kind; settle waits for them all.
jobs=0
later() {
    local name=$1
    shift
    if [ "$jobs" -ge "$(nproc)" ]; then
        wait -n
        jobs=$((jobs - 1))
    fi
    started=$((started + 1))
    { if "$@" >&2; then echo "1 0 $name"; else echo "0 1 $name"; fi; } >"$out/later.$started" &
    jobs=$((jobs + 1))
}
started=0
settle() {
    local good bad name
    wait
    while read -r good bad name; do count "$name" "$good" "$bad"; done < <(cat "$out"/later.*)
    rm -f "$out"/later.*
    jobs=0
}

warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor -Werror)
paths=(-Iinclude "-I$root/include")
tests=(locks leases primitives errors callbacks processes coroutines)

# once NAME SOURCE COMMAND...: unless it succeeded since the source, or what all have in common, was changed.
once() {
    local stamp=$out/$1.done source=$2
    shift 2
    [ -e "$stamp" ] && [ -z "$(find "$source" include "$root/include" test/check.hpp test.sh -newer "$stamp" -type f | head -1)" ] && return
    "$@" && touch "$stamp"
}
program() { # program NAME SOURCE FLAGS...
    local name=$1 source=$2
    shift 2
    once "$name" "$source" "$cxx" "$@" "${warnings[@]}" "${paths[@]}" "$source" -o "$out/$name" "-L$build/lib" -lholdfast \
        "-Wl,-rpath,$build/lib" -pthread
}
on_file() { "$root/tools/with-store.sh" "$@"; }
# shellcheck disable=SC2016 # for the shell that has a server
on_redis() { "$build/bin/test/with_server" redis sh -c '"$0" "$@" "redis://127.0.0.1:$HOLDFAST_TEST_PORT"' "$@"; }

# ---- build -----------------------------------------------------------------------------------------------
for name in workers worker bench; do
    later "build $name" program "$name" "examples/$name.cpp" -std=c++17 -g -O2
done
if [ "${1:-}" = build ]; then
    settle
    exit $((failed > 0))
fi
for name in "${tests[@]}"; do
    flags=(-std=c++17 -g1 -O0 "-fsanitize=address,undefined" -fno-sanitize-recover=all)
    case $name in
    coroutines) flags[0]=-std=c++20 ;;
    processes) flags=(-std=c++17 -g1 -O0) ;; # it forks: see there
    esac
    later "build $name" program "$name" "test/$name.cpp" "${flags[@]}"
done

without_exceptions() {
    "$1" -std=c++17 "${warnings[@]}" "${paths[@]}" -fno-exceptions -DOTHER -c test/no_exceptions.cpp -o "$out/other-$1.o" &&
        "$1" -std=c++17 "${warnings[@]}" "${paths[@]}" -fno-exceptions test/no_exceptions.cpp "$out/other-$1.o" -o "$out/no_exceptions-$1" \
            "-L$build/lib" -lholdfast "-Wl,-rpath,$build/lib" -pthread
}
later "build no_exceptions" once "no_exceptions-$cxx" test/no_exceptions.cpp without_exceptions "$cxx"

# ---- lint ------------------------------------------------------------------------------------------------
sources=(include/holdfast/*.hpp include/holdfast/cpp/*.hpp test/*.cpp test/*.hpp examples/*.cpp)
for source in "${sources[@]}"; do
    [ "$(wc -l <"$source")" -le 600 ] || count "$source has more than 600 lines" 0 1
done
if command -v clang-format >/dev/null; then
    check layout clang-format --dry-run --Werror --ferror-limit=3 "${sources[@]}"
else
    echo "skipped: clang-format is missing"
fi
if command -v clang++ >/dev/null; then
    for name in "${tests[@]}"; do
        later "clang++ $name" once "clang-$name" "test/$name.cpp" clang++ -std=c++20 -fsyntax-only "${warnings[@]}" "${paths[@]}" "test/$name.cpp"
    done
    later "clang++ no_exceptions" once no_exceptions-clang++ test/no_exceptions.cpp without_exceptions clang++
    later "clang++ coroutines, C++17" once clang-17 test/coroutines.cpp clang++ -std=c++17 -fsyntax-only "${warnings[@]}" "${paths[@]}" test/coroutines.cpp
else
    echo "skipped: clang++ is missing"
fi
if command -v clang-tidy >/dev/null; then
    tidy() { clang-tidy --quiet --header-filter="bindings/cpp/include/.*" "$1" -- -std=c++20 "${paths[@]}" 2>/dev/null >"$out/tidy.log" || { cat "$out/tidy.log" >&2; return 1; }; }
    # One is enough for the headers; the analyzer takes minutes for coroutines.
    later clang-tidy once tidy test/locks.cpp tidy test/locks.cpp
else
    echo "skipped: clang-tidy is missing"
fi
settle
if command -v shellcheck >/dev/null; then
    check shellcheck shellcheck test.sh test/*.sh
fi

# ---- documentation ---------------------------------------------------------------------------------------
if command -v doxygen >/dev/null; then
    document() { (cat Doxyfile && echo "OUTPUT_DIRECTORY = $out") | doxygen - >"$out/doxygen.log" 2>&1 || { cat "$out/doxygen.log"; return 1; }; }
    check doxygen document
else
    echo "skipped: doxygen is missing"
fi

# ---- run -------------------------------------------------------------------------------------------------
for name in "${tests[@]}"; do
    for where in file redis; do
        on_$where timeout 300 "$out/$name" >"$out/log" 2>&1
        status=$?
        read -r good bad < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$out/log")
        if [ "$status" -ne 0 ] || [ -z "${good:-}" ]; then cat "$out/log"; fi
        [ "$status" -eq 0 ] || [ "${bad:-0}" -gt 0 ] || bad=1
        count "$name on $where" "${good:-0}" "${bad:-0}"
        unset good bad
    done
done
for where in file redis; do
    check "example workers on $where" on_$where test/workers.sh "$out/workers"
    check "example worker on $where" on_$where test/worker.sh "$out/worker"
done
# The program of the README, word by word but for its URL.
quickstart() {
    awk '/^```cpp/ { on = 1; next } /^```/ && on { exit } on' README.md | sed "s|redis://localhost|$1|" >"$out/quickstart.cpp"
    "$cxx" -std=c++17 "${warnings[@]}" "${paths[@]}" "$out/quickstart.cpp" -o "$out/quickstart" "-L$build/lib" -lholdfast "-Wl,-rpath,$build/lib" -pthread &&
        timeout 120 "$out/quickstart"
}
folder=$(mktemp -d)
check "quickstart of the README" quickstart "file:$folder"
rm -rf "$folder"
check "without exceptions, two files" on_file "$out/no_exceptions-$cxx"
# shellcheck disable=SC2016 # for another shell
check "example workers without a URL" sh -c '"$0" | tail -1 | grep -qx "page: by second"' "$out/workers"
# shellcheck disable=SC2016 # for another shell
check "example bench" on_file sh -c '"$0" "$1" 0.2 | grep -Eqx "pairs_per_second [1-9][0-9]*"' "$out/bench"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
