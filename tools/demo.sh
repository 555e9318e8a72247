#!/bin/bash
# SPDX-License-Identifier: MIT
# Three commands want the same name; they run one at a time, each with a larger token. A killed
# holder frees the name at once. demo.sh path/to/holdfast
set -u

holdfast=$1
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-demo.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
export HOLDFAST_STORE="file:$dir/store"
mkdir "$dir/store"
bold='' plain=''
[ -t 1 ] && bold=$(printf '\033[1m') plain=$(printf '\033[0m')
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

say '1. Three commands at once, one name: they take turns.'
for who in A B C; do
    # shellcheck disable=SC2016 # the child expands it
    "$holdfast" run demo -- sh -c '
        echo "   $0 begins  token $HOLDFAST_TOKEN"; sleep 0.4; echo "   $0 ends"' "$who" &
    sleep 0.05
done
wait

say '2. While somebody holds it, another sees who, and --nonblock gives up with status 75.'
"$holdfast" run demo -- sleep 5 &
holder=$!
disown "$holder" # or the shell reports its death by a message of its own
sleep 0.2
"$holdfast" ls
"$holdfast" run -n demo -- echo 'never printed'
echo "   exit status $?"

say '3. kill -9 of the holder frees the name at once.'
kill -9 "$holder"
# shellcheck disable=SC2016 # the child expands it
"$holdfast" run -w 2s demo -- sh -c 'echo "   mine now, token $HOLDFAST_TOKEN"'
