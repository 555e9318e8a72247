#!/bin/bash
# SPDX-License-Identifier: MIT
# Install into a directory, move it, and use it from there: install.sh BUILD
set -eu

build=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-install.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "install: $*" >&2; exit 1; }

DESTDIR=$dir/stage cmake --install "$build" >"$dir/log" || { cat "$dir/log"; fail "cmake --install"; }
prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build/CMakeCache.txt")

# Everything is there.
cd "$dir/stage$prefix"
soname=$("$source/tools/version.sh" --soname)
lib=$(find . -name "$soname" -printf '%h')
[ -n "$lib" ] || fail "no $soname"
readelf -d "$lib/libholdfast.so" | grep -qF "soname: [$soname]" || fail "libholdfast.so has another SONAME than $soname"
for file in bin/holdfast "$lib/libholdfast.so" "$lib/holdfast/lmdb.so" "$lib/holdfast/redis.so" "$lib/holdfast/redlock.so" "$lib/holdfast/memcached.so" include/holdfast/holdfast.h include/holdfast/primitives.h include/holdfast/redis.h include/holdfast/observe.h \
    "$lib/pkgconfig/holdfast.pc" "$lib/cmake/Holdfast/HoldfastConfig.cmake"; do
    [ -e "$file" ] || fail "$file is missing"
done
for page in "$source"/man/*.[1-9]; do
    [ ! -e "$page" ] || [ -e "share/man/man${page##*.}/${page##*/}" ] || fail "$page is missing"
done
while read -r call; do
    [ -e "share/man/man3/$call.3" ] || fail "no manual page $call(3)"
done < <(sed -n '/^HF_API/s/.*[ *]\(hf_[a-z_0-9]*\)(.*/\1/p' "$source"/include/holdfast/*.h)
[ -e share/man/man3/libholdfast.3 ] || fail "no manual page libholdfast(3)"
[ ! -e "$dir/stage/var" ] || fail "something outside of the prefix: $(find "$dir/stage/var")"
open_to_all=$(find "$dir/stage" ! -type l -perm /0002)
[ -z "$open_to_all" ] || fail "others may write to: $open_to_all"

[ ! -e libexec/holdfast/holdfast-bench ] || fail "the bench is installed"
[ -x libexec/holdfast/holdfast-top ] || fail "holdfast-top is missing"
[ -x libexec/holdfast/holdfast-faults ] || fail "holdfast-faults is missing"

# Nothing of ours leaks into other programs, and nothing remembers where it was built.
for file in bin/holdfast "$lib/libholdfast.so" "$lib/holdfast/lmdb.so" "$lib/holdfast/redis.so" "$lib/holdfast/redlock.so" "$lib/holdfast/memcached.so"; do
    if readelf -d "$file" | grep -E 'R(UN)?PATH' | grep -qF "$build"; then
        fail "$file has the build directory in its path"
    fi
done
exported=$(nm -D --defined-only "$lib/libholdfast.so" | awk '{ print $3 }' | grep -Ev '^(hfi?_|HOLDFAST_)' || true)
[ -z "$exported" ] || fail "libholdfast.so also exports: $exported"

# The libraries of an engine are needed by that engine only, and the lab's by the lab only.
needs() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\.so.*/\1/p' | sort | xargs; }
for file in bin/holdfast "$lib/libholdfast.so" "$lib/holdfast/lmdb.so" "$lib/holdfast/memcached.so"; do
    case " $(needs "$file") " in
    *hiredis* | *libssl* | *libcrypto*) fail "$file needs more than it should: $(needs "$file")" ;;
    esac
done
# Neither does Redis without TLS need OpenSSL, which takes longer to load than a lock takes.
for pair in tls:libssl tls:libcrypto; do
    case " $(needs "$lib/holdfast/${pair%:*}.so") " in
    *" ${pair#*:} "*) ;;
    *) fail "${pair%:*}.so is not linked with ${pair#*:}" ;;
    esac
done
case " $(needs "$lib/holdfast/redis.so") " in
*hiredis* | *libssl* | *libcrypto*) fail "redis.so needs more than it should: $(needs "$lib/holdfast/redis.so")" ;;
esac
for file in "$lib"/holdfast/*.so; do
    exported=$(nm -D --defined-only "$file" | awk '{ print $3 }' | grep -Ev '^hfi_(engine|tls)_entry' || true)
    [ -z "$exported" ] || fail "$file also exports: $exported"
done

# Moved elsewhere it still works: everything is found relative to everything else.
mv "$dir/stage$prefix" "$dir/moved"
"$source/test/install/hardening.sh" "$dir/moved" || fail "the installed files are not hardened"
mkdir "$dir/store"
"$dir/moved/bin/holdfast" -S "file:$dir/store" run x -- true || fail "the installed command"
# shellcheck disable=SC2016 # for the shell that has a server
"$build/bin/test/with_server" redis sh -c '"$0" -S "redis://127.0.0.1:$HOLDFAST_TEST_PORT" run x -- true' \
    "$dir/moved/bin/holdfast" || fail "the installed command, on a Redis server"

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
        hf_acquire(store, &request, &lease, &err) != HF_OK || hf_lease_token(lease) == 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    return hf_release(lease, &err) != HF_OK || hf_close(store, 0) != HF_OK;
}
END

export PKG_CONFIG_PATH=$dir/moved/${lib#./}/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs holdfast)"
cc "$dir/program.c" "${flags[@]}" -Wl,-rpath,"$dir/moved/${lib#./}" -o "$dir/by-pkg-config"
"$dir/by-pkg-config" "file:$dir/store" || fail "the program built with pkg-config"
[ "$(pkg-config --modversion holdfast)" = "$("$dir/moved/bin/holdfast" --version | grep -o '[0-9.]*$')" ] ||
    fail "pkg-config has another version than the command"

mkdir "$dir/project"
cat >"$dir/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(Holdfast 0.2 REQUIRED)
add_executable(user ../program.c)
target_link_libraries(user PRIVATE Holdfast::holdfast)
END
if ! { cmake -S "$dir/project" -B "$dir/project/build" -DCMAKE_PREFIX_PATH="$dir/moved" &&
    cmake --build "$dir/project/build"; } >"$dir/log"; then
    cat "$dir/log"
    fail "find_package"
fi
"$dir/project/build/user" "file:$dir/store" || fail "the program built with find_package"

# The installed examples build against what is installed.
cp -r "$dir/moved/share/doc/holdfast/examples" "$dir/ex amples"
make -s -C "$dir/ex amples" CFLAGS=-Werror LDFLAGS="-Wl,-rpath,'$dir/moved/${lib#./}'" >"$dir/log" 2>&1 || { cat "$dir/log"; fail "the examples"; }
"$dir/ex amples/mutex" "file:$dir/store" >/dev/null || fail "an example"

# And all of it can be taken away again.
DESTDIR="$dir/once more" cmake --install "$build" >"$dir/log" || { cat "$dir/log"; fail "a second cmake --install"; }
[ -n "$(find "$dir/once more" -name libholdfast.so)" ] || fail "the second cmake --install put nothing there"
cp "$build/install_manifest.txt" "$dir"
"$source/tools/uninstall.sh" "$dir" "$dir/once more" || fail "uninstall"
left=$(find "$dir/once more" ! -type d -o -iname '*holdfast*')
[ -z "$left" ] || fail "uninstall left: $left"
