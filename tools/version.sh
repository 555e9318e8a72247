#!/bin/bash
# SPDX-License-Identifier: MIT
# The version of everything that is published: it is that of include/holdfast/holdfast.h. version.sh prints it.
#
#   version.sh --check      the packages of all languages have it, too; says which do not
#   version.sh --write      write it into them
#   version.sh --soname     the file that programs are linked to, like libholdfast.so.0.2 (src/CMakeLists.txt has the rule)
set -u
cd "$(dirname "$0")/.." || exit 1

part() { sed -n "s/^#define HF_VERSION_$1  *\([0-9]*\)$/\1/p" include/holdfast/holdfast.h; }
version=$(part MAJOR).$(part MINOR).$(part PATCH)

# File, and a regular expression with what stands before the version and what stands after it, around any version.
packages() {
    cat <<'END'
debian/changelog	^(holdfast \()[^)]*(\))
bindings/node/package.json	^(  "version": ")[^"]*(",)
bindings/java/pom.xml	^(  <version>)[^<]*(<\/version>)
bindings/rust/holdfast/Cargo.toml	^(version = ")[^"]*(")
bindings/rust/holdfast/Cargo.toml	^(holdfast-sys = .* version = "=)[^"]*(")
bindings/rust/holdfast/tests/primitives.rs	(assert_eq!\(version\(\), ")[^"]*(")
bindings/rust/holdfast-sys/Cargo.toml	^(version = ")[^"]*(")
bindings/rust/holdfast-sys/build.rs	("holdfast >= )[^"]*(")
bindings/go/README.md	(-require=holdfast@v)[0-9.]*[0-9]( )
bindings/java/README.md	(# build\/maven\/holdfast-)[0-9.]*[0-9](\.jar)
bindings/java/README.md	(-cp build\/maven\/holdfast-)[0-9.]*[0-9](\.jar)
END
}

# Of the two crates in Cargo.lock, which has other packages, too: the line after the name.
lock=bindings/rust/Cargo.lock
locked() { sed -nE '/^name = "holdfast(-sys)?"$/{n;s/^version = "(.*)"$/\1/p}' $lock | grep -vFx "$version"; }

# Java refuses a library of another minor version: the number of ours, with patch 0.
java=bindings/java/src/main/java/holdfast/Holdfast.java
built_for=$(($(part MAJOR) * 10000 + $(part MINOR) * 100))

# Rust has the three parts as constants of its own.
rust=bindings/rust/holdfast-sys/src/core.rs
rust_version=$(sed -nE 's/^pub const HF_VERSION_(MAJOR|MINOR|PATCH): c_int = ([0-9]+);/\2/p' $rust | paste -sd.)

case ${1:-} in
'')
    echo "$version"
    ;;
--soname)
    [ "$(part MAJOR)" -eq 0 ] && echo "libholdfast.so.0.$(part MINOR)" || echo "libholdfast.so.$(part MAJOR)"
    ;;
--check | --write)
    bad=0
    while IFS=$'\t' read -r file pattern; do
        found=$(sed -nE "s/$pattern.*/&/p" "$file" | head -n 1 | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
        [ "$found" != "$version" ] || continue
        if [ "$1" = --write ]; then
            sed -i -E "0,/$pattern/s//\1$version\2/" "$file"
        else
            echo "version: $file has '$found', and the header $version: tools/version.sh --write"
            bad=1
        fi
    done < <(packages)
    if [ "$1" = --write ]; then
        sed -i -E "s/(BUILT_FOR = )[0-9]+;/\\1$built_for;/" $java
        sed -i -E '/^name = "holdfast(-sys)?"$/{n;s/".*"/"'"$version"'"/}' $lock
        for word in MAJOR MINOR PATCH; do
            sed -i -E "s/^(pub const HF_VERSION_$word: c_int = )[0-9]+;/\\1$(part $word);/" $rust
        done
    elif [ "$rust_version" != "$version" ]; then
        echo "version: $rust has '$rust_version', and the header $version: tools/version.sh --write"
        bad=1
    elif ! grep -q "BUILT_FOR = $built_for;" $java; then
        echo "version: $java was not built for $built_for: tools/version.sh --write"
        bad=1
    elif locked >/dev/null; then
        echo "version: $lock has another one, and the header $version: tools/version.sh --write"
        bad=1
    fi
    exit $bad
    ;;
*)
    echo "usage: $0 [--check | --write | --soname]" >&2
    exit 64
    ;;
esac
