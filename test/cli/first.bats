#!/usr/bin/env bats
# The first minute: what somebody types before reading anything, and what hands are used to from flock(1).
load helper

@test "holdfast alone: a short overview, in which every verb has its place" {
    exits 64 holdfast
    says "holdfast run backup -- ./backup.sh"
    (($(wc -l <<<"$output") <= 18))
    not grep -E '^.{81,}' <<<"$output"
    overview=$(holdfast 2>&1 | grep -E '^[A-Z][A-Za-z ]+  ' | sed -E 's/^[A-Z][A-Za-z ]+  +//' | tr ' ' '\n' | sort)
    table=$(holdfast help | awk '/^Options:/ { exit } /^  [a-z]/ { print $1 }' | sort)
    [[ -n $table && $overview == "$table" ]] || { diff <(echo "$overview") <(echo "$table"); return 1; }
    # `completion` lists them from the table itself, so a verb without a group is seen here.
    for verb in $(holdfast completion bash | sed -nE "s,^ *local verbs='([^']*)'.*,\\1,p"); do
        grep -qx "$verb" <<<"$table" || { echo "$verb is in no group"; return 1; }
    done
}

@test "words of other programs: the right verb is suggested" {
    exits 64 holdfast list
    says "did you mean 'ls'?"
    exits 64 holdfast release x
    says "did you mean 'unlock'?"
    exits 64 holdfast rum
    says "did you mean 'run'?"
}

@test "options of other programs: what it is called here" {
    exits 64 holdfast ls -o json
    says "unknown option '-o'; did you mean '--json'?"
    exits 64 holdfast show x --output=json
    says "unknown option '--output'; did you mean '--json'?"
    exits 64 holdfast ls -w
    says "unknown option '-w'; did you mean 'holdfast watch'?"
    exits 64 holdfast ls --follow
    says "did you mean 'holdfast watch'?"
    exits 64 holdfast engines -o json -w
    says "did you mean '--json'?"
    exits 64 holdfast ls --jsn
    says "did you mean '--json'?"
}

@test "flock's habits: -c, --timeout, plain seconds" {
    exits 0 holdfast run x -c 'echo "hi $HOLDFAST_NAME"; exit 0'
    [[ $output == *"hi x"* ]]
    exits 3 holdfast run x --command 'exit 3'
    exits 64 holdfast run x -c true -- false
    says "exclude each other"
    exits 0 holdfast run x -w 5 -- true
    exits 0 holdfast run x --timeout 0.25 -- true
    exits 0 holdfast run x --nb -- true
    exits 64 holdfast run x -c echo hi
    says "'hi' is one argument too many: put the text of -c in quotes"
    hold x
    exits 75 holdfast run x -w 0.2 -- true
    exits 75 holdfast run x --timeout=0.2 -c true
    exits 75 holdfast run x --nb -c true
}

@test "flock's habits: no verb" {
    exits 64 holdfast /run/lock/nightly.lock true
    says "holdfast run NAME -- COMMAND"
    exits 64 holdfast -n nightly true
    says "holdfast run NAME -- COMMAND"
}

@test "engines NAME: one engine, by its name or a scheme" {
    exits 0 holdfast engines file
    [[ $output == lmdb* && $output != *memcached* ]]
    [[ $(holdfast engines lmdb --json | jq -r '.engines | length') == 1 ]]
    exits 64 holdfast engines oracle
    says "there is no engine 'oracle'; there are lmdb"
    exits 64 holdfast engines file --matrix
    says "leave 'file' out"
}

@test "a scheme, a profile or a parameter that is not there: what there is instead" {
    exits 78 holdfast -S mongodb://x ls
    says "no engine for the scheme 'mongodb'; there are file, redis, redlock, postgresql, mysql, zk, etcd, memcached"
    export HOLDFAST_CONFIG=$dir/config
    echo "# none yet" >config
    exits 78 holdfast -S foo ls
    says "no profile 'foo' in $dir/config, which has none"
    printf '[profile one]\nurl = file:%s/one\n[profile two]\nurl = file:%s/two\n' "$dir" "$dir" >config
    exits 78 holdfast -S foo ls
    says "no profile 'foo' in $dir/config, which has one, two"
    unset HOLDFAST_CONFIG
    exits 78 holdfast -S 'redis://127.0.0.1:1?op_timout=1s' ls
    says "'op_timout' at byte 20 is not known; did you mean 'op_timeout'?"
    exits 78 holdfast -S 'postgresql://app@127.0.0.1:1/db?op_timout=1s' ls
    says "did you mean 'op_timeout'?"
}

@test "no user and no switch is masked, and every secret is" {
    exits 69 holdfast --open-timeout 1s -S 'postgresql://app@127.0.0.1:1/db' ls
    says "open postgresql://app@127.0.0.1:1/db: "
    exits 69 holdfast --open-timeout 1s -S 'memcached://127.0.0.1:1?prefix=x' ls
    says "memcached://127.0.0.1:1?prefix=x"
    (umask 077 && echo SECRET >password)
    exits 69 holdfast --open-timeout 1s -S "redis://app@127.0.0.1:1?password_file=$dir/password" ls
    says "open redis://app@127.0.0.1:1?password_file=$dir/password: "
    exits 69 holdfast --open-timeout 1s -S 'postgresql://127.0.0.1:1/db?mode=session&tokens=on' ls
    says "tokens=on"
    exits 69 holdfast --open-timeout 1s -S 'redis://app:SECRET@127.0.0.1:1' ls
    says "redis://app:***@127.0.0.1:1"
}

@test "engines | head -1, and a closed pipe for every verb that prints: nothing is said on stderr" {
    (holdfast engines 2>err | head -n 1) >out
    [[ ! -s err ]]
    holdfast cell put c value >/dev/null
    while read -r words; do
        # Its reader is gone before it begins.
        # shellcheck disable=SC2086 # words
        python3 -c 'import os, sys; r, w = os.pipe(); os.close(r); os.dup2(w, 1); os.execvp("holdfast", sys.argv[1:])' holdfast $words 2>err ||
            [[ $? == 74 ]]
        [[ ! -s err ]] || { echo "$words: $(cat err)"; return 1; }
    done <<'END'
ls
ls --json
show x
engines --matrix
doctor
doctor --sql postgresql://h/db
deadlocks
help run
completion bash
lab
top --once
top --once --json
cell get c
cell put c other
counter n --add 1
lock-sql x -S postgresql://h/db?mode=session
--version
END
}

@test "help is wrapped by words: at 80 columns, or at those of a narrower terminal" {
    holdfast help >text
    not grep -nE '^.{81,}' text
    for verb in $(holdfast help | awk '/^Options:/ { exit } /^  [a-z]/ { print $1 }'); do
        holdfast help "$verb" >text
        ! grep -nE '^.{81,}' text || { echo "help $verb"; return 1; }
    done
    holdfast help run >text
    grep -qx 'usage: holdfast run NAME|--any NAME,... \[OPTION...\] -- COMMAND \[ARG...\]' text
    grep -qx '                            exit with N if .*' text
    script -qc "stty cols 60; holdfast help run" /dev/null >wrapped </dev/null
    while IFS= read -r line; do ((${#line} <= 61)) || { echo "$line"; return 1; }; done <wrapped
    # Not one word is lost or doubled by it.
    diff <(tr -s '[:space:]' '\n' <text) <(tr -s '[:space:]' '\n' <wrapped)
}

@test "doctor ends with a verdict, and wraps by words on a terminal" {
    holdfast run x -- true
    exits 0 holdfast doctor
    [[ $(tail -n 1 <<<"$output") == "verdict: fine." ]]
    script -qc "stty cols 60; holdfast --color=never doctor" /dev/null >wrapped </dev/null
    while IFS= read -r line; do ((${#line} <= 61)) || { echo "$line"; return 1; }; done <wrapped
    grep -q '^         [a-z(]' wrapped
}

@test "the demo: plain without a terminal, 80 columns, and it fails if something does not go as told" {
    demo=$HOLDFAST_SOURCE/tools/demo.sh
    exits 0 env TERM=xterm "$demo" "$dir/bin/holdfast"
    not grep -nE $'^.{81,}|\e|[^ -~]' <<<"${output//"$dir/bin/"/}"
    says "  $dir/bin/holdfast ls"
    [[ $output == *"A"*"=x"*"B "*".="*"C "*".="* ]]
    script -qec "LC_ALL=C.UTF-8 '$demo' '$dir/bin/holdfast'" /dev/null >seen </dev/null
    grep -q $'\e\\[34m█' seen
    not grep -q "waiting for" seen
    NO_COLOR=1 script -qec "LC_ALL=C '$demo' '$dir/bin/holdfast'" /dev/null >seen </dev/null
    not grep -q $'\e' seen
    grep -q '=x' seen
    printf '#!/bin/sh\n[ "$1" != guard ] || exit 0\nexec "%s" "$@"\n' "$HOLDFAST_BIN" >broken
    chmod +x broken
    not "$demo" ./broken >said 2>&1
    grep -q 'demo: a stale token: exit status 0' said
}
