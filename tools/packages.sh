#!/bin/sh
# SPDX-License-Identifier: MIT
# Install the Debian packages that a job needs and this machine lacks: packages.sh build|test|lint
# Says nothing and takes no time when all are there.
set -eu

build="cmake ninja-build gcc libc6-dev liblmdb-dev libjansson-dev libhiredis-dev libssl-dev libcurl4-openssl-dev libzookeeper-st-dev libpq-dev libmariadb-dev"
test="$build postgresql mariadb-server pgbouncer memcached redis-server python3-redis openssl make libcmocka-dev bats strace jq python3 bindfs pkgconf util-linux procps zsh fish mandoc bsdextrautils spin etcd-server libzookeeper-java libslf4j-java default-jre-headless"
lint="$build libcmocka-dev jq clang clang-tidy clang-format cppcheck shellcheck mandoc"

case "${1:-}" in
build) want=$build ;;
test) want=$test ;;
lint) want=$lint ;;
*)
    echo "usage: $0 build|test|lint" >&2
    exit 64
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "packages: not a Debian system; these should be there: $want" >&2
    exit 0
fi

missing=
for package in $want; do
    state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) || state=
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    as_root="sudo -n"
    if ! $as_root true 2>/dev/null; then
        echo "packages: please install:$missing" >&2
        exit 1
    fi
fi

echo "packages: installing$missing"
install() {
    # shellcheck disable=SC2086 # both are lists of words
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        $missing </dev/null
}
# The lists of a fresh machine are empty or old: ask for new ones only then.
install >/dev/null 2>&1 || { $as_root apt-get update -qq </dev/null && install; }
