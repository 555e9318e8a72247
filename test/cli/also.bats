#!/usr/bin/env bats
# run --also: several names, all or none.
load helper

@test "all are held, the command has a token of each, all are released" {
    exits 0 holdfast run a --also b --also c -- sh -c '
        for name in a b c; do holdfast -S "$HOLDFAST_STORE" show $name | grep -q "^1 " || exit 1; done
        set -- $HOLDFAST_TOKENS
        [ $# = 3 ] && [ "$1" = "$HOLDFAST_TOKEN" ] && [ "$2" -gt 0 ] && [ "$3" -gt 0 ]'
    exits 0 holdfast ls -1
    [[ -z $output ]]
    exits 0 holdfast run a -- sh -c '[ "$HOLDFAST_TOKENS" = "$HOLDFAST_TOKEN" ]'
}

@test "one is busy: with -n and -w nothing is held, without they wait" {
    hold b
    exits 75 holdfast run -n a --also b -- true
    says "'b'"
    exits 64 holdfast run a --also b --also a -- true
    says "'a' is named twice"
    exits 75 holdfast run -w 100ms a --also b -- true
    exits 0 holdfast run -n -E 0 c --also b -- true
    exits 0 holdfast ls -1
    [[ $output == b ]]
    begin holdfast run a --also b -- touch got
    eventually has_waiters b 1
    exits 75 holdfast run -n a -- true # has it while it waits for the next
    kill "$held_pid"
    eventually test -e got
}

@test "a signal ends the waiting, and leaves nothing behind" {
    hold b
    begin holdfast run a --also b -- true
    pid=$!
    eventually has_waiters b 1
    kill -TERM $pid
    code=0
    wait $pid || code=$?
    [[ $code == 143 ]]
    exits 0 holdfast ls -1
    [[ $output == b ]]
}

@test "whatever order they are named in, runs do not block each other" {
    for i in 1 2 3; do
        begin holdfast run a --also b --also c -- sh -c "echo 1 >>ended"
        begin holdfast run c --also b --also a -- sh -c "echo 1 >>ended"
        begin holdfast run b --also a -- sh -c "echo 1 >>ended"
    done
    for pid in "${begun[@]}"; do wait "$pid"; done
    [[ $(wc -l <ended) == 9 ]]
}

@test "the loss of any one ends the command: 76" {
    begin sh -c 'code=0; holdfast run a --also b -- sh -c "echo \$HOLDFAST_TOKENS >tokens.tmp; mv tokens.tmp tokens; exec sleep 1000" || code=$?; echo $code >code.tmp; mv code.tmp code'
    eventually test -e tokens
    read -r first second <tokens
    exits 0 holdfast break b --token "$second"
    eventually test -e code
    [[ $(cat code) == 76 ]]
    grep -q "the lease of 'b' is lost" err
}

@test "a run inside of one of the names shares it; several are not shared" {
    exits 0 timeout 20 holdfast run a --also b -- sh -c '
        set -- $HOLDFAST_TOKENS
        [ "$(holdfast run b -- sh -c "echo \$HOLDFAST_TOKEN")" = "$2" ]'
    exits 75 timeout 20 holdfast run a -- holdfast run a --also b -- true
    [[ $output == *"the outer \`run\` holds 'a' already"* ]]
}

@test "what cannot be" {
    exits 64 holdfast run a --also a -- true
    [[ $output == *"name"* ]]
    exits 64 holdfast run a --also "" -- true
    exits 64 holdfast run a --also
}

@test "--status-fd names them all" {
    holdfast run --status-fd 9 a --also b -- true 9>events
    python3 - <<'END'
import json
event = [e for e in map(json.loads, open("events")) if e["event"] == "acquired"][0]
assert event["name"] == "a" and int(event["token"]) > 0, event
assert [o["name"] for o in event["also"]] == ["b"] and int(event["also"][0]["token"]) > 0, event
END
}
