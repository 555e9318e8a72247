#!/bin/bash
# SPDX-License-Identifier: MIT
# The Debian packages as a user meets them: deb.sh FOLDER [inside]
#
# FOLDER has the packages of `make deb`. They are installed in a clean Debian root of the release of this machine, tried there as a user
# and removed. mmdebstrap makes the root once; FOLDER/root keeps it as a tar file, and the packages that apt has fetched. The root has
# its own mounts and processes, and the network of this machine. Root is not needed, if users may have namespaces of their own.
# KEEP_ROOT=1 leaves the root where the first line of the output says.
set -u

source=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck disable=SC1091 # a file beside this one
. "$source/test/install/root.sh"
folder=$(cd "$1" && pwd)
cache=$folder/root
packages="bash-completion binutils ca-certificates gcc libc6-dev make man-db pkgconf python3-minimal python3 systemd"
# The most that `systemd-analyze security` may say of holdfast-serve.service, times ten: 0 is no exposure, 100 all of it.
EXPOSURE_MAX=15

# ---- the root ----------------------------------------------------------------------------------------

if [ "${2:-}" != inside ]; then
    # shellcheck source=/dev/null
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    base=$cache/$release-$(echo "$packages" | cksum | cut -d ' ' -f 1).tar
    if [ ! -f "$base" ]; then
        rm -f "$cache"/*.tar
        make_root "$base" "$release" "${packages// /,}" --skip=cleanup/apt/lists || exit 1
    fi
    map=()
    [ "$(id -u)" -eq 0 ] || map=(--map-root-user --map-auto)
    ROOT_TAR=$base exec unshare "${map[@]}" --mount --pid --fork --kill-child "$source/test/install/deb.sh" "$folder" inside
fi

root=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-deb.XXXXXX")
gone() {
    umount -l "$root/proc" "$root/dev" "$root/debs" "$root/var/cache/apt/archives" 2>/dev/null
    [ -n "${KEEP_ROOT:-}" ] || rm -rf --one-file-system "$root"
}
trap gone EXIT
[ -z "${KEEP_ROOT:-}" ] || echo "root: $root"
unpack_root "$root" "$ROOT_TAR" "$cache/archives" || exit 1
mkdir -p "$root/debs"
mount -t tmpfs tmpfs "$root/debs"
cp "$folder"/*.deb "$root/debs"
(cd "$root/debs" && dpkg-scanpackages -m . >Packages 2>/dev/null)
printf 'deb [trusted=yes] file:/debs ./\n' >"$root/etc/apt/sources.list.d/holdfast.list"
in_root() { chroot "$root" /usr/bin/env -i LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive HOME=/root bash -c "$1"; }
as() { chroot "$root" runuser -l "$1" -c "export LC_ALL=C.UTF-8; $2"; }
in_root 'for user in ada ben eve; do useradd -m -s /bin/bash $user || exit; done' || exit 1
in_root "apt-get -qq update -o Dir::Etc::sourcelist=/etc/apt/sources.list.d/holdfast.list -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0" || exit 1

# ---- checks ------------------------------------------------------------------------------------------

log=$root/test.log
install() { in_root "apt-get install -y --no-install-recommends $1"; }

# Everything but what apt, dpkg and the caches write for themselves.
files() {
    find "$root" -xdev \( -path "$root/proc" -o -path "$root/dev" -o -path "$root/debs" -o -path "$root/tmp" -o -path "$root/home" -o -path "$root/var/log" \
        -o -path "$root/var/cache" -o -path "$root/var/lib/dpkg" -o -path "$root/var/lib/apt" -o -path "$root/run" -o -path "$log" \) -prune -o -printf '/%P %y %m %l\n' | sort
}
files >"$root/tmp/before"

new=
install_new() {
    new=$(in_root "apt-get install -s --no-install-recommends $1" | awk '/^Inst / { print $2 }' | xargs)
    echo "new: $new"
    install "$1"
}
clients='libpq5|libmariadb|libhiredis|zookeeper|nghttp2|microhttpd'
no_client() { ! in_root "dpkg-query -W -f '\${Package}\n'" | grep -E "$clients"; }

# Every block of YAML in the documents, and the compose file: no tabs, no duplicate keys, an object each.
yaml() {
    /usr/bin/python3 - "$source"/docs/*.md "$source"/packaging/container/compose.yaml <<'END'
import re, sys, yaml

def once(loader, node, deep=False):
    keys = [loader.construct_object(key) for key, _ in node.value]
    assert len(keys) == len(set(keys)), 'a key twice: %s' % keys
    return yaml.SafeLoader.construct_mapping(loader, node, deep)

class Strict(yaml.SafeLoader):
    pass

Strict.add_constructor('tag:yaml.org,2002:map', once)
count = 0
for path in sys.argv[1:]:
    text = open(path, encoding='utf-8').read()
    for block in re.findall(r'^```yaml\n(.*?)^```', text, re.M | re.S) if path.endswith('.md') else [text]:
        count += 1
        for found in yaml.load_all(block, Strict):
            if path.endswith('kubernetes.md'):
                assert {'apiVersion', 'kind', 'metadata'} <= set(found), block
print(count)
assert count >= 6
END
}
echo "-- the command"
check "the YAML of the documents can be parsed" yaml
check "before: no client library of a server is there" no_client
check "apt install holdfast" install_new holdfast
echo "     new: $new"
check "it brings no client library of a server" no_client
check "it comes with the embedded engine, and with no other" says "lmdb" as ada "holdfast engines | grep -E '^[a-z]' && [ \$(holdfast engines | grep -cE '^[a-z]') -eq 1 ]"
check "a user runs a command under a lock" says "token 1" as ada "holdfast run nightly -- sh -c 'echo token \$HOLDFAST_TOKEN' | sed 's/token [0-9]*/token 1/'"
check "a second one is told who holds it" says "not acquired" as ada "holdfast run nightly -- env -i holdfast run -n nightly -- true"
check "holdfast ls shows the holder" says "nightly" as ada "holdfast run nightly -- holdfast ls"
check "holdfast top" says "nightly" as ada "holdfast run nightly -- holdfast top --once"
check "the store is the user's own" test -d "$root/home/ada/.local/state/holdfast"
check "nothing was made for all users" not test -e "$root/etc/holdfast" -o -e "$root/var/lib/holdfast"
check "an engine that is not there: its package is named" says "install the package holdfast-engine-redis" as ada "holdfast -S redis://127.0.0.1:1 run -n x -- true"
check "serve that is not there: its package is named" says "install the package holdfast-serve" as ada "holdfast serve --listen 127.0.0.1:0"
check "lab that is not there: its package is named" says "install the package holdfast-lab" as ada "holdfast lab"
check "faults, likewise" says "install the package holdfast-lab" as ada "holdfast faults file:/tmp/faults --minutes 1 --yes"

echo "-- documents"
pages() { in_root "for page in \$(dpkg -L $1 | grep '/man/man[1-9]/'); do [ -d \$page ] || { echo \$page; man --warnings -l \$page >/dev/null; } || exit; done"; }
count_pages() { [ "$(in_root "dpkg -L $2 | grep -c '/man/man$1/.*gz'")" -ge "$(find "$source"/man -name "*.$1" | wc -l)" ]; }
check "the manual pages of the command are there" count_pages 1 holdfast
check "and those of section 7" count_pages 7 holdfast
check "man can read them" pages holdfast
check "man holdfast-run" says "holdfast run" in_root "man holdfast-run | cat"
check "bash completes verbs" says "doctor" as ada ". /usr/share/bash-completion/bash_completion; _completion_loader holdfast; complete -p holdfast; COMP_WORDS=(holdfast do) COMP_CWORD=1 COMP_LINE='holdfast do' COMP_POINT=11; \$(complete -p holdfast | sed 's/.*-F \([^ ]*\).*/\1/') holdfast do holdfast; echo \"\${COMPREPLY[@]}\""
check "completions for zsh and fish are where these look" in_root "test -s /usr/share/zsh/vendor-completions/_holdfast -a -s /usr/share/fish/vendor_completions.d/holdfast.fish"
check "a copyright and a change log in every package" in_root "for p in \$(dpkg-query -W -f '\${Package} \${db:Status-Status}\n' '*holdfast*' | sed -n 's/ installed//p'); do test -s /usr/share/doc/\$p/copyright && ls /usr/share/doc/\$p/changelog* || exit; done"

echo "-- C"
check "apt install libholdfast-dev" install libholdfast-dev
cat >"$root/home/ada/program.c" <<'END'
#include <holdfast/holdfast.h>
#include <stdio.h>

int main(void)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_store *store;
    hf_lease *lease;
    hf_error err;

    request.name = "program";
    request.name_len = HF_CSTRING;
    if (hf_open(NULL, NULL, &store, &err) != HF_OK || hf_acquire(store, &request, &lease, &err) != HF_OK)
        return fprintf(stderr, "%s\n", err.text), 1;
    printf("token %s\n", hf_lease_token(lease) > 0 ? "yes" : "no");
    return hf_release(lease, &err) != HF_OK || hf_close(store, 0) != HF_OK;
}
END
check "a program built with pkg-config runs" says "token yes" as ada "cc -Wall -Wextra -Werror -o program program.c \$(pkg-config --cflags --libs holdfast) && ./program"
check "it is linked to the SONAME of this version" says "$("$source/tools/version.sh" --soname)" as ada "ldd program"
check "pkg-config has the version" says "$("$source/tools/version.sh")" as ada "pkg-config --modversion holdfast"
check "the examples build" as ada "cp -r /usr/share/doc/libholdfast-dev/examples mine && make -s -C mine mutex && mine/mutex file:mine/store"
check "its manual pages are there" count_pages 3 libholdfast-dev
check "and man finds calls" in_root "man -w hf_acquire hf_release hf_cancel_fire && man hf_cancel_fire | grep -q hf_cancel_open"
check "the manual page of the library" says "hf_open" in_root "man libholdfast | cat"

echo "-- Python"
check "apt install python3-holdfast" install python3-holdfast
check "with a lock" says "True" as ada "python3 -c '
import holdfast
store = holdfast.open(\"file:/home/ada/python\")
with store.lock(\"report\", wait=0) as lease:
    print(lease.token > 0)
store.close()'"
check "asyncio" says "within" as ada "python3 -c '
import asyncio, holdfast
async def main():
    store = holdfast.open(\"file:/home/ada/python\")
    async with store.lock(\"report\"):
        print(\"within\")
    store.close()
asyncio.run(main())'"
check "it uses the library of the system" says "-gnu/libholdfast.so" as ada "ldd /usr/lib/python3/dist-packages/holdfast/*.so | grep holdfast"

echo "-- engines"
check "still no client library of a server" no_client
url() {
    case $1 in
    lmdb) echo file:/nowhere/at/all ;;
    redlock) echo redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3 ;;
    postgres) echo postgresql://127.0.0.1:1/app ;;
    mariadb) echo mariadb://127.0.0.1:1/app ;;
    zookeeper) echo zk://127.0.0.1:1 ;;
    *) echo "$1://127.0.0.1:1" ;;
    esac
}
client() {
    case $1 in
    postgres) echo libpq ;;
    mariadb) echo libmariadb ;;
    zookeeper) echo libzookeeper ;;
    etcd) echo libnghttp2 ;;
    redis | redlock | memcached) echo libc ;;
    esac
}
# The scheme is known, and the answer is one about a connection: 69.
tried() {
    local output
    output=$(as ada "holdfast --open-timeout 3s -S '$1' run -n x -- true; echo status \$?" 2>&1)
    echo "$output"
    [[ $output == *"status 69"* && $output != *"not installed"* ]]
}
mapfile -t engines < <(sed -n 's/^ENGINE(\([a-z0-9]*\),.*/\1/p' "$source/src/engine/engines.def")
for engine in "${engines[@]}"; do
    [ "$engine" != lmdb ] || continue
    check "$engine: without its package" says "install the package holdfast-engine-$engine" as ada "holdfast -S '$(url "$engine")' run -n x -- true"
    check "apt install holdfast-engine-$engine" install "holdfast-engine-$engine"
    check "$engine: its client library" says "$(client "$engine")" in_root "ldd /usr/lib/*/holdfast/$engine.so | grep -F $(client "$engine")"
    check "$engine: holdfast engines $engine" says "$engine" as ada "holdfast engines $engine"
    check "$engine: up to the connection" tried "$(url "$engine")"
done
check "TLS: up to the connection" tried rediss://127.0.0.1:1
in_root 'mv /usr/lib/*/holdfast/tls.so /root'
check "TLS: without its module" says "install the package holdfast-tls" as ada "holdfast -S rediss://127.0.0.1:1 run -n x -- true"
in_root 'mv /root/tls.so /usr/lib/*/holdfast'

echo "-- serve"
check "apt install holdfast-serve" install holdfast-serve
answers() {
    as ada 'mkfifo out; holdfast run seen -- sleep 60 & holder=$!
        until holdfast show seen --check -q; [ $? -eq 75 ]; do sleep 0.05; done
        holdfast serve --listen 127.0.0.1:0 >out 2>&1 & server=$!
        exec 3<out; read -r line <&3; echo "$line"
        url=$(grep -o "http://[0-9.:]*" <<<"$line")
        python3 -c "
import sys, urllib.request
for path, text in ((\"/\", \"<html\"), (\"/metrics\", \"# HELP\"), (\"/api/v1/stores/0/names\", \"seen\")):
    body = urllib.request.urlopen(sys.argv[1] + path).read().decode()
    print(path, text in body)
    if text not in body: print(body[:300]); sys.exit(1)
" "$url"; status=$?; kill $server $holder; wait; exit $status'
}
check "it answers on loopback" answers
check "alert rules, dashboard and API are there" in_root "test -s /usr/share/holdfast/alerts.yml -a -s /usr/share/holdfast/grafana.json -a -s /usr/share/holdfast/openapi.json"

echo "-- systemd"
unit=holdfast-serve.service
# A line that is ignored is a mistake, too, and no reason for systemd-analyze to fail.
verify() { in_root "says=\$(systemd-analyze verify --man=no $1 2>&1); status=\$?; echo \"\$says\"; [ \$status -eq 0 ] && [ -z \"\$says\" ]"; }
check "the unit is installed, and not enabled" in_root "test -s /lib/systemd/system/$unit && ! find /etc/systemd -name '$unit' | grep ."
check "systemd-analyze verify" verify "/lib/systemd/system/$unit"
check "systemd-analyze security: at most $EXPOSURE_MAX of 100" says "Overall exposure level" in_root "systemd-analyze security --offline=true --threshold=$EXPOSURE_MAX /lib/systemd/system/$unit | tail -n 1 && exit \${PIPESTATUS[0]}"
sed 's/^/     /' "$log"
examples=/usr/share/doc/holdfast/examples/systemd
in_root "mkdir -p /run/systemd/system/$unit.d && cp $examples/serve-*.conf /run/systemd/system/$unit.d"
check "the drop-ins fit the unit" verify "/lib/systemd/system/$unit"
in_root "cp $examples/*.service $examples/*.timer /run/systemd/system; for f in backup scheduler; do printf '#!/bin/sh\n' >/usr/local/bin/\$f; chmod +x /usr/local/bin/\$f; done"
check "the examples of jobs" verify "/run/systemd/system/nightly.service /run/systemd/system/nightly.timer /run/systemd/system/leader.service"
in_root "sed -i 's/^Restart=.*/Restart=perhaps/' /run/systemd/system/leader.service"
check "and a mistake in one would be seen" not verify /run/systemd/system/leader.service
in_root "rm -rf /run/systemd/system /usr/local/bin/backup /usr/local/bin/scheduler"
check "the group of a store" in_root "systemd-sysusers $examples/group-store.sysusers && getent group holdfast"
check "the directory of a store" says "2770 root:holdfast" in_root "systemd-tmpfiles --create $examples/group-store.tmpfiles && stat -c '%a %U:%G' /var/lib/holdfast-group"
check "its members share locks" says "not acquired" in_root "gpasswd -a ada holdfast >/dev/null && gpasswd -a ben holdfast >/dev/null
    mkfifo -m 666 /tmp/held; runuser -l ada -c 'holdfast -S file:/var/lib/holdfast-group?shared=group run deploy -- sh -c \"echo yes >/tmp/held; sleep 60\"' & 
    read -r _ </tmp/held; runuser -l ben -c 'holdfast -S file:/var/lib/holdfast-group?shared=group run -n deploy -- true'; status=\$?; kill \$!; exit \$status"
check "and nobody else" says "denied" as eve "holdfast -S 'file:/var/lib/holdfast-group?shared=group' run -n deploy -- true"
check "the default store is still the user's own" says "/home/ada/.local/state/holdfast" as ada "holdfast doctor"
check "make it the default of all" in_root "mkdir /etc/holdfast && echo 'file:/var/lib/holdfast-group?shared=group' >/etc/holdfast/store"
check "now it is" says "/var/lib/holdfast-group" as ada "holdfast doctor"

echo "-- the lab, and all together"
check "apt install holdfast-lab" install holdfast-lab
check "holdfast lab lists its experiments" says "pause" as ada "holdfast lab"
upgraded() {
    as ada 'mkfifo go on; holdfast -S file:/home/ada/up run kept -- sh -c "echo >go; read x <on; echo kept" & read -r x <go
        echo >up.running; until [ -e up.done ]; do sleep 0.1; done
        holdfast -S file:/home/ada/up run -n kept -- true; [ $? -eq 75 ] || exit 1
        echo >on; wait $!' &
    until [ -e "$root/home/ada/up.running" ]; do sleep 0.1; done
    in_root "apt-get install -y --reinstall libholdfast0.2 holdfast holdfast-engine-lmdb" || { kill $!; return 1; }
    touch "$root/home/ada/up.done"
    wait $!
}
check "a lock is held across a reinstallation of the library, the engine and the command" upgraded
# The extension for Python is built as Debian builds these; the flags of cmake/hardening.cmake are those of the C build.
rm -rf "$root/stage" && mkdir "$root/stage"
for deb in "$folder"/*.deb; do [[ $deb == *-dbgsym_* ]] || dpkg -x "$deb" "$root/stage"; done
rm -r "$root/stage/usr/lib/python3"
check "the files are hardened" "$source/test/install/hardening.sh" "$root/stage/usr"
rm -rf "$root/stage"

echo "-- remove, purge"
all=$(in_root "dpkg-query -W -f '\${Package} \${db:Status-Status}\n' '*holdfast*' | sed -n 's/ installed//p'" | xargs)
check "all packages of debian/control were tried" test "$(wc -w <<<"$all")" -eq "$(grep -c '^Package: ' "$source/debian/control")"
check "remove" in_root "apt-get remove -y $all"
check "a store stays, and what the administrator wrote" in_root "test -e /var/lib/holdfast-group/store -a -e /etc/holdfast/store"
check "purge" in_root "apt-get purge -y --auto-remove $all"
in_root "rm -r /etc/holdfast /var/lib/holdfast-group && groupdel holdfast"
files >"$root/tmp/after"
left() {
    diff "$root/tmp/before" "$root/tmp/after" | grep '^[<>]' | grep -vE ' /(etc/(group|gshadow)-?|etc/ld.so.cache|var/lib/(systemd|man-db|python).*|usr/(lib|share)/python3.*__pycache__.*) '
}
check "nothing is left, and nothing else is gone" not left

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
