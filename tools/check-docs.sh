#!/bin/bash
# SPDX-License-Identifier: MIT
# Checks that everything that the documents name exists: check-docs.sh [DIR]
#
#   - every path/file.c:name in a document: the file is there and defines that function, test or struct
#   - every `path/to/file` in backticks, and every relative [link](target)
#   - the README of a folder below src names every .c file of that folder, and no other one
#   - a file that a comment in src names exists somewhere in the tree, and so does a function
#   - no folder of src, and no file of cli, includes what the rule of dependency in ARCHITECTURE.md does not allow
#   - every call of the public headers says first whether it blocks (its pages: tools/check-api.sh)
#   - which labels run under which sanitizer is the same in CONTRIBUTING.md and in the Makefile
#   - what the native scripts of Redis call is tried by rights.lua, and is in the ACL rule of the manual, which
#     docs/engines/redis.md has too
#   - the comparison in README.md is the short table of docs/compare.md
#
# DIR is the source tree to look at; another one than ours to see this script fail.
set -u
shopt -s globstar nullglob
cd "${1:-$(dirname "$0")/..}" || exit 1

documents=(README.md README.zh-CN.md ARCHITECTURE.md CONTRIBUTING.md CHANGES.md docs/**/*.md test/INVARIANTS.md src/*/README.md src/engine/*/README.md see/README.md)
bad=0
wrong() {
    echo "$*" >&2
    bad=1
}

# file:name. A definition begins a line, and the name is followed by a parenthesis: so it is
# neither a mere call nor a mere mention.
check_names() {
    local ref file name
    while read -r ref; do
        file=${ref%%:*} name=${ref##*:}
        if [ ! -f "$file" ]; then
            wrong "$1: $ref: no such file"
        elif ! grep -qE "^[A-Za-z_].*\\b$name\\(" "$file"; then
            wrong "$1: $ref: no such function there"
        fi
    done < <(grep -oE '[A-Za-z0-9_./-]+\.(c|h|sh):[A-Za-z_][A-Za-z0-9_]*' "$1" | sort -u)
}

# `src/core/term.c`, `tools/check-docs.sh`, `src/prim`. Not: options, home directories, system paths.
check_paths() {
    local path
    # shellcheck disable=SC2016 # those are backticks of Markdown
    while read -r path; do
        [ -e "$path" ] || wrong "$1: $path: no such file"
    done < <(grep -oE '`[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+/?`|`[A-Z]+\.md`|`Makefile`' "$1" |
        tr -d '`' | grep -vE '^(build[a-z-]*|lib|bin)/|^\.\.' | sort -u)
}

# The README of a folder: a word NAME.c, without a folder before it, is a file of that folder.
check_own_files() {
    local dir file
    dir=$(dirname "$1")
    for file in "$dir"/*.c; do
        grep -qE "(^|[^A-Za-z0-9_/.])${file##*/}([^A-Za-z0-9_]|\$)" "$1" || wrong "$1: nothing about ${file##*/}"
    done
    while read -r file; do
        [ -f "$dir/$file" ] || wrong "$1: $file: no such file in $dir"
    done < <(grep -oE '(^|[^A-Za-z0-9_/.])[a-z0-9_]+\.c\b' "$1" | grep -oE '[a-z0-9_]+\.c$' | sort -u)
}

check_comments() {
    local word place
    while read -r word place; do
        wrong "$place: $word: no such file"
    done < <(grep -rnE '^ *(\*|/\*|--)' src --include='*.[ch]' --include='*.sql' --include='*.lua' |
        sed -nE 's#^([^:]+:[0-9]+):.*[ (/]([a-z][a-z0-9_]{2,}\.(c|sql|lua))\b.*#\2 \1#p' |
        awk 'NR == FNR { there[$1] = 1; next } !($1 in there)' <(find src test cli bench tools -type f | sed 's#.*/##') -)
}

# A function that a comment in src or include names, "name()", is one that some code has; not the compiler's own.
check_comment_functions() {
    local word place
    while read -r place word; do
        [ -z "$word" ] || wrong "$place: $word(): no such function"
    done < <(python3 -B - <<'EOF'
import pathlib, re
comment = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
there, said = set(), []
for path in (each for top in ("src", "include", "cli", "see", "lab", "bench", "test") for each in pathlib.Path(top).rglob("*")):
    if path.suffix not in (".c", ".h", ".sql", ".lua", ".def", ".sh", ".py"):
        continue
    text = path.read_text(errors="replace")
    there.update(re.findall(r"[A-Za-z_]\w*", comment.sub(" ", text)))
    if path.suffix in (".c", ".h") and path.parts[0] in ("src", "include"):
        for each in comment.finditer(text):
            said += [(path, text.count("\n", 0, each.start() + name.start()) + 1, name[1])
                     for name in re.finditer(r"\b([a-z_][a-z0-9_]{2,})\(\)", each[0])]
print("\n".join(f"{path}:{line} {name}" for path, line, name in said if name not in there and not name.startswith("__builtin_")))
EOF
    )
}

# layer DIR ALLOWED: the headers that the files in it may include, beside those of their own folder.
layer() {
    local include
    while read -r include; do
        wrong "$1: may not include $include"
    done < <(grep -hoE '^#include "[^"]+"' "$1"/*.[ch] | sed -E 's/.*"(.*)"/\1/' | grep -vE "^(${1#src/}/[^/]+|$2)$" | sort -u)
}

check_layers() {
    local util='(util|holdfast)/[^/]+' contract='engine/(engine|conf|native)\.h' engine also
    layer src/util "$util"
    layer src/engine/kit "$util|engine/(engine|conf)\.h"
    for engine in src/engine/*/; do
        engine=$(basename "$engine")
        case $engine in
        kit) continue ;;
        redlock) also='|engine/redis/[^/]+' ;;
        postgres | mariadb) also='|engine/sql/[^/]+' ;;
        *) also= ;;
        esac
        layer "src/engine/$engine" "$util|$contract|engine/kit/[^/]+$also"
    done
    layer src/core "$util|$contract|engines\.def|deadlock/[^/]+"
    layer src/deadlock "$util|core/[^/]+"
    layer src/prim "$util|$contract|core/[^/]+|engine/[a-z]+/extension\.h"
    layer cli "$util|[^/]+"
    layer see/model "$util|[^/]+"
    layer see/screen "$util|[^/]+"
    layer see/top "$util|[^/]+|model/[^/]+|screen/[^/]+"
}

check_links() {
    local target
    while read -r target; do
        [ -e "$target" ] || [ -e "$(dirname "$1")/$target" ] || wrong "$1: link to $target: no such file"
    done < <(grep -oE '\]\([^)#:]+\)' "$1" | sed 's/^](//; s/)$//' | sort -u)
}

# A document that a merge has damaged says things twice.
check_repeats() {
    local twice
    while read -r twice; do
        wrong "$1: stands there twice: $twice"
    done < <(grep -E '^#{1,3} |^.{60,}$' "$1" | grep -vE '^[|`]' | sort | uniq -d)
}

# Manual pages likewise: sections, and whole lines of prose.
check_page_repeats() {
    local twice
    while read -r twice; do
        wrong "$1: stands there twice: $twice"
    done < <(awk '/^\.Sh / { section = $0; print } /^\.Ss / { print section ": " $0 } /^[^.].{70,}/ { print }' "$1" | sort | uniq -d)
}

# The comment of every declaration must begin with: does it block, where do callbacks run, what happens after fork()?
# Adjacent declarations share one comment.
check_first_lines() {
    local header line
    for header in include/holdfast/*.h; do
        while read -r line; do
            wrong "$header:$line: its comment does not begin with \"Blocks: ... Callbacks: ... After fork: ...\""
        done < <(awk '
            /^$/ { said = 0 }
            /Blocks: (no|a round trip|for [^.]*|up to [a-z_]*)\. Callbacks: (none|process|here)\. After fork: [^.]*\./ { said = 1 }
            /^HF_API/ && !said { print NR }' "$header")
    done
}

# A call that may block has an asynchronous form, or the header says why it has none.
check_async_forms() {
    local call headers=(include/holdfast/*.h) without
    without=$(sed -n '/^ \* These have none:/,/\*\//p' include/holdfast/holdfast.h)
    while read -r call; do
        grep -qE "\b${call}_async\(" "${headers[@]}" || grep -qF "$call()" <<<"$without" ||
            wrong "$call(): it may block, has no asynchronous form, and holdfast.h does not say why"
    done < <(awk '
        /^$/ { blocks = 0 }
        /Blocks: / { blocks = !/Blocks: no\./ }
        /^HF_API/ && blocks && match($0, /hf_[a-z_]*\(/) { print substr($0, RSTART, RLENGTH - 1) }' "${headers[@]}")
    while read -r call; do
        ! grep -qE "\b${call}_async\(" "${headers[@]}" || wrong "holdfast.h: $call() has an asynchronous form"
    done < <(grep -oE 'hf_[a-z_]+\(' <<<"$without" | tr -d '(')
}

# | label | what | plain | ASan | TSan | in CONTRIBUTING.md, against the lists in the Makefile.
check_labels() {
    local label plain asan tsan list answer
    while IFS='|' read -r _ label _ plain asan tsan _; do
        label=${label// /}
        answer=yes # TEST_LABELS names those that are left out: !oom
        sed -n 's/^TEST_LABELS ?= !//p' Makefile | tr '|' '\n' | grep -qx "$label" && answer=no
        [ "$answer" = "${plain// /}" ] || wrong "CONTRIBUTING.md: label $label: the Makefile says $answer for the plain build"
        for list in "ASAN:${asan// /}" "TSAN:${tsan// /}"; do
            answer=no
            sed -n "s/^${list%%:*}_LABELS ?= //p" Makefile | tr '|' '\n' | grep -qx "$label" && answer=yes
            [ "$answer" = "${list##*:}" ] ||
                wrong "CONTRIBUTING.md: label $label: the Makefile says $answer for ${list%%:*}"
        done
    done < <(sed -n '/^| label /,/^$/p' CONTRIBUTING.md | grep -E '^\| [a-z]+ \|' | grep -v '^| label ')
}

acl_rule() { sed -n 's/^ACL SETUSER locks //p' "$1" | xargs; }
check_rights() {
    local command rule scripts=src/engine/redis/scripts page=man/holdfast-engines.7
    [ -d "$scripts" ] || return 0
    rule=$(acl_rule "$page")
    [ "$rule" = "$(acl_rule docs/engines/redis.md)" ] || wrong "docs/engines/redis.md: its ACL rule is not that of $page"
    while read -r command; do
        grep -q "^try('$command'" "$scripts/rights.lua" || wrong "$scripts/rights.lua: does not try $command"
        [[ " $rule " == *" +${command,,}"[\ \|]* ]] || wrong "$page: its ACL rule has no +${command,,}"
    done < <(find "$scripts" -name '*.lua' ! -name 'plain_*' ! -name 'redisson_*' ! -name 'foreign.lua' ! -name rights.lua \
        -exec grep -ohE "call\\('[A-Z]+'" {} + | sed "s/.*'\\(.*\\)'/\\1/" | sort -u)
}

check_comparison() {
    local row rows
    [ -f docs/compare.md ] || return 0
    rows=$(sed -n '/<!-- short: begin/,/<!-- short: end/{/^|/p}' docs/compare.md)
    [ -n "$rows" ] || wrong "docs/compare.md: it has no short table"
    while read -r row; do
        grep -qxF -e "$row" README.md || wrong "README.md: this row of docs/compare.md is not there: $row"
    done <<<"$rows"
}

for document in "${documents[@]}"; do
    [ -f "$document" ] || { wrong "$document is missing"; continue; }
    check_names "$document"
    check_paths "$document"
    check_links "$document"
    case $document in docs/api/*) ;; *) check_repeats "$document" ;; esac # generated: many calls block alike
done
for document in src/*/README.md src/engine/*/README.md; do check_own_files "$document"; done
check_comments
check_comment_functions
check_layers
for page in man/*.[1-9]; do check_page_repeats "$page"; done
check_first_lines
check_async_forms
check_labels
check_rights
check_comparison
exit $bad
