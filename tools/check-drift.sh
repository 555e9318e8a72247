#!/bin/bash
# SPDX-License-Identifier: MIT
# Checks that the manual and docs agree with the program: check-drift.sh HOLDFAST [DIR]
#
#   - the number of engines, in words, is the number of lines in src/engine/engines.def, wherever a document says "There are N engines"
#   - every engine has a table of promises in the manual, with the strength of tokens that `holdfast engines` prints; docs/promises.md says
#     of every engine and mode what becomes of it under each fault, and is bold where the manual says no
#   - every parameter of an engine's table is an item in that engine's part of the manual and in its page of docs/engines, and the
#     other way round
#   - what engines cannot do, and why, is what `holdfast engines --matrix` says (tools/limits.sh)
#   - every capability of the header has its words in the library and a row of the matrix
#   - every verb of `holdfast help` has an item in holdfast(1) and a page of its own, and the other way round
#
# HOLDFAST is the built command. DIR is the source tree to look at; another one than ours to see this script fail.
set -u
holdfast=$(realpath "$1") || exit 1
tools=$(realpath "$(dirname "$0")")
cd "${2:-$(dirname "$0")/..}" || exit 1

page=man/holdfast-engines.7
bad=0
wrong() {
    echo "$*" >&2
    bad=1
}
# Is a word in a list of words?
has() { [[ " $2 " == *" $1 "* ]]; }

# Where an engine is described: the column of its table of promises, then "page:section" of its parameters, and more of those.
described() {
    local database="$page:LOCKS OF A DATABASE SERVER"
    case $1 in
    lmdb) echo "embedded|$page:THE EMBEDDED ENGINE" ;;
    redlock) echo "redlock|man/holdfast-redlock.7:URL AND PARAMETERS" ;;
    postgres) echo "postgresql|$page:POSTGRESQL|$database" ;;
    mariadb) echo "mariadb|$page:THE MARIADB ENGINE|$database" ;;
    zookeeper) echo "zookeeper|$page:ZOOKEEPER" ;;
    *) echo "$1|$page:THE ${1^^} ENGINE" ;;
    esac
}

definition() { grep -E '^ENGINE\(' src/engine/engines.def; }
engines=$(definition | sed 's/^ENGINE(\([a-z0-9_]*\),.*/\1/' | xargs)

# ---- how many ----------------------------------------------------------------------------------------
check_count() {
    local words=(no one two three four five six seven eight nine ten eleven twelve) word file said
    word=${words[$(echo "$engines" | wc -w)]}
    for file in "$page:This version has $word engines" "docs/promises.md:There are $word engines"; do
        grep -qF "${file#*:}" "${file%%:*}" || wrong "${file%%:*}: does not say \"${file#*:}\""
    done
    while IFS=: read -r file said; do
        [ "$said" = "There are $word engines" ] || wrong "$file: \"$said\": there are $word"
    done < <(grep -roE --include='*.md' 'There are [a-z]+ engines' README.md docs)
}

# ---- promises ----------------------------------------------------------------------------------------
# A table is `.Bl -column "pause past the ttl" "NAME"` in the section PROMISES.
check_promises() {
    local name=$1 column=$2 table strength
    table=$(awk -v name="\"$column\"" '
        /^\.Sh / { on = $0 == ".Sh PROMISES" }
        on && /^\.Bl -column/ { this = $NF == name }
        this { print }
        /^\.El/ { this = 0 }' "$page")
    [ -n "$table" ] || { wrong "$page: engine $name has no table of promises (column \"$column\")"; return; }
    strength=$("$holdfast" engines | awk -v name="$name" '/^[a-z]/ { on = $1 == name } on && $1 == "tokens" { print $2 }')
    [ -n "$strength" ] || return 0 # not in this build
    grep -qE "^\\.It token strength Ta $strength([ ;:]|$)" <<< "$table" ||
        wrong "$page: engine $name: its tokens are $strength, which its table of promises does not say"
}

# docs/promises.md: a section for each fault, with a table "| engine | ...". Each of these is in each table once, and the table of tokens says
# the strength that the engine says. NAME:engine; a name without one is a mode.
promised="Embedded:lmdb,Redis:redis,Redis foreign wire:,Redlock:redlock,Redlock foreign wire:,PostgreSQL:postgres,MariaDB:mariadb,Database locks:,ZooKeeper:zookeeper,etcd:etcd,memcached:memcached"
check_promise_page() {
    local file=docs/promises.md names found section engine strength
    names=$(tr ',' '\n' <<< "$promised" | cut -d: -f1 | sort)
    while read -r section; do
        found=$(awk -v title="## $section" '/^## / { on = $0 == title } on && /^\| / && !/^\| engine / { print }' "$file" |
            cut -d'|' -f2 | tr ';' '\n' | sed 's/,//; s/^ *//; s/ *$//' | sort)
        [ "$found" = "$names" ] || wrong "$file: $section: not each engine and mode once: $(diff <(echo "$names") <(echo "$found") | grep '^[<>]' | xargs)"
    done < <(awk '/^## / { title = substr($0, 4) } /^\| engine / { print title }' "$file")
    while IFS=: read -r section engine; do
        [ -n "$engine" ] || continue
        strength=$("$holdfast" engines | awk -v name="$engine" '/^[a-z]/ { on = $1 == name } on && $1 == "tokens" { print $2 }')
        [ -n "$strength" ] || continue # not in this build
        awk '/^## / { on = $0 == "## Tokens" } on' "$file" | tr -d '*' |
            grep -qE "^\| ([^|]*; )?$section(;[^|]*)? \| $strength \|" || wrong "$file: Tokens: $section: its tokens are $strength"
    done < <(tr ',' '\n' <<< "$promised")
}

# The manual and docs/promises.md agree on where exclusion ends: "no" in a row of the manual's table is bold in the row of the page.
# For each fault: SECTION OF THE PAGE|ROW OF THE MANUAL. For each table of the manual, in its order: its name on the page.
check_bad_news() {
    local file=docs/promises.md fault names=(Embedded Redis Redlock "Redlock foreign wire" memcached etcd PostgreSQL MariaDB "Database locks" ZooKeeper)
    local i manual paper
    for fault in "A client crashes|client crash" "A holder is paused past the ttl|pause past the ttl" "A clock jumps|clock jump" \
        "A server is lost|server loss" "The network is partitioned|partition"; do
        for i in "${!names[@]}"; do
            manual=$(awk -v want=$((i + 1)) -v row="${fault#*|}" '
                /^\.Bl -column "pause past the ttl"/ { table++ }
                /^\.It / { if (!/^\.It Ta /) on = index($0, ".It " row " Ta ") == 1 }
                table == want && on && /Sy \\&no/ { bad = 1 }
                /^\.El/ { on = 0 }
                END { print bad ? "no" : "yes" }' "$page")
            paper=$(awk -v title="## ${fault%|*}" '/^## / { on = $0 == title } on && /^\| /' "$file" |
                awk -F'|' -v name="${names[i]}" '{ sub(/, foreign/, " foreign", $2); gsub(/, foreign/, " foreign", $2)
                    n = split($2, who, ";"); for (k = 1; k <= n; k++) { gsub(/^ +| +$/, "", who[k]); if (who[k] == name) print (/\*\*/ ? "no" : "yes") } }')
            [ "$manual" = "$paper" ] || wrong "$file: ${fault%|*}: ${names[i]}: bold says $paper, and $page says $manual"
        done
    done
}

# ---- parameters --------------------------------------------------------------------------------------
# Rows of struct hfi_param in these files, as NAME:TYPE. A row may be of several lines, and in a macro.
rows() {
    cat "$@" 2> /dev/null | tr -s ' \\\n' ' ' | grep -oE '\{ "[a-z_]*", HFI_PARAM_[A-Z]+' |
        sed -E 's/\{ "([a-z_]*)", HFI_PARAM_([A-Z]+)/\1:\2/' | sort -u
}

# What one engine takes, as the keys that a URL has. Core adds user, password and TLS by the flags of a form.
taken_by() {
    local name=$1 extra row flags files=()
    extra=$(definition | sed -n "s/^ENGINE($name, \"[^\"]*\", \"[^\"]*\", \"\\([^\"]*\\)\".*/\\1/p")
    files=("src/engine/$name"/*.[ch])
    for row in $extra; do files+=("src/engine/$row"/*.h); done
    for row in $(rows "${files[@]}"); do
        case ${row#*:} in
        SECRET) echo "${row%%:*}_file ${row%%:*}_env" ;;
        REFUSED | REST) ;;
        *) echo "${row%%:*}" ;;
        esac
    done
    flags=$(grep -ohE '\bHFI_FORM_[A-Z_]+' "src/engine/$name"/*.c | sort -u | xargs)
    [ "$name" = lmdb ] || echo user password_file password_env
    [[ "$flags" != *HFI_FORM_TLS* ]] || echo ca cert key verify
    ! has HFI_FORM_TLS_CHOICE "$flags" || echo tls
    ! has HFI_FORM_TLS_NAME "$flags" || echo sni
}

# Words of the form key= in the items of these sections ("page:title").
described_in() {
    local place
    for place in "$@"; do
        awk -v title=".Sh ${place#*:}" '/^\.Sh / { on = $0 == title } on && /^\.It / { print }' "${place%%:*}"
    done | sed 's/--[a-z-]*=//g' | grep -oE '(^|[^a-z_])[a-z_]+=' | tr -dc 'a-z_=\n' | tr -d '=' | sort -u
}

# Keys that the manual describes once, for all engines: an engine's own part need not repeat them.
everywhere=$(rows src/core/store.c | cut -d: -f1 | xargs)
check_parameters() {
    local name=$1 key taken described
    shift
    taken=$(taken_by "$name" | xargs)
    described=$(described_in "$@" | xargs)
    for key in $taken; do
        has "$key" "$described" || has "$key=" "$optional" || wrong "$1: nothing about $key= of engine $name"
    done
    for key in $described; do
        has "$key" "$taken $everywhere" || wrong "$1: $key= is no parameter of engine $name"
    done
}
# docs/engines/NAME.md: the same keys, in the rows of tables of the section Parameters.
check_page_parameters() {
    local name=$1 file=docs/engines/$2.md key taken described
    taken=$(taken_by "$name" | xargs)
    described=$(awk '/^## / { on = $0 == "## Parameters" } on && /^\| `/ { print }' "$file" | sed 's/\\|//g' | cut -d'|' -f2 |
        grep -oE '`[a-z_]+=' | tr -d '`=' | sort -u | xargs)
    for key in $taken; do has "$key" "$described" || wrong "$file: nothing about $key="; done
    for key in $described; do
        has "$key" "$taken $everywhere" || wrong "$file: $key= is no parameter of engine $name"
    done
}
# user= is another way to write user@ of the URL; only Redis' part has it as an item.
optional="user="

# ---- capabilities ------------------------------------------------------------------------------------
check_capabilities() {
    local cap file
    while read -r _ cap; do
        for file in src/core/lack.c cli/matrix.c; do
            grep -qE "^ *\\{ $cap," "$file" || wrong "$file: nothing about $cap"
        done
    done < <(grep -oE '^#define HF_CAP_[A-Z_]+' include/holdfast/holdfast.h)
}

# ---- verbs -------------------------------------------------------------------------------------------
check_verbs() {
    local verb verbs listed
    verbs=$("$holdfast" help | awk '/^Options:/ { exit } /^  [a-z]/ { print $1 }' | xargs)
    [ -n "$verbs" ] || wrong "holdfast help: no verbs"
    listed=$(sed -nE 's/^\.It Xr holdfast-([a-z-]+) 1.*/\1/p; s/^\.It Cm help .*/help/p' man/holdfast.1 | xargs)
    for verb in $verbs; do
        has "$verb" "$listed" || wrong "man/holdfast.1: nothing about the verb $verb"
        [ "$verb" = help ] || [ -f "man/holdfast-$verb.1" ] || wrong "man/holdfast-$verb.1: no such page"
    done
    for verb in $listed; do has "$verb" "$verbs" || wrong "man/holdfast.1: $verb is no verb"; done
    for verb in man/holdfast-*.1; do
        verb=${verb#man/holdfast-}
        has "${verb%.1}" "$verbs" || wrong "man/holdfast-$verb: ${verb%.1} is no verb"
    done
}

check_count
check_promise_page
check_bad_news
for name in $engines; do
    IFS='|' read -ra places <<< "$(described "$name")"
    check_promises "$name" "${places[0]}"
    check_parameters "$name" "${places[@]:1}"
done
for name in lmdb:file redis:redis redlock:redlock postgres:postgresql mariadb:mariadb zookeeper:zookeeper etcd:etcd memcached:memcached; do
    check_page_parameters "${name%:*}" "${name#*:}"
done
for key in $everywhere; do
    grep -qF "| \`$key=" docs/engines/file.md || wrong "docs/engines/file.md: nothing about $key="
    described_in "$page:THE EMBEDDED ENGINE" | grep -qx "$key" || wrong "$page: nothing about $key="
done
check_verbs
check_capabilities
"$tools/limits.sh" "$holdfast" "$PWD" || bad=1
exit $bad
