#!/bin/sh
# SPDX-License-Identifier: MIT
# Install the Debian packages that a job needs and this machine lacks: packages.sh build|test|fuzz|lint|deb|test-deb|test-fresh|docs, or
# packages.sh bindings [LANGUAGE...]
#
# It says which packages it is about to install, and installs them with apt-get as root or by a sudo
# that asks for no password. With neither it prints the command to run and fails.
# A word COMMAND:PACKAGE is a toolchain, which may have come from elsewhere: its package is not needed if there is such a command
# (or such a file, if it begins with a slash).
# "packages.sh missing JOB" never installs: it prints the command if something is missing. "packages.sh names JOB" prints all words, and asks nobody.
# Says nothing and takes no time when all are there.
set -eu

# What engines.def names, without repeats: of_engines build|test. Only the shell: the machine may be bare.
of_engines() {
    found=
    while IFS='"' read -r begin _ _ _ _ _ _ builds _ tests _; do
        case $begin in "ENGINE("*) ;; *) continue ;; esac
        [ "$1" = build ] && words=$builds || words=$tests
        for word in $words; do
            case " $found " in *" $word "*) ;; *) found="$found $word" ;; esac
        done
    done <"${0%/*}/../src/engine/engines.def"
    echo "$found"
}

build="cmake ninja-build gcc libc6-dev pkgconf libjansson-dev libncurses-dev libmicrohttpd-dev libhiredis-dev$(of_engines build)"
# The bindings that make test covers. Python is Debian's own, and so are CPython's tests of locks, whose package has Python's version in its
# name: see python_tests().
PYTHON_TESTS=libpython-testsuite
cpp="g++"
python="python3-dev python3-pip python3-setuptools python3-wheel python3-venv mypy $PYTHON_TESTS"
test="$build$(of_engines test) make libcmocka-dev bats tmux strace jq python3 util-linux procps iproute2 zsh fish mandoc bsdextrautils prometheus openssl spin $cpp $python chromium fonts-inter fonts-wqy-microhei python3-markdown-it python3-pygments python3-yaml"
fuzz="$test clang libclang-rt-dev"
# The other languages, and what makes the documents of C++.
doc="doxygen"
go="go:golang-go"
node="node:nodejs npm:npm /usr/include/node/node_api.h:libnode-dev"
java="javac:default-jdk-headless mvn:maven"
rust="cargo:cargo rustc:rustc cargo-clippy:rust-clippy rustfmt:rustfmt"
bindings="$test $doc $go $node $java $rust"
# What makes the documents' site, and what the checks of the documents read them with.
docs="python3 python3-markdown-it python3-pygments mandoc"
lint="$build libcmocka-dev jq clang clang-tidy clang-format cppcheck shellcheck mandoc codespell python3 musl-tools"
deb="$build build-essential dpkg-dev debhelper dh-python lintian libpython3-all-dev python3-all-dev python3-setuptools"
test_deb="$deb mmdebstrap python3-yaml uidmap util-linux"
test_fresh="mmdebstrap util-linux git"

job="$*"
may_install=yes
just_names=no
[ "${1:-}" != missing ] || { may_install=no; shift; }
[ "${1:-}" != names ] || { just_names=yes; shift; }
case "${1:-}" in
build) want=$build ;;
test) want=$test ;;
fuzz) want=$fuzz ;;
lint) want=$lint ;;
docs) want=$docs ;;
deb) want=$deb ;;
test-deb) want=$test_deb ;;
test-fresh) want=$test_fresh ;;
bindings)
    want=$bindings
    shift
    [ $# -eq 0 ] || want=$test
    for language; do
        case $language in
        cpp) want="$want $doc" ;;
        python) ;;
        go) want="$want $go" ;;
        node) want="$want $node" ;;
        java) want="$want $java" ;;
        rust) want="$want $rust" ;;
        *) want="$want $go $node $java $rust" ;; # all languages together
        esac
    done
    ;;
*)
    echo "usage: $0 [missing|names] build|test|fuzz|lint|deb|test-deb|test-fresh|docs|bindings [LANGUAGE...]" >&2
    exit 64
    ;;
esac

if [ $just_names = yes ]; then
    echo "$want"
    exit 0
fi
if ! command -v dpkg-query >/dev/null; then
    echo "packages: not a Debian system; these should be there: $want" >&2
    exit 0
fi

# On a machine without Python apt knows its version, once apt has lists; until then the name stays as it is.
python_tests() {
    version=$("${SYSTEM_PYTHON:-/usr/bin/python3}" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
        version=$(apt-cache depends python3 2>/dev/null | sed -n 's/^ *Depends: python\(3[.][0-9]*\)$/\1/p')
    echo "${PYTHON_TESTS%%-*}$version-${PYTHON_TESTS#*-}"
}

packages=
for word in $want; do
    case $word in
    /*:*) [ -e "${word%%:*}" ] || packages="$packages ${word#*:}" ;;
    *:*) command -v "${word%%:*}" >/dev/null || packages="$packages ${word#*:}" ;;
    "$PYTHON_TESTS") packages="$packages $(python_tests)" ;;
    *) packages="$packages $word" ;;
    esac
done
want=$packages

# shellcheck disable=SC2086 # a list of words
there=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' $want 2>/dev/null) || true
missing=
for package in $want; do
    case "
$there
" in
    *"
$package installed
"*) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

as_root="sudo "
if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif ! command -v sudo >/dev/null; then
    may_install=no
    as_root="su root -c "
elif ! sudo -n true 2>/dev/null; then
    may_install=no
fi

# For a person to type: typed WORD...
typed() {
    case $as_root in
    "su root"*) echo "$as_root'$*'" ;;
    *) echo "$as_root$*" ;;
    esac
}
case "$missing " in
*" $PYTHON_TESTS "*) lists=none ;;
*) lists=there ;;
esac
command=$(typed "apt-get install --no-install-recommends$missing")
if [ $may_install = no ]; then
    if [ $lists = none ]; then
        echo "packages: packages are missing, and apt has no lists of packages here, so their names are not known" >&2
        echo "packages: please run: $(typed apt-get update)" >&2
        echo "packages: and then: tools/packages.sh $job" >&2
        exit 1
    fi
    echo "packages: these Debian packages are missing:$missing" >&2
    echo "packages: please run: $command" >&2
    exit 1
fi

log=$(mktemp "${TMPDIR:-/tmp}/holdfast-packages.XXXXXX")
trap 'rm -f "$log"' EXIT
get() { ${as_root:+sudo -n} env DEBIAN_FRONTEND=noninteractive apt-get -y "$@" </dev/null >>"$log" 2>&1; }
failed() {
    cat "$log" >&2
    echo "packages: apt-get failed, see above. The command was: $1" >&2
    exit 1
}
if [ $lists = none ]; then
    [ -z "${HOLDFAST_UPDATED:-}" ] || { echo "packages: apt knows no package python3, also after apt-get update" >&2; exit 1; }
    get update || failed "$(typed apt-get update)"
    rm -f "$log"
    # shellcheck disable=SC2086 # a list of words
    HOLDFAST_UPDATED=yes exec "$0" $job
fi

echo "packages: about to install with ${as_root}apt-get:$missing"
# shellcheck disable=SC2086 # a list of words
install() { get install --no-install-recommends $missing; }
# The lists of a fresh machine are empty or old: ask for new ones only then, and show only the second try.
if ! install && ! { : >"$log" && get update && install; }; then
    failed "$command"
fi
