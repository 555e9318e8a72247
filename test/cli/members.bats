#!/usr/bin/env bats
# join and members: a list of those that are alive.
load helper

are() { [[ $(holdfast -q members group) == "$1" ]]; }

@test "a member is one while its command runs" {
    exits 0 holdfast -q join group --value one -- sh -c 'holdfast -S "$HOLDFAST_STORE" members group; [ "$HOLDFAST_NAME" = group ]'
    [[ $output == one ]]
    exits 0 holdfast members group
    [[ -z $output ]]
    exits 3 holdfast join group -- sh -c 'exit 3'
}

@test "two of them, in order; one leaves by a signal, one is killed" {
    begin holdfast join group --value one
    first=$!
    eventually are one
    begin holdfast join group --value two -- sleep 1000
    second=$!
    eventually are $'one\ntwo'
    exits 0 holdfast --json members group
    says '"value": "two"'
    kill -TERM $first
    eventually are two
    kill -KILL $second
    eventually are ''
}

@test "--watch prints those that are there, that join and that leave" {
    begin holdfast join group --value one
    eventually are one
    begin sh -c 'exec holdfast members group --watch >seen'
    eventually grep -q 'member .*one' seen
    begin holdfast join group --value two
    pid=$!
    eventually grep -q 'joined .*two' seen
    kill -TERM $pid
    eventually grep -q 'left .*two' seen
}

@test "a writer keeps members out, and bad input is refused" {
    begin holdfast run -x group -- sleep 1000
    eventually is_held group
    exits 75 holdfast join -n group -- true
    exits 64 holdfast join -- true
    exits 64 holdfast join other --value "$(printf "a\001b")" -- true
}

@test "a cell that is bound to a lease is there while the lease is" {
    begin holdfast run job --cell address=10.0.0.7 -- sleep 1000
    pid=$!
    # shellcheck disable=SC2317 # called by eventually
    there() { [[ $(holdfast -q cell get address) == 10.0.0.7 ]]; }
    eventually there
    exits 75 holdfast run other --cell address=mine -- true
    kill -KILL $pid
    eventually not there
    exits 1 holdfast -q cell get address
    exits 0 holdfast run other --cell address=mine -- holdfast cell get address
    [[ $output == mine ]]
    exits 64 holdfast run other --cell address -- true
}

@test "a cell that was bound to a lease keeps its name until it is deleted; a lease that is held protects it" {
    begin holdfast run job --cell address=10.0.0.7 -- sleep 1000
    pid=$!
    # shellcheck disable=SC2317 # called by eventually
    there() { [[ $(holdfast -q cell get address) == 10.0.0.7 ]]; }
    eventually there
    exits 65 holdfast cell rm address
    there
    kill "$pid"
    eventually not there
    exits 65 holdfast cell put address mine
    exits 0 holdfast cell rm address
    exits 1 holdfast cell rm address
    exits 0 holdfast cell put address mine
    holdfast run deploy -- holdfast guard site --set v1
    exits 65 holdfast cell rm site # no remnant: it is a guarded thing
}
