#!/bin/bash
# SPDX-License-Identifier: MIT
# What engines cannot do, as the command says it, in the manual and in docs/promises.md: limits.sh HOLDFAST [--write] [DIR]
#
# The parts between "limits: begin" and "limits: end" are made of `holdfast engines --matrix`, whose sentences are in the tables of the
# engines (struct hfi_promises). Without --write: exit code 1, and the difference, if they are not what the command says. A build
# without all engines of src/engine/engines.def says nothing.
set -u
holdfast=$(realpath "$1") || exit 1
write=
[ "${2:-}" != --write ] || { write=1; shift; }
cd "${2:-$(dirname "$0")/..}" || exit 1

matrix=$("$holdfast" engines --matrix --json) || exit 1
engines=$(grep -cE '^ENGINE\(' src/engine/engines.def)
[ "$(jq '[.matrix[] | select(.choice == "")] | length' <<< "$matrix")" = "$engines" ] || exit 0

# What has the same reason is one item, with all engines and modes that give it; in the order of the command.
manual() {
    jq -r '
        [.matrix | to_entries[] | .key as $at | .value
            | ((.engine | split("-")[0]) + (if .choice == "" then "" else " " + .choice end)) as $mode
            | .why_not | to_entries | group_by(.value)[] | { at: $at, mode: $mode, what: map(.key), why: .[0].value }]
        | group_by([.what, .why]) | sort_by(map(.at))[]
        | ".It " + (.[0].what | join(", ")), (map(.mode) | join(", ")) + ": " + .[0].why + "."' <<< "$matrix"
}

table() {
    echo '```'
    "$holdfast" engines --matrix | awk '/^$/ && ++blank == 2 { exit } { print }' | sed 's/ *$//'
    echo '```'
}

# The file with the part replaced by standard input.
replaced() {
    awk -v part="$(cat)" '/limits: end/ { on = 0 } !on { print } /limits: begin/ { print part; on = 1 }' "$1"
}

bad=0
for file in man/holdfast-engines.7 docs/promises.md; do
    grep -q 'limits: begin' "$file" || { echo "$file: no part for what engines cannot do" >&2; bad=1; continue; }
    case $file in man/*) part=$(manual) ;; *) part=$(table) ;; esac
    if [ -n "$write" ]; then
        replaced "$file" <<< "$part" > "$file.new" && cat "$file.new" > "$file" && rm "$file.new"
    elif ! replaced "$file" <<< "$part" | diff -u "$file" - >&2; then
        echo "$file: not what \`holdfast engines --matrix\` says; tools/limits.sh HOLDFAST --write" >&2
        bad=1
    fi
done
exit $bad
