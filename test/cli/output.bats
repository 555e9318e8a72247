#!/usr/bin/env bats
# Output: what cannot be written is an error; doctor, engines, colours, bench.
load helper

@test "closed stdout and a full disk: a message and 74" {
    make_store
    for command in "ls" "ls --json" "show x" "engines" "engines --json" "doctor" "help" "--version" "completion bash"; do
        exits 74 sh -c "holdfast $command >&-"
        says "write error"
        exits 74 sh -c "holdfast $command >/dev/full"
        says "No space left"
    done
    exits 74 sh -c 'holdfast watch >&-'
}

@test "a closed pipe: 74, and not a word" {
    exits 74 python3 -c '
import os, subprocess, sys
r, w = os.pipe()
os.close(r)
sys.exit(subprocess.call(["holdfast", "completion", "bash"], stdout=w))'
    [[ -z $output ]]
}

@test "doctor: where, who chose it, findings; the exit code is the worst" {
    status=0
    out=$(holdfast doctor) || status=$?
    ((status <= 2))
    [[ $out == "store "*"$dir/store"*"from HOLDFAST_STORE"* ]]
    grep -E '^(fine|warning|bad) ' <<<"$out"
    json=$(holdfast doctor --json "file:$dir/other") || true
    jq -e '(.store | contains("other")) and (.findings | length) > 0 and .from == "the command line"' <<<"$json"
    level=$(jq -r .level <<<"$json")
    [[ $level == fine && $status == 0 || $level == warning && $status == 1 || $level == bad && $status == 2 ]]
    exits 78 holdfast doctor nosuch:/
}

@test "engines: the promise table" {
    exits 0 holdfast engines
    says "lmdb"
    says "client crash"
    holdfast engines --json | jq -e '.engines[] | select(.engine == "lmdb") | .available and .tokens == "strict" and (.can | index("fifo")) and (.on_crash | length) > 0'
}

@test "engines --matrix: every no has its reason, on 80 columns" {
    exits 0 holdfast engines --matrix
    says "a lmdb"
    says "rate limit"
    [[ $(grep -cE '^.{81}' <<<"$output") == 0 ]]
    json=$(holdfast engines --matrix --json)
    jq -e '.matrix | length > 0 and all(.can.mutex)' <<<"$json"
    # what cannot be done has a reason, and what can has none
    jq -e '.matrix | all(. as $mode | .can | to_entries | all(.value == ($mode.why_not[.key] == null)))' <<<"$json"
    jq -e '.matrix[] | select(.engine == "lmdb") | .choice == "" and .can.limits and (.why_not.scripts | length) > 0' <<<"$json"
}

@test "colours: never in a pipe, always if asked, not with NO_COLOR" {
    make_store
    [[ $(holdfast ls) != *$'\033'* ]]
    [[ $(holdfast ls --color=always) == *$'\033[1m'* ]]
    [[ $(NO_COLOR=1 holdfast ls --color=auto) != *$'\033'* ]]
}

@test "bench executes holdfast-bench beside us, with its arguments" {
    mkdir -p copy/bin # /proc/self/exe is where we really are: a copy, not a link
    cp "$HOLDFAST_BIN" copy/bin/holdfast
    printf '#!/bin/sh\necho "$@ $HOLDFAST_STORE"; exit 3\n' >copy/bin/holdfast-bench
    chmod +x copy/bin/holdfast-bench
    export LD_LIBRARY_PATH=$HOLDFAST_BUILD/lib
    exits 3 copy/bin/holdfast --json -S file:/x bench --a b -- c
    [[ $output == "--json --a b -- c file:/x" ]]
}
