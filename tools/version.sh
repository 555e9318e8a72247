#!/bin/bash
# SPDX-License-Identifier: MIT
# The version of everything that is published: it is that of include/holdfast/holdfast.h. version.sh prints it.
#
#   version.sh --check      the packages of all languages have it, too; says which do not
#   version.sh --write      write it into them
set -u
cd "$(dirname "$0")/.." || exit 1

part() { sed -n "s/^#define HF_VERSION_$1  *\([0-9]*\)$/\1/p" include/holdfast/holdfast.h; }
version=$(part MAJOR).$(part MINOR).$(part PATCH)

# File, and a regular expression with what stands before the version and what stands after it, around any version.
packages() {
    cat <<'END'
bindings/node/package.json	^(  "version": ")[^"]*(",)
bindings/java/pom.xml	^(  <version>)[^<]*(<\/version>)
bindings/rust/holdfast/Cargo.toml	^(version = ")[^"]*(")
bindings/rust/holdfast-sys/Cargo.toml	^(version = ")[^"]*(")
END
}

case ${1:-} in
'')
    echo "$version"
    ;;
--check | --write)
    bad=0
    while IFS=$'\t' read -r file pattern; do
        [ -f "$file" ] || continue
        found=$(sed -nE "s/$pattern.*/&/p" "$file" | head -n 1 | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
        [ "$found" != "$version" ] || continue
        if [ "$1" = --write ]; then
            sed -i -E "0,/$pattern/s//\1$version\2/" "$file"
        else
            echo "version: $file has '$found', and the header $version: tools/version.sh --write"
            bad=1
        fi
    done < <(packages)
    exit $bad
    ;;
*)
    echo "usage: $0 [--check | --write]" >&2
    exit 64
    ;;
esac
