#!/bin/bash
# SPDX-License-Identifier: MIT
# The two commands of README.md on machines that have nothing but make and git: fresh.sh FOLDER [RELEASE...]
#
#   bookworm   Debian 12: as a user without rights, then `make demo` and `make test` as root. FRESH_LABELS (`unit|cli`): instead of all tests
#              those with such a label, in the plain build
#   trixie     Debian 13: `make demo`, an installation, and a little of everything
#   noble      Ubuntu 24.04: the same. Skipped if Ubuntu's archive does not answer
#   arm64      Debian 12: the product cross-compiled for arm64, and run by qemu's emulation of the processor
#
# Without RELEASE all of them. What is tried is the last commit and what has been changed since. The machine's language and terminal are not
# set, and the clone is in root's home, which other users cannot enter. FOLDER keeps the roots as tar files, the packages that apt has
# fetched, and what the last check of each root printed. Root is needed, for the mounts. They and the processes end with this script.
set -u

source=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck disable=SC1091 # a file beside this one
. "$source/test/install/root.sh"

if [ "${2:-}" != inside ]; then
    [ "$(id -u)" -eq 0 ] || { echo "fresh: this needs root: it makes roots and mounts" >&2; exit 1; }
    mkdir -p "$1"
    folder=$(cd "$1" && pwd)
    shift
    [ $# -gt 0 ] || set -- bookworm trixie noble arm64
    dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-fresh.XXXXXX")
    child=
    # All processes of a root end with the first one of its namespace, and the mounts with the last one.
    # shellcheck disable=SC2317 # a trap calls it
    gone() {
        [ -z "$child" ] || { kill -KILL "$child" 2>/dev/null; wait "$child" 2>/dev/null; }
        rm -rf --one-file-system "$dir"
    }
    trap gone EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    totals=(0 0)
    skipped=()
    for release; do
        echo "-- $release"
        base=$release
        [ "$release" != arm64 ] || base=bookworm
        packages=ca-certificates,git,make
        tar=$folder/$base.tar
        KEYRING=
        if [ "$base" = noble ]; then
            if ! /usr/lib/apt/apt-helper download-file http://archive.ubuntu.com/ubuntu/dists/noble/InRelease "$dir/answers" >/dev/null 2>&1; then
                echo "skip Ubuntu 24.04: its archive does not answer from here"
                skipped+=("$release")
                continue
            fi
            # Debian 13 has the keys of Ubuntu, Debian 12 has not. apt reads them as another user.
            keys=$folder/ubuntu.gpg
            # shellcheck disable=SC2016 # mmdebstrap runs it
            [ -s "$keys" ] || make_root "$dir/keys.tar" trixie ubuntu-keyring --customize-hook='cp "$1/usr/share/keyrings/ubuntu-archive-keyring.gpg" '"'$keys'" || exit 1
            KEYRING=$dir/ubuntu.gpg
            install -m 644 "$keys" "$KEYRING" && chmod 755 "$dir"
            rm -f "$dir/keys.tar"
        fi
        make_root "$tar" "$base" "$packages" || exit 1
        rm -f "$folder/$release.result"
        mkdir "$dir/$release"
        setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child "$0" "$folder" inside "$release" "$dir/$release" "$tar" </dev/null &
        child=$!
        wait "$child"
        child=
        rm -rf --one-file-system "${dir:?}/$release"
        if ! IFS=' ,' read -r good _ bad _ <"$folder/$release.result"; then good=0 bad=1; fi
        totals=($((totals[0] + good)) $((totals[1] + bad)))
    done
    [ ${#skipped[@]} -eq 0 ] || echo "skipped: ${skipped[*]}"
    echo "${totals[0]} passed, ${totals[1]} failed"
    [ "${totals[1]}" -eq 0 ]
    exit
fi

# ---- in the namespaces -------------------------------------------------------------------------------

folder=$1 release=$3 root=$4
log=$folder/$release.log
unpack_root "$root" "$5" "$folder/archives/$release" || exit 1
# Not the shared memory of this machine.
mount -t tmpfs tmpfs "$root/dev/shm" && mount -t sysfs -o ro sysfs "$root/sys" || exit 1

in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root bash -c "$1"; }
as_user() { chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/ada setpriv --reuid=ada --regid=ada --init-groups bash -c "cd && $1"; }
get() { in_root "DEBIAN_FRONTEND=noninteractive apt-get -y -q install --no-install-recommends $1"; }

clone() {
    git clone -q "file://$source" "$root/root/holdfast" && git -C "$source" diff --binary HEAD >"$root/root/changes" || return
    [ ! -s "$root/root/changes" ] || git -C "$root/root/holdfast" apply "$root/root/changes" || return
    git -C "$source" ls-files -z -o --exclude-standard | (cd "$source" && tar -c --null -T -) | tar -x -C "$root/root/holdfast"
}
check "clone" clone

tells() { # tells COMMAND TEXT: it fails within a minute, and says what to run
    local output status=0
    output=$(as_user "cd holdfast && timeout 60 $1" 2>&1) || status=$?
    echo "status $status: $output"
    [ $status -ne 0 ] && [ $status -ne 124 ] && [[ $output == *"please run: su root -c 'apt-get $2"* ]]
}
installed() { in_root "dpkg-query -W -f '\${Package}\n' | wc -l"; }

user() {
    in_root "useradd -m -s /bin/bash ada && cp -r /root/holdfast /home/ada && chown -R ada: /home/ada/holdfast" || exit 1
    local before
    before=$(installed)
    check "a user without rights, no lists of packages: make demo names the packages" tells "make demo" "install --no-install-recommends cmake"
    check "make test says what to run first" tells "make test" update
    in_root "apt-get -qq update"
    check "with lists: make test names the packages" tells "make test" "install --no-install-recommends cmake"
    check "and Python's own tests are among them, of the version that apt has" says "libpython3.11-testsuite" as_user "cd holdfast && make test"
    check "nothing was installed" test "$(installed)" = "$before"
    in_root "rm -rf /home/ada/holdfast /var/lib/apt/lists/*"
}

make_in() { in_root "cd /root/holdfast && make $1"; }

# each_engine HOLDFAST: every module and client library is loaded and used as far as a connection that is refused.
each_engine() {
    local url
    for url in {redis,rediss,zk,etcd,memcached}://127.0.0.1:1 {postgresql,mysql}://127.0.0.1:1/app redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3; do
        check "${url%%:*}: up to the connection" in_root "$1 --open-timeout 10s -S '$url' run -n x -- true; [ \$? -eq 69 ]"
    done
}

smoke() {
    check "make install" make_in install
    check "a command under a lock" says "token" in_root "holdfast run nightly -- sh -c 'echo token \$HOLDFAST_TOKEN'"
    check "a second one does not get it" in_root "holdfast run nightly -- env -i /usr/local/bin/holdfast run -n nightly -- true; [ \$? -eq 75 ]"
    check "doctor" says "verdict" in_root "holdfast doctor"
    check "top" says "nightly" in_root "holdfast run nightly -- holdfast top --once"
    check "the lab" says "pause" in_root "holdfast lab"
    each_engine holdfast
    check "apt install redis-server" get redis-server
    in_root "redis-server --port 0 --unixsocket /tmp/redis.sock --save '' --daemonize yes >/dev/null"
    check "a lock on Redis" says "token" in_root "holdfast -S redis+unix:///tmp/redis.sock run x -- sh -c 'echo token \$HOLDFAST_TOKEN'"
    check "a second one does not get it" in_root "holdfast -S redis+unix:///tmp/redis.sock run x -- env -i /usr/local/bin/holdfast -S redis+unix:///tmp/redis.sock run -n x -- true; [ \$? -eq 75 ]"
    check "ls shows who has it" says "1 lock" in_root "holdfast -S redis+unix:///tmp/redis.sock run deploy -- holdfast -S redis+unix:///tmp/redis.sock ls --json | grep -c deploy | sed 's/.*/1 lock/'"
    check "the C program of README.md" says "token" in_root "cd /tmp && awk '/^\`\`\`/ { on = 0 } on { print } /^\`\`\`c\$/ { on = 1 }' /root/holdfast/README.md >readme.c && cc -Wall -Wextra -Werror -o readme readme.c \$(pkg-config --cflags --libs holdfast) && ldconfig && ./readme redis+unix:///tmp/redis.sock"
    check "make uninstall" make_in uninstall
    check "nothing is left in /usr/local" not in_root "find /usr/local -name '*holdfast*' | grep ."
}

# The engines' libraries for another processor, beside the compiler for it; and an emulator, which runs what was built.
arm64() {
    local libs cross=aarch64-linux-gnu
    in_root "dpkg --add-architecture arm64 && apt-get -qq update" || exit 1
    libs=$("$source/tools/packages.sh" names build | tr ' ' '\n' | grep -- '-dev$' | grep -v '^libc6-dev$' | sed 's/$/:arm64/' | xargs)
    check "apt install the compiler, the libraries and qemu" get "cmake ninja-build pkgconf crossbuild-essential-arm64 qemu-user-static $libs"
    check "the product builds" make_in "build CMAKE_FLAGS='-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=$cross-gcc -DCMAKE_LIBRARY_ARCHITECTURE=$cross -DPKG_CONFIG_EXECUTABLE=/usr/bin/$cross-pkg-config -DHOLDFAST_TESTS=OFF -DHOLDFAST_BENCH=OFF'"
    check "it is for arm64" says "AArch64" in_root "readelf -h /root/holdfast/build/bin/holdfast"
    check "a command under a lock" says "token" in_root "cd /root/holdfast/build && qemu-aarch64-static bin/holdfast -S file:/tmp/arm run x -- sh -c 'echo token \$HOLDFAST_TOKEN'"
    each_engine "qemu-aarch64-static /root/holdfast/build/bin/holdfast"
}

case $release in
bookworm)
    user
    check "make demo" make_in demo
    if [ -n "${FRESH_LABELS:-}" ]; then
        check "make plain TEST_LABELS='$FRESH_LABELS'" make_in "plain TEST_LABELS='$FRESH_LABELS'"
    else
        check "make test" make_in test
    fi
    tail -n 1 "$log"
    ;;
arm64) arm64 ;;
*)
    check "make demo" make_in demo
    smoke
    ;;
esac
echo "$passed passed, $failed failed" | tee "$folder/$release.result"
