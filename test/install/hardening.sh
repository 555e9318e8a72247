#!/bin/bash
# SPDX-License-Identifier: MIT
# Do these files have what hinders an attacker who found a bug in them? hardening.sh DIR [LEAST]
#
# The command, the library and the modules below DIR, a build or an installation (LEAST: how many at least;
# without: one module for each engine):
#
#   full RELRO      a GNU_RELRO segment and BIND_NOW: no table of functions stays writable
#   no exec stack   and no relocation in the code
#   PIE             for a program
#   stack protector, FORTIFY      their functions are called
#   stack clash     gcc wrote the flag down for every file that it compiled
#   CET             likewise, and the entry begins with endbr64 (no note says so where the C compiler's own
#                   crtbegin.o has none, as Debian's)
set -u

bad=0
wrong() {
    echo "hardening: $file: $*" >&2
    bad=1
}

has_lines() { grep -qE -- "$1" <<<"$2"; }

check_link() {
    local segments dynamic
    segments=$(readelf -lW "$file")
    dynamic=$(readelf -dW "$file")
    has_lines '^ *GNU_RELRO ' "$segments" || wrong "no RELRO segment"
    has_lines 'BIND_NOW|FLAGS_1.* NOW' "$dynamic" || wrong "not BIND_NOW: its GOT stays writable"
    has_lines '^ *GNU_STACK .* RW  ' "$segments" || wrong "its stack is executable"
    ! has_lines 'TEXTREL' "$dynamic" || wrong "it has relocations in its code"
    if [ "$program" = yes ]; then
        has_lines 'FLAGS_1.* PIE' "$dynamic" || wrong "not PIE"
    fi
}

check_calls() {
    local symbols
    symbols=$(nm -D --undefined-only "$file")
    has_lines ' __stack_chk_fail(@|$)' "$symbols" || wrong "no stack protector"
    has_lines ' __(mem|str|st[pr]|v?f?s?n?printf|read|recv|v?asprintf|poll|fdelt|realpath|pread|getcwd)[a-z]*_chk(@|$)' "$symbols" ||
        wrong "no FORTIFY: no checked function is called"
}

# gcc writes its flags into the debug information of each file; clang does not.
check_compiled() {
    local units flag without flags=(-fstack-protector-strong -fstack-clash-protection)
    [ "$(uname -m)" = x86_64 ] && flags+=(-fcf-protection)
    units=$(readelf --debug-dump=info --dwarf-depth=1 "$file" 2>/dev/null | grep 'DW_AT_producer.*GNU C')
    [ -n "$units" ] || return 0
    for flag in "${flags[@]}"; do
        without=$(grep -vc -- "$flag" <<<"$units")
        [ "$without" -eq 0 ] || wrong "$without of $(grep -c . <<<"$units") files were compiled without $flag"
    done
}

check_cet() {
    local entry
    [ "$(uname -m)" = x86_64 ] || return 0
    # Stripped, as in packages: no entry has a name. The C compiler's own files have a few.
    if ! has_lines ' \.symtab ' "$(readelf -SW "$file")"; then
        [ "$(objdump -d "$file" | grep -c endbr64)" -ge 10 ] || wrong "no CET: hardly an endbr64"
        return 0
    fi
    for entry in main hf_open hfi_engine_entry hfi_tls_entry; do
        objdump -d --disassemble=$entry "$file" | grep -A1 "<$entry.*>:" | grep -q endbr64 && return 0
    done
    wrong "no CET: its entry has no endbr64"
}

file=$1
mapfile -t files < <(find "$1/bin/holdfast" "$1/lib" -type f \( -name holdfast -o -name '*.so' -o -name 'libholdfast.so*' \))
engines=$(grep -l hfi_engine_entry "$(dirname "$0")"/../../src/engine/*/*.c | grep -c .)
least=${2:-$((2 + engines))}
[ ${#files[@]} -ge "$least" ] || wrong "${#files[@]} files found: ${files[*]}; wanted at least $least"
for file in "${files[@]}"; do
    program=no
    readelf -lW "$file" | grep -q INTERP && program=yes
    check_link
    check_calls
    check_compiled
    check_cet
done
[ $bad -eq 0 ] && echo "hardening: ${#files[@]} files have all of it"
exit $bad
