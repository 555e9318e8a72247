# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of those that read this
# How a program of bindings/LANGUAGE/examples is run: read by test.sh and bench.sh, which set `build`.
languages="cpp python go node java rust"

# program LANGUAGE NAME: the command that runs it, after the language's test.sh has built it.
program() {
    local out=$build/bindings/$1
    case $1 in
    c) echo "$build/bin/bindings/together_$2" ;;
    esac
}
