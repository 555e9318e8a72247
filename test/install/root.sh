# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Clean roots of a Debian release, and checks in them: for deb.sh and fresh.sh, which source this file.
#
# A root is made once by mmdebstrap and kept as a tar file. It is used in mount and process namespaces of its own, so that nothing is left
# of it but its directory. It has the network of this machine, and asks the archives that apt asks on this machine.

# What apt on this machine uses for Debian: archive SUITE, for example `archive -security`.
archive() {
    local codename
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Identifier: Packages' 2>/dev/null |
        awk -v suite="$codename$1" '$1 == suite { print $2; exit }'
}

# sources RELEASE: the lines of its sources.list.
sources() {
    local debian security
    case $1 in
    noble) printf 'deb http://archive.ubuntu.com/ubuntu %s main universe\n' "$1" "$1-updates" "$1-security" ;;
    *)
        debian=$(archive '') security=$(archive -security)
        printf 'deb %s %s main\n' "${debian:=http://deb.debian.org/debian}" "$1" "$debian" "$1-updates" \
            "${security:-http://deb.debian.org/debian-security}" "$1-security"
        ;;
    esac
}

# make_root TAR RELEASE PACKAGES [OPTION...]: with the packages, which are separated by commas; OPTION... for mmdebstrap. Proxies and the like
# are those of this machine. KEYRING: not that of Debian.
make_root() {
    local tar=$1 release=$2 packages=$3 options=() line keyring=${KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}
    shift 3
    [ ! -f "$tar" ] || return 0
    mkdir -p "${tar%/*}"
    while read -r line; do options+=("--aptopt=$line"); done < <(apt-config dump --no-empty | grep -E '^Acquire::(https?::|Check-Valid-Until|ForceIPv[46]|Retries)')
    echo "making a clean root ($release)"
    if ! sources "$release" | mmdebstrap --variant=apt --format=tar --keyring="$keyring" --include="$packages" "${options[@]}" "$@" \
        "$release" "$tar.new" - >"$tar.log" 2>&1; then
        tail -n 20 "$tar.log" >&2
        rm -f "$tar.new"
        return 1
    fi
    mv "$tar.new" "$tar"
}

# unpack_root DIR TAR ARCHIVES: in a mount namespace of its own. ARCHIVES keeps the packages that apt fetches.
unpack_root() {
    mount --make-rprivate /
    tar -x --numeric-owner -C "$1" --exclude='./dev/*' -f "$2" || return
    chmod 755 "$1"
    mkdir -p "$3/partial"
    mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --bind "$3" "$1/var/cache/apt/archives" || return
    printf 'APT::Keep-Downloaded-Packages "true";\nAPT::Sandbox::User "root";\n' >"$1/etc/apt/apt.conf.d/99test"
    # No service is started in a root that has no init.
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
    chmod 755 "$1/usr/sbin/policy-rc.d"
    cp /etc/resolv.conf "$1/etc/resolv.conf"
}

passed=0 failed=0
# check WHAT COMMAND...: the end of the command's output is shown if it fails. All of it is in $log.
check() {
    local what=$1
    shift
    if "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
        echo "ok   $what"
    else
        failed=$((failed + 1))
        echo "FAIL $what"
        tail -n 60 "$log" | sed 's/^/     | /'
    fi
}
# says TEXT COMMAND...: its output has the text, whatever its status.
says() {
    local text=$1 output
    shift
    output=$("$@" 2>&1)
    echo "$output"
    [[ $output == *"$text"* ]]
}
not() { ! "$@"; }
