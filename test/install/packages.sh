#!/bin/bash
# SPDX-License-Identifier: MIT
# What tools/packages.sh does on machines that this one is not: packages.sh
#
# dpkg-query, apt-get, apt-cache, sudo and id are small scripts in a directory of their own. The PATH has these and the
# few real tools that are named below, so nothing is installed here. The last part asks the real dpkg and apt of this machine.
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
    for tool in sh true env grep sed mktemp cat rm make; do ln -s "$(type -P $tool)" "$dir/bin/$tool"; done
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

# A bare machine has no Python, and packages have its version in their names.
export SYSTEM_PYTHON=/nonexistent/python3
knows_python() { stub apt-cache "$1 printf 'python3\n  PreDepends: python3-minimal\n  Depends: python3.99\n  Suggests: python3-doc\n'"; }
machine 0 'libpython3.99-testsuite'
knows_python ''
packages test
expect 'no Python: apt knows its version' called '^apt-get -y install --no-install-recommends libpython3.99-testsuite$'

machine 0 cmake
knows_python "grep -q update $dir/calls || exit 100;"
stub dpkg-query ''
packages test
expect 'no Python, no lists: asks for lists' ended 0
expect 'no Python, no lists: once, and first' [ "$(sed -n '1s/.*\(update\)$/\1/p;2s/.* install .*libpython3.99-testsuite.*/install/p' "$dir/calls" | xargs)" = 'update install' ]
expect 'no Python, no lists: no name without a version' not called 'libpython-testsuite\|libpython3-testsuite\|libpython3[.]-testsuite'

machine 0 cmake
stub apt-cache ''
stub dpkg-query ''
packages test
expect 'apt has no Python at all: fails' ended 1
expect 'apt has no Python at all: says so' said 'apt knows no package python3'
expect 'apt has no Python at all: asks for lists once' [ "$(grep -c update "$dir/calls")" -eq 1 ]

machine 1000 cmake
stub apt-cache ''
stub dpkg-query ''
packages test
expect 'no Python, no lists, no rights: fails' ended 1
expect 'no Python, no lists, no rights: the first command' said "please run: su root -c 'apt-get update'"
expect 'no Python, no lists, no rights: and what then' said 'and then: tools/packages.sh test'
expect 'no Python, no lists, no rights: nothing is installed' not called .
unset SYSTEM_PYTHON

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

# Every package that a machine with nothing would be asked for exists, as far as the lists of this machine know.
if ! apt-cache depends python3 2>/dev/null | grep -q 'Depends: python3[.]'; then
    echo 'packages: apt has no lists here: what a bare machine would install is not checked'
    exit $bad
fi
bare=$dir/bare
mkdir -p "$bare/dpkg" "$bare/bin"
for tool in sh env grep sed mktemp cat rm dpkg-query apt-cache; do
    path=$(type -P $tool) || { echo "packages: no $tool here: what a bare machine would install is not checked"; exit $bad; }
    ln -s "$path" "$bare/bin/$tool"
done
stub id 'echo 1000'
mv "$dir/bin/id" "$bare/bin"
all=
for job in bindings fuzz lint docs deb test-deb test-fresh; do # make build and make test are part of the first
    output=$(SYSTEM_PYTHON=/nonexistent/python3 DPKG_ADMINDIR=$bare/dpkg PATH=$bare/bin "$bare/bin/sh" "$source/tools/packages.sh" missing $job 2>&1)
    wanted=$(sed -n 's/^packages: these Debian packages are missing: //p' <<<"$output")
    expect "$job: a bare machine lacks packages" [ -n "$wanted" ]
    all="$all $wanted"
done
# shellcheck disable=SC2086 # a list of words
unknown=$(LC_ALL=C apt-cache policy $all | awk '/^[^ ]/ { name = $1 } /^  Candidate: [^(]/ { known[name] = 1 }
    END { n = split(wanted, words, " "); for (i = 1; i <= n; i++) if (!known[words[i] ":"]) print words[i] }' wanted="$all" | sort -u | xargs)
expect "these packages do not exist: $unknown" [ -z "$unknown" ]
exit $bad
