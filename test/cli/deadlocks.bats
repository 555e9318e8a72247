#!/usr/bin/env bats
# Runs inside runs that wait for each other in a circle; and what `deadlocks` shows of it.
load helper

# circle NAME OTHER: a run of NAME with a run of OTHER inside, which starts when `go` is there. Its code: code.NAME.
circle() {
    begin sh -c 'holdfast run "$0" -- sh -c "touch in.$0; while [ ! -e go ]; do sleep 0.02; done; holdfast run $1 -- touch got.$1"
        echo $? >tmp.$0; mv tmp.$0 code.$0' "$1" "$2"
}

@test "a circle of two runs: one gives up and says why, the other goes on" {
    export HOLDFAST_STORE="file:$dir/store?deadlock_check=100ms"
    circle a b
    circle b a
    eventually test -e in.a
    eventually test -e in.b
    touch go
    eventually test -e code.a
    eventually test -e code.b
    [[ "$(sort code.a code.b | tr '\n' ' ')" == "0 75 " ]]
    grep -q "acquire '[ab]': waiting for it would be a deadlock: '[ab]' held by .* (token [0-9]*), who waits for '[ab]', which we hold (token [0-9]*)" err
    exits 0 holdfast deadlocks
    [[ $output == "nobody waits in a circle" ]]
}

@test "deadlocks: shown while they last, as text and as JSON" {
    export HOLDFAST_STORE="file:$dir/store?deadlock_check=1h"
    circle a b
    circle b a
    eventually test -e in.a
    eventually test -e in.b
    exits 0 holdfast deadlocks -q
    touch go
    eventually has_waiters a 1
    eventually has_waiters b 1
    exits 1 holdfast deadlocks
    [[ $output == *"deadlock of 2:"* ]]
    [[ $output =~ holds\ \'a\'\ \(token\ [0-9]+\)\ and\ waits\ for\ \'b\' ]]
    [[ $output =~ holds\ \'b\'\ \(token\ [0-9]+\)\ and\ waits\ for\ \'a\' ]]
    exits 1 holdfast deadlocks --json
    echo "$output" | python3 -c '
import json, sys
circle, = json.load(sys.stdin)
assert sorted(link["name"] for link in circle) == ["a", "b"], circle
assert all(int(link["token"]) > 0 and link["pid"] > 0 for link in circle), circle
assert circle[0]["session"] != circle[1]["session"], circle'
    exits 0 holdfast show a
    [[ $output != *$'\x1f'* ]]
}

@test "a session that somebody made up means nothing" {
    HOLDFAST_SESSION=nonsense exits 0 holdfast run a -- true
    HOLDFAST_SESSION='' exits 0 holdfast run a -- sh -c '[ -n "$HOLDFAST_SESSION" ]'
}

@test "it takes no operand" {
    exits 64 holdfast deadlocks nonsense
}
