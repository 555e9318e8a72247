#!/bin/sh
# SPDX-License-Identifier: MIT
# uninstall.sh BUILD [DESTDIR]: remove the files that `make install` installed, by its list, and our empty folders.
set -eu
list=$1/install_manifest.txt
root=${2:-}
[ -f "$list" ] || { echo "nothing was installed from $1" >&2; exit 1; }
# The last line has no end.
{ cat "$list"; echo; } | while IFS= read -r file; do
    [ -n "$file" ] || continue
    rm -f "$root$file"
    directory=${file%/*}
    while :; do
        case $directory in
        */holdfast | */Holdfast | */holdfast/*) rmdir "$root$directory" 2>/dev/null || break ;;
        *) break ;;
        esac
        directory=${directory%/*}
    done
done
rm -f "$list"
