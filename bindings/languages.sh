# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of those that read this
# How a program of bindings/LANGUAGE/examples is run: read by test.sh and bench.sh, which set `build`.
languages="cpp python go node java rust"

# program LANGUAGE NAME: the command that runs it, after the language's test.sh has built it. Words are quoted: paths may have spaces.
program() {
    local out=$build/bindings/$1 here=$PWD/bindings/$1
    local words=()
    case $1 in
    c) words=("$build/bin/bindings/together_$2") ;;
    cpp) words=("$out/$2") ;;
    python) words=("$out/venv/bin/python" -B "$here/examples/$2.py") ;;
    go) words=("$out/bin/$2") ;;
    node) words=(node "$here/examples/$2.mjs") ;;
    java) words=("$here/examples/run.sh" "$2") ;;
    rust) words=("$out/debug/examples/$2") ;;
    esac
    [ "$1 $2" != "rust bench" ] || words=("$out/release/examples/bench")
    printf '%q ' "${words[@]}"
}
