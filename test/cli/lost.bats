#!/usr/bin/env bats
# Losing the lease while the command runs: TERM, KILL, 76.
load helper

token_of() { holdfast show "$1" --json | jq -r '.holders[0].token'; }
ends_with() { local status=0; wait "$2" || status=$?; [[ $status == "$1" ]] || { echo "exit code $status"; return 1; }; }

@test "broken: TERM, and 76 wins over the command's status" {
    begin holdfast run x --status-fd 9 -- sh -c 'trap "echo term >got; exit 5" TERM; touch ready; while :; do sleep 0.05; done' 9>status
    pid=$!
    eventually test -e ready
    exits 0 holdfast break x --token "$(token_of x)"
    ends_with 76 $pid
    [[ $(cat got) == term ]]
    [[ $(jq -r .event <status | xargs) == "acquired started lost exited" ]]
    grep -q "lease of 'x' is lost" err
}

@test "broken: a command that ignores TERM is killed after --kill-after, with its group" {
    begin holdfast run x --kill-after 500ms -- sh -c 'trap "" TERM; sleep 1000 & echo $! >grandchild; touch ready; while :; do sleep 0.05; done'
    pid=$!
    eventually test -e ready
    holdfast break x --token "$(token_of x)"
    ends_with 76 $pid
    eventually is_gone "$(cat grandchild)"
}

@test "broken: what a command that obeys TERM leaves behind in its group is killed" {
    begin holdfast run x -- sh -c 'sh -c "trap \"\" TERM; echo \$\$ >grandchild; while :; do sleep 0.05; done" & trap "exit 0" TERM; while [ ! -s grandchild ]; do sleep 0.02; done; touch ready; wait'
    pid=$!
    eventually test -e ready
    holdfast break x --token "$(token_of x)"
    ends_with 76 $pid
    eventually is_gone "$(cat grandchild)"
}

@test "broken, --on-lost=kill: KILL at once" {
    begin holdfast run x --on-lost=kill -- sh -c 'trap "touch got" TERM; touch ready; while :; do sleep 0.05; done'
    pid=$!
    eventually test -e ready
    holdfast break x --token "$(token_of x)"
    ends_with 76 $pid
    [[ ! -e got ]]
}

@test "broken, --on-lost=warn: the command goes on, and the code is 76" {
    begin holdfast run x --on-lost=warn -- sh -c 'touch ready; while [ ! -e go ]; do sleep 0.05; done; touch finished'
    pid=$!
    eventually test -e ready
    holdfast break x --token "$(token_of x)"
    eventually grep -q "goes on without it" err
    touch go
    ends_with 76 $pid
    [[ -e finished ]]
}

@test "a lease with a ttl is renewed for as long as the command runs" {
    begin holdfast run x --ttl 1s -- sleep 3
    pid=$!
    for i in 1 2 3 4 5; do
        sleep 0.5
        exits 75 holdfast run x -n -- true
    done
    ends_with 0 $pid
}

@test "--max-hold: TERM early enough that KILL lands before the end" {
    start=$(date +%s%N)
    begin holdfast run x --max-hold 2s --kill-after 500ms -- sh -c 'trap "date +%s%N >term" TERM; touch ready; while :; do sleep 0.01; done'
    pid=$!
    ends_with 76 $pid
    took=$((($(date +%s%N) - start) / 1000000))
    termed=$((($(cat term) - start) / 1000000))
    echo "TERM after ${termed} ms, the end after ${took} ms"
    ((termed >= 1400 && termed < 1900))
    ((took >= 1900 && took < 2600))
}

# A lease of 3 s that is never renewed, in a run with the options given; its command notes TERM.
begin_unrenewed() {
    export HOLDFAST_TEST_VALID_MS=3000 ASAN_OPTIONS=verify_asan_link_order=0
    begin env LD_PRELOAD="$HOLDFAST_BUILD/bin/test/cli_norenew.so" holdfast run x --ttl 3s "$@" -- \
        env -u LD_PRELOAD sh -c 'trap "date +%s%N >term" TERM; touch ready; while :; do date +%s%N >alive; sleep 0.01; done'
    pid=$!
    start=$(date +%s%N)
}
since_start() { echo $((($1 - start) / 1000000)); }

@test "a lease that cannot be renewed: TERM, then KILL before it ends" {
    begin_unrenewed --kill-after 1s
    ends_with 76 $pid
    echo "TERM after $(since_start "$(cat term)") ms, alive until $(since_start "$(cat alive)") ms"
    (($(since_start "$(cat term)") >= 1700 && $(since_start "$(cat term)") < 2600))
    (($(since_start "$(cat alive)") >= 2600 && $(since_start "$(cat alive)") < 3000))
    grep -q "could not be renewed; ending the command" err
}

@test "a lease that cannot be renewed, --on-lost=kill: no TERM, KILL before it ends" {
    begin_unrenewed --on-lost=kill
    ends_with 76 $pid
    (($(since_start "$(cat alive)") >= 2600 && $(since_start "$(cat alive)") < 3000))
    [[ ! -e term ]]
}

@test "a run that was stopped past its lease does not continue the command: it kills it" {
    begin holdfast run x --ttl 1s --kill-after 400ms -- sh -c 'trap "touch got" TERM; touch ready; while :; do date +%s%N >alive; sleep 0.02; done'
    pid=$!
    eventually test -e ready
    child=$(pgrep -P $pid)
    kill -STOP "$child" $pid
    eventually is_free x
    exits 0 holdfast run x -n -- touch other
    before=$(cat alive)
    kill -CONT $pid
    ends_with 76 $pid
    [[ $(cat alive) == "$before" && ! -e got ]]
}

@test "--max-hold that is over is not a renewal that failed" {
    exits 76 holdfast run --max-hold 1s x -- sleep 30
    [[ $output == *"--max-hold is over"* ]]
}
