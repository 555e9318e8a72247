#!/bin/bash
# SPDX-License-Identifier: MIT
# A libholdfast with its engines compiled in, and no module anywhere: static.sh BUILD
# BUILD is a build with tests, for its tools.
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-static.XXXXXX")
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/store"

engines=$(sed -n 's/^ENGINE(\([a-z0-9]*\),.*/\1/p' "$source/src/engine/engines.def" | paste -sd ';')
cmake -S "$source" -B "$dir/a build" -G Ninja "-DHOLDFAST_STATIC_ENGINES=$engines" -DHOLDFAST_TESTS=OFF \
    -DHOLDFAST_BENCH=OFF -DCMAKE_INSTALL_PREFIX="$dir/nowhere" >/dev/null
cmake --build "$dir/a build" --target product >"$dir/log" || { cat "$dir/log"; exit 1; }

if [ -e "$dir/a build/lib/holdfast" ]; then
    echo "static: there is a module all the same" >&2
    exit 1
fi
"$source/test/install/hardening.sh" "$dir/a build" 2
# The path of the build has a space in it: the installed files must work all the same.
cmake --install "$dir/a build" --prefix "$dir/a place" >"$dir/log" || { cat "$dir/log"; exit 1; }
[ -s "$dir/a place/share/bash-completion/completions/holdfast" ]
"$dir/a build/bin/holdfast" -S "file:$dir/store" run x -- true

# And libholdfast.a, with which a program needs nothing of ours at run time: found by pkg-config --static.
cat >"$dir/program.c" <<'END'
#include <holdfast/holdfast.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_store *store;
    hf_lease *lease;
    hf_error err;

    request.name = "job";
    request.name_len = HF_CSTRING;
    if (argc != 2 || hf_open(argv[1], NULL, &store, &err) != HF_OK ||
        hf_acquire(store, &request, &lease, &err) != HF_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    return hf_release(lease, &err) != HF_OK || hf_close(store, 0) != HF_OK;
}
END
pc=$(find "$dir/a place" -name holdfast.pc -printf '%h')
declare -a flags=()
eval "flags=($(PKG_CONFIG_PATH=$pc pkg-config --static --cflags --libs holdfast))"
cc "$dir/program.c" "${flags[@]/#-lholdfast/-l:libholdfast.a}" -o "$dir/program"
if ldd "$dir/program" | grep -q libholdfast; then
    echo "static: the program still needs libholdfast.so" >&2
    exit 1
fi
"$dir/program" "file:$dir/store"
# shellcheck disable=SC2016 # for the shell that has a server
"$1/bin/test/with_server" redis sh -c '"$0" "redis://127.0.0.1:$HOLDFAST_TEST_PORT"' "$dir/program"
# shellcheck disable=SC2016 # likewise
"$1/bin/test/with_server" redis -t sh -c '"$0" "$HOLDFAST_TEST_URL"' "$dir/program"

# shellcheck disable=SC2016 # for the shell that has a server
"$1/bin/test/with_server" redis sh -c '"$0" -S "redis://127.0.0.1:$HOLDFAST_TEST_PORT" run x -- true' \
    "$dir/a build/bin/holdfast"
# shellcheck disable=SC2016 # likewise
"$1/bin/test/with_server" memcached sh -c '"$0" -S "$HOLDFAST_TEST_URL" run x -- true' "$dir/a build/bin/holdfast"
# shellcheck disable=SC2016 # the same
"$1/bin/test/with_server" etcd sh -c '"$0" -S "etcd://127.0.0.1:$HOLDFAST_TEST_PORT" run x -- true' \
    "$dir/a build/bin/holdfast"
# shellcheck disable=SC2016
"$1/bin/test/with_server" redis -R 3 sh -c '"$0" -S "${HOLDFAST_TEST_URL%%\?*}" run x -- true' "$dir/a build/bin/holdfast"
# shellcheck disable=SC2016
"$1/bin/test/with_server" postgres sh -c '"$0" -S "${HOLDFAST_TEST_URL%%\?*}" run x -- true' "$dir/a build/bin/holdfast"
# shellcheck disable=SC2016
"$1/bin/test/with_server" mariadb sh -c '"$0" -S "${HOLDFAST_TEST_URL%%\?*}" run x -- true' "$dir/a build/bin/holdfast"
