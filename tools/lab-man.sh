#!/bin/bash
# SPDX-License-Identifier: MIT
# Writes the list of experiments into holdfast-lab(1): lab-man.sh HOLDFAST [--check]
# HOLDFAST is the built command. With --check nothing is written: exit status 1 if the list is another one.
set -eu
page=$(dirname "$0")/../man/holdfast-lab.1
list=$("$1" lab --lang en) || exit 0 # built without the lab: there is nothing to compare
wanted=$(awk -v list="$list" '
    /^\.\\" The list begins here/ {
        print
        print ".Bl -tag -width Ds -compact"
        count = split(list, lines, "\n")
        for (i = 1; i <= count; i++) {
            name = lines[i]
            sub(/ .*/, "", name)
            sub(/^[^ ]+ +/, "", lines[i])
            print ".It Cm " name
            print lines[i] "."
        }
        print ".El"
        skip = 1
    }
    /^\.\\" The list ends here/ { skip = 0 }
    !skip' "$page")
if [ "${2:-}" = --check ]; then
    [ "$wanted" = "$(cat "$page")" ] && exit 0
    echo "man/holdfast-lab.1: its list is not that of \`holdfast lab\`: run tools/lab-man.sh $1" >&2
    exit 1
fi
printf '%s\n' "$wanted" >"$page"
