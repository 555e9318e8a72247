#!/bin/sh
# Run a program with "file:DIR" as its argument, DIR being a fresh directory that is removed again.
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-example.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
"$@" "file:$dir"
