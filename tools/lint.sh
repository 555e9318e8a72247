#!/bin/bash
# SPDX-License-Identifier: MIT
# Everything that can be found without running a test: lint.sh [STEP...]
#
#   format  let clang-format rewrite the sources (not part of lint; the steps below only look)
#   layout  clang-format finds nothing to change, and no declaration is torn apart by its comment
#   gcc     gcc, warnings as errors
#   clang   clang, warnings as errors
#   musl    another C library than glibc: musl-gcc compiles the product's sources
#   tidy    clang-tidy, over what the clang build compiles
#   check   cppcheck
#   shell   shellcheck
#   man     mandoc -Tlint
#   prose   codespell over the whole tree; tools/prose.py over the English that users read
#
# Without arguments: all but format. Ends with a status of 1 if any step found something.
set -u
cd "$(dirname "$0")/.." || exit 1

# Tracked, or new and not ignored.
files() { git ls-files -co --exclude-standard -- "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }

step_format() { files '*.c' '*.h' | xargs -r clang-format -i; }

step_layout() {
    files '*.c' '*.h' | xargs -r clang-format --dry-run --Werror --ferror-limit=3
    local formatted=$?
    # A declaration whose comment does not fit behind it is torn apart: type, line break, name. The comment goes above.
    # shellcheck disable=SC2016 # $ is awk's
    files '*.c' '*.h' | xargs -r awk '
        torn && /^ +\**[A-Za-z_][A-Za-z0-9_]*(\[[^]]*\])?( = [^;]*)?(, \**[A-Za-z_][A-Za-z0-9_]*)*;[ \t]*(\/\*|$)/ && match($0, /[^ ]/) > torn {
            print FILENAME ":" FNR - 1 ": a declaration is torn apart by its comment: put it above"; found = 1 }
        { torn = 0 }
        /^ *(const |static |volatile |_Atomic )*(struct [A-Za-z0-9_]+|enum [A-Za-z0-9_]+|unsigned( [a-z]+)?|bool|void|char|int|long|double|float|[A-Za-z0-9_]+_t|[A-Za-z0-9_]+_fn|hf_[a-z_]+|FILE|_Atomic.*)( const)?( \*)?$/ { torn = match($0, /[^ ]/) }
        END { exit found }' && [ "$formatted" -eq 0 ]
}

werror_build() {
    CC=$1 cmake -S . -B "build-$1" -G Ninja -DHOLDFAST_WERROR=ON >/dev/null &&
        ninja -C "build-$1" --quiet
}
step_gcc() { werror_build gcc; }
step_clang() { werror_build clang; }

# Nothing is linked: Debian has no other library for musl. Their headers and the kernel's do not ask for a C library.
step_musl() {
    local dir at to path
    dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-musl.XXXXXX") || return 1
    mkdir "$dir/openssl"
    for at in linux asm asm-generic openssl/\* lmdb.h libpq-fe.h postgresql/\* mariadb/\* zookeeper nghttp2 jansson.h jansson_config.h curses.h \
        ncurses.h ncurses_dll.h unctrl.h term.h microhttpd.h hiredis; do
        to=$dir
        [[ $at != openssl/* ]] || to=$dir/openssl
        # shellcheck disable=SC2086 # some are patterns
        for path in /usr/include/$at "/usr/include/$(gcc -print-multiarch)"/$at; do
            [ ! -e "$path" ] || ln -sf "$path" "$to"
        done
    done
    grep '^ENGINE(' src/engine/engines.def >"$dir/engines.def"
    files 'src/*.c' 'cli/*.c' 'see/*.c' 'lab/draw/*.c' 'lab/play/*.c' 'lab/stage/*.c' | xargs -P "$(nproc)" -n 8 \
        musl-gcc -std=c11 -fsyntax-only -Wall -Wextra -Werror -Wno-error=cpp -D_GNU_SOURCE -DHOLDFAST_LIBEXECDIR='""' \
        -Iinclude -Isrc -Isee -Ilab -Itest/lib -Itest/redis -Itest/memcached -Itest/zookeeper -isystem "$dir"
    at=$?
    rm -rf "$dir"
    return $at
}

# What people run; headers are seen through it. Not the tests: the analyzer does not know that
# cmocka's asserts do not come back. One file at a time: with two, clang-tidy 14 mistakes the second's
# va_start() for nothing.
step_tidy() {
    [ -f build-clang/compile_commands.json ] || werror_build clang || return 1
    jq -r '.[].file' build-clang/compile_commands.json | sort -u | grep -E "^$PWD/(src|cli|see|lab|bench|examples)/" |
        xargs -r -P "$(nproc)" -n 1 clang-tidy -p build-clang --quiet 2>/dev/null
}

# Likewise; LeakSanitizer finds the leaks of tests.
step_check() {
    local dirs=()
    for dir in src cli see lab bench examples; do
        [ -n "$(files "$dir/*.c")" ] && dirs+=("$dir")
    done
    cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 -j "$(nproc)" \
        --enable=warning,performance --suppressions-list=tools/cppcheck.suppress \
        --library=posix --library=gnu -D__GNUC__=12 -D__x86_64__ -D_GNU_SOURCE -Iinclude -Isrc -Isee -Ilab -Itest/lib -Itest/redis \
        "${dirs[@]}"
}

# In tests, text in single quotes is for another shell, and variables are used across files.
step_shell() {
    files '*.sh' '*.bash' .ci/run | grep -v '^test/' | xargs -r shellcheck || return 1
    files 'test/*.sh' 'test/*.bash' 'test/*.bats' |
        xargs -r shellcheck --exclude=SC2016,SC2030,SC2031,SC2034,SC2154
}

# A page that nobody else names yet, or dates: not findings.
step_man() {
    local pages
    pages=$(files 'man/*.[1-9]')
    [ -z "$pages" ] && return 0
    # shellcheck disable=SC2086 # a list of files
    mandoc -Tlint -Wwarning $pages
}

# Not: what comes from elsewhere, pictures, Chinese, and the record of decisions, which is for developers.
step_prose() {
    git ls-files -co --exclude-standard -z -- ':!test/fuzz/corpus' ':!tools/prose.rules' ':!*.svg' ':!*.png' ':!*package-lock.json' ':!*Cargo.lock' ':!*go.sum' ':!*zh-CN*' ':!docs/decisions.md' |
        xargs -0r codespell --ignore-words=tools/spelling.ignore
    local spelled=("${PIPESTATUS[@]}")
    tools/prose.py && [ "${spelled[1]}" -eq 0 ]
}

steps=("$@")
[ $# -eq 0 ] && steps=(layout gcc clang musl tidy check shell man prose)
failed=()
for step in "${steps[@]}"; do
    start=$SECONDS
    if "step_$step"; then
        printf 'lint: %-7s ok (%d s)\n' "$step" $((SECONDS - start))
    else
        printf 'lint: %-7s FOUND SOMETHING (%d s)\n' "$step" $((SECONDS - start))
        failed+=("$step")
    fi
done

[ ${#failed[@]} -eq 0 ] || { echo "lint: failed: ${failed[*]}"; exit 1; }
