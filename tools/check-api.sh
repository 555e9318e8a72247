#!/bin/bash
# SPDX-License-Identifier: MIT
# The C interface on paper: check-api.sh BUILD [SANITIZER]
#
#   - man/man3 and docs/api are what the headers and man/api say (tools/api/main.py --check)
#   - every C block of man/api and of docs/c-api.md compiles by itself; a whole program is linked and run, with an empty store
#   - the build has a manual page for every call, which `man` finds by the name of the call
set -u

build=$(cd "$1" && pwd) || exit 1
sanitizer=${2:-}
cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-api.XXXXXX")
trap 'rm -rf "$dir"' EXIT
bad=0
wrong() {
    echo "$*" >&2
    bad=1
}

python3 -B tools/api/main.py --check || bad=1
# Not taken for a source tree.
said=$(python3 -B tools/api/main.py --chek 2>&1)
[[ $? = 64 && $said = "usage: "* ]] || wrong "tools/api/main.py --chek: no usage line, or not exit status 64: $said"

# The blocks as files: $dir/PAGE-N.c
for page in man/api/*.md docs/c-api.md; do
    name=${page##*/}
    awk -v to="$dir/${name%.md}" '
        /^```c$/ { on = 1; n++; next }
        /^```$/ { on = 0 }
        on { print > (to "-" n ".c") }' "$page"
done
programs=("$dir"/*.c)
[ ${#programs[@]} -ge 48 ] || wrong "only ${#programs[@]} examples were found"

read -ra libpq <<<"$(pkg-config --cflags libpq)"
flags=(-std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude "${libpq[@]}" ${sanitizer:+"-fsanitize=$sanitizer"})
for program in "${programs[@]}"; do
    name=${program##*/} name=${name%.c}
    if ! grep -q '^int main(' "$program"; then
        "${CC:-cc}" "${flags[@]}" -fsyntax-only "$program" || wrong "the example of $name does not compile"
        continue
    fi
    "${CC:-cc}" "${flags[@]}" -o "$dir/$name" "$program" -L"$build/lib" -lholdfast -Wl,-rpath,"$build/lib" ||
        { wrong "the program of $name does not build"; continue; }
    mkdir "$dir/$name.store"
    timeout 60 "$dir/$name" "file:$dir/$name.store" >"$dir/said" 2>&1 || { cat "$dir/said" >&2; wrong "the program of $name does not run"; }
done

# By the name of every call there is its page, or one that leads to it.
while read -r call; do
    page=$build/man/man3/$call.3
    [ -e "$page" ] || { wrong "$build/man: no page $call(3)"; continue; }
    read -r request to <"$page"
    [ "$request" != .so ] || page=$build/man/$to
    grep -qE "^\\.Nm $call( ,)?$" "$page" || wrong "$page: not the page of $call()"
done < <(sed -n '/^HF_API/s/.*[ *]\(hf_[a-z_0-9]*\)(.*/\1/p' include/holdfast/*.h)
exit $bad
