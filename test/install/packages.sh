#!/bin/bash
# SPDX-License-Identifier: MIT
# What tools/packages.sh does on machines that this one is not: packages.sh
#
# dpkg-query, apt-get, sudo and id are small scripts in a directory of their own. The PATH has these and the
# few real tools that are named below, so nothing is installed here.
set -u

source=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-packages-test.XXXXXX")
trap 'rm -rf "$dir"' EXIT
bad=0

stub() { printf '#!/bin/sh\n%s\n' "$2" >"$dir/bin/$1"; chmod +x "$dir/bin/$1"; }

# machine UID MISSING-PACKAGE...: a Debian machine, its user, and what is not installed.
machine() {
    local uid=$1 tool
    shift
    rm -rf "${dir:?}/bin"
    mkdir "$dir/bin"
    : >"$dir/calls"
    for tool in sh true env grep mktemp cat rm make; do ln -s "$(type -P $tool)" "$dir/bin/$tool"; done
    stub id "echo $uid"
    stub dpkg-query "for p in \"\$@\"; do case \" -W $* \" in *\" \$p \"*) ;; *) echo \"\$p installed\" ;; esac; done; [ -z '$*' ]"
    stub apt-get "echo apt-get \"\$@\" >>$dir/calls"
}
with_sudo() { stub sudo "[ \"\$1\" = -n ] || { echo 'sudo: asked for a password' >&2; exit 1; }; shift; echo sudo \"\$@\" >>$dir/calls; exec \"\$@\""; }
with_sudo_that_asks() { stub sudo 'exit 1'; }

packages() { output=$(PATH=$dir/bin "$dir/bin/sh" "$source/tools/packages.sh" "$@" 2>&1); status=$?; }
expect() {
    local what=$1
    shift
    "$@" && return
    echo "packages: $what: status $status, said: $output; called: $(cat "$dir/calls")" >&2
    bad=1
}
# shellcheck disable=SC2317 # called by expect
said() { [[ $output == *"$1"* ]]; }
# shellcheck disable=SC2317
called() { grep -q -- "$1" "$dir/calls"; }
# shellcheck disable=SC2317
ended() { [ "$status" -eq "$1" ]; }
# shellcheck disable=SC2317
not() { ! "$@"; }

machine 1000
packages build
expect 'all are there: silent' [ "$status$output" = 0 ]
expect 'all are there: nothing is installed' not called .

machine 0 golang-go g++
stub go :
packages missing bindings
expect 'a toolchain from elsewhere needs no package' not said golang-go
expect 'what is a package is missing' said 'g++'
rm "$dir/bin/go"
packages missing bindings
expect 'a toolchain that is not there needs one' said golang-go
packages missing test
expect 'make test needs C++, and no Go' said 'g++'
expect 'make test needs C++, and no Go' not said golang-go
packages missing bindings python
expect 'one language: not the toolchain of another' not said golang-go
packages missing bindings python together
expect 'together: all toolchains' said golang-go

machine 0 cmake liblmdb-dev
packages build
expect 'as root: installs' ended 0
expect 'as root: says what and by what' said 'about to install with apt-get: cmake liblmdb-dev'
expect 'as root: just these' called '^apt-get -y install --no-install-recommends cmake liblmdb-dev$'

machine 0 cmake
stub apt-get "echo apt-get \"\$@\" >>$dir/calls; [ \"\$2\" = update ] || grep -q update $dir/calls"
packages build
expect 'old lists: asks for new ones' ended 0
expect 'old lists: and tries again' [ "$(grep -c install "$dir/calls")" -eq 2 ]

machine 0 cmake
stub apt-get "echo 'E: the disk is full' >&2; exit 100"
packages build
expect 'apt-get fails: so do we' ended 1
expect 'apt-get fails: its words are shown' said 'E: the disk is full'
expect 'apt-get fails: and the command' said 'apt-get install --no-install-recommends cmake'

machine 1000 cmake
with_sudo
packages build
expect 'with sudo: installs' ended 0
expect 'with sudo: says so' said 'about to install with sudo apt-get: cmake'
expect 'with sudo: by sudo' called '^sudo env .*apt-get -y install --no-install-recommends cmake$'

machine 1000 cmake liblmdb-dev
with_sudo_that_asks
packages build
expect 'sudo wants a password: fails' ended 1
expect 'sudo wants a password: the one command' said 'please run: sudo apt-get install --no-install-recommends cmake liblmdb-dev'
expect 'sudo wants a password: nothing is installed' not called apt-get

machine 1000 cmake liblmdb-dev
packages build
expect 'no sudo: fails' ended 1
expect 'no sudo: the one command' said "please run: su root -c 'apt-get install --no-install-recommends cmake liblmdb-dev'"
expect 'no sudo: nothing is installed' not called apt-get

machine 0 cmake
packages missing build
expect 'missing: never installs' ended 1
expect 'missing: the one command' said 'please run: apt-get install --no-install-recommends cmake'
expect 'missing: nothing is installed' not called apt-get

machine 0
rm "$dir/bin/dpkg-query"
packages build
expect 'not Debian: goes on' ended 0
expect 'not Debian: says what is needed' said 'not a Debian system'

# make build installs nothing, and says the same instead of "cmake: not found".
machine 1000 cmake
with_sudo
output=$(cd "$source" && PATH=$dir/bin "$dir/bin/make" --no-print-directory build BUILD="$dir/build" 2>&1)
status=$?
expect 'make build: fails' not ended 0
expect 'make build: the one command' said 'please run: sudo apt-get install --no-install-recommends cmake'
expect 'make build: no other words first' [ "${output:0:9}" = 'packages:' ]
expect 'make build: nothing is installed' not called apt-get

# make defines a LINT of its own ("lint"), which was taken for a step.
machine 0
output=$(cd "$source" && env -u LINT -u MAKEFLAGS PATH="$dir/bin" "$dir/bin/make" --no-print-directory -n lint 2>&1)
status=$?
expect 'make lint: all steps' [ "${output##*tools/lint.sh}" = ' ' ]
exit $bad
