#!/usr/bin/env bats
# `holdfast limit`: what is taken and refused, the command, waiting and its end by a signal.
load helper

@test "so many and no more; refused is 75, or what -E says" {
    exits 0 holdfast limit x --rate 2/1h
    exits 0 holdfast limit x --rate 2/1h -n -- true
    exits 75 holdfast limit x --rate 2/1h -n -- touch ran
    says "'x' has reached its limit"
    exits 75 holdfast limit x --rate 2/1h -w 5m -- touch ran # too long: said at once
    exits 9 holdfast limit x --rate 2/1h -n -E 9
    exits 0 holdfast limit x --rate 2/1h -n -E 0
    [[ -z $output && ! -e ran ]]
    exits 65 holdfast limit x --rate 3/1h -n
}

@test "the command takes our place" {
    exits 7 holdfast limit x --rate 9/1h -- sh -c 'exit 7'
    exits 143 holdfast limit x --rate 9/1h -- sh -c 'kill -TERM $$'
    exits 127 holdfast limit x --rate 9/1h -- ./nosuch
    exits 126 holdfast limit x --rate 9/1h -- "$dir"
    [[ $(echo in | holdfast limit x --rate 9/1h -- cat) == in ]]
    [[ $(holdfast limit x --rate 9/1h -- sh -c 'echo $HOLDFAST_STORE') == "file:$dir/store" ]]
    holdfast limit x --rate 9/1h -- sh -c 'grep -E "Sig(Blk|Ign)" /proc/self/status' >inside
    sh -c 'grep -E "Sig(Blk|Ign)" /proc/self/status' >plain
    cmp inside plain
}

@test "permits, burst and algorithms; --look and --json" {
    exits 0 holdfast limit b --rate 2/1h --algorithm bucket --burst 5 --permits 4
    exits 75 holdfast limit b --rate 2/1h --algorithm bucket --burst 5 --permits 2 -n
    exits 0 holdfast limit b --rate 2/1h --algorithm=bucket --burst 5 --look
    says "b: 1 left, all again in "
    exits 0 holdfast limit s --rate 2/1h --algorithm sliding --json
    [[ $(jq -c '[.name, .granted, .left, .retry_ms]' <<<"$output") == '["s",true,"1","0"]' ]]
    exits 0 holdfast limit s --rate 2/1h --algorithm sliding --look --json
    [[ $(jq -r '.left' <<<"$output") == 1 ]]
    output=$(holdfast limit s --rate 2/1h --algorithm sliding --permits 2 -nq --json) && false
    [[ $(jq -c '[.granted, .left]' <<<"$output") == '[false,"1"]' ]]
}

@test "the rule is set, shown and reset; what was used stays used" {
    exits 75 holdfast limit x --look
    exits 0 holdfast limit x --rate 4/1h --permits 3
    exits 0 holdfast limit x --look
    says "x: 1 left, all again in "
    says "(fixed, 4 in 1h)"
    exits 0 holdfast limit x --set 10/1h
    [[ -z $output ]]
    exits 0 holdfast limit x --rate 4/1h --permits 4 --json
    [[ $(jq -c '[.left, .rate, .per_ms, .algorithm, .set]' <<<"$output") == '["3","10","3600000","fixed",true]' ]]
    exits 0 holdfast limit x --set 2/1h --json
    [[ $(jq -c '[.left, .rate, .set, .granted]' <<<"$output") == '["0","2",true,null]' ]]
    exits 65 holdfast limit x --rate 4/1h --permits 3 -n
    exits 65 holdfast limit x --set 2/1h --algorithm sliding
    exits 75 holdfast limit x --rate 4/1h -n
    exits 0 holdfast limit x --look
    says ", set)"
    exits 0 holdfast limit x --reset
    exits 75 holdfast limit x --rate 8/1h --permits 2 -n # 7 are used
    exits 0 holdfast limit x --rate 8/1h -n
    exits 0 holdfast limit b --set 2/1h --algorithm bucket --burst 5
    exits 0 holdfast limit b --look --json
    [[ $(jq -c '[.left, .burst]' <<<"$output") == '["5","5"]' ]]
}

@test "bad options are named" {
    for rate in 5 /1m 5/ 0/1m 5/1x 5/0s x/1m 9999999999/1m; do
        exits 64 holdfast limit x --rate "$rate" -n
        says "$rate"
    done
    exits 64 holdfast limit x -n
    says "--rate"
    exits 64 holdfast limit x --rate 5/1m --burst 3
    exits 64 holdfast limit x --rate 5/1m --permits 6
    exits 64 holdfast limit x --rate 5000/1m --algorithm sliding
    exits 64 holdfast limit x --rate 5/1m -n -w 1s
    exits 64 holdfast limit x --rate 5/1m --
    exits 64 holdfast limit x --rate 5/1m --look -- true
    exits 64 holdfast limit x --set 5/1m -- true
    exits 64 holdfast limit x --set 5
    says "--set '5'"
    exits 64 holdfast limit x --set 5/1m --reset
    exits 64 holdfast limit x --set 5/1m --rate 5/1m
    exits 64 holdfast limit x --set 5/1m --burst 3
}

@test "waits for its moment" {
    exits 0 holdfast limit x --rate 1/200ms
    exits 0 holdfast limit x --rate 1/200ms --json
    [[ $(jq -r .granted <<<"$output") == true ]]
    exits 0 holdfast limit x --rate 1/200ms -w 1m -- true
}

# The moment after the next, where one waits and nobody else does.
has_reserved() { (($(holdfast limit x --rate 1/1h -nq --json | jq -r .retry_ms) > 3600000)); }

@test "a signal ends the waiting, and what was reserved is given back" {
    holdfast limit x --rate 1/1h
    begin holdfast limit x --rate 1/1h -- touch ran
    waiter=$!
    eventually has_reserved
    kill -TERM $waiter
    code=0
    wait $waiter || code=$?
    ((code == 143))
    not has_reserved
    [[ ! -e ran ]]
}
