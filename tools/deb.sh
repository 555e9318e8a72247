#!/bin/bash
# SPDX-License-Identifier: MIT
# Build the Debian packages: deb.sh FOLDER. They are in FOLDER then, the log of the build in FOLDER/build.log.
#
# It works on a copy of the tracked files, as they are now, so the tree stays as it is. DEB_BUILD_OPTIONS is that of Debian: nocheck,
# noopt, parallel=N. The last step is lintian: an error or a warning of it is an error here.
set -eu
cd "$(dirname "$0")/.."

mkdir -p "$1"
folder=$(cd "$1" && pwd)
version=$(tools/version.sh)
copy=$folder/holdfast-$version
fail() { echo "deb: $*" >&2; exit 1; }
[ "$(dpkg-parsechangelog -S Version)" = "$version" ] || fail "debian/changelog has another version than include/holdfast/holdfast.h"
grep -q "^Package: $(tools/version.sh --soname | sed 's/\.so\.//')\$" debian/control || fail "debian/control has no package for $(tools/version.sh --soname)"

# Without git, as in a container: all files but build folders.
tracked() {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -z | while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done
    else
        find . -mindepth 1 \( -path './build*' -o -path ./.git \) -prune -o ! -type d -print0
    fi
}
rm -rf "$copy" "$folder"/*.{deb,dsc,changes,buildinfo,tar.xz}
mkdir "$copy"
tracked | tar -c --null --no-recursion -T - | tar -x -C "$copy"

echo "building the packages of $version in $1"
start=$SECONDS
if ! (cd "$copy" && dpkg-buildpackage -F -us -uc) >"$folder/build.log" 2>&1; then
    tail -n 40 "$folder/build.log" | cut -c 1-200 >&2
    fail "dpkg-buildpackage failed: $1/build.log"
fi
rm -rf "$copy"
built=$((SECONDS - start)) start=$SECONDS
as_root=()
[ "$(id -u)" -ne 0 ] || as_root=(--allow-root)
lintian "${as_root[@]}" --fail-on error,warning "$folder/holdfast_${version}_$(dpkg --print-architecture).changes" ||
    fail "lintian found something"
(cd "$folder" && du -k -- *.deb | awk '{ printf "%6d kB  %s\n", $1, $2 }')
echo "built in $built s, lintian found nothing in $((SECONDS - start)) s"
