#!/usr/bin/env bats
# run --any: whichever of several names comes free first.
load helper

@test "the first that is free, in the order given; HOLDFAST_NAME says which" {
    exits 0 holdfast -q run --any a,b,c -- sh -c 'echo "$HOLDFAST_NAME"; [ "$HOLDFAST_TOKENS" = "$HOLDFAST_TOKEN" ]'
    [[ $output == a ]]
    hold a
    exits 0 holdfast run --any a,b,c -- sh -c 'echo "$HOLDFAST_NAME"; holdfast -S "$HOLDFAST_STORE" ls -1'
    [[ $output == $'b\na\nb' ]]
    exits 0 holdfast ls -1
    [[ $output == a ]]
}

@test "all are busy: -n and -w exit with 75, else it waits in every queue" {
    hold a
    first=$held_pid
    hold b
    exits 75 holdfast run -n --any a,b -- true
    says "any of 2 names"
    says "'a' is held by"
    exits 75 holdfast run -w 100ms --any a,b -- true
    exits 0 holdfast run -n -E 0 --any a,b -- true
    begin holdfast run --any a,b -- sh -c 'echo $HOLDFAST_NAME >got.tmp; mv got.tmp got'
    eventually has_waiters a 1
    eventually has_waiters b 1
    kill "$held_pid"
    eventually test -e got
    [[ $(cat got) == b ]]
    eventually has_waiters a 0
    kill "$first"
}

@test "a signal ends the waiting, and leaves nothing behind" {
    hold a
    begin holdfast run --any a -- true
    pid=$!
    eventually has_waiters a 1
    kill -TERM $pid
    code=0
    wait $pid || code=$?
    [[ $code == 143 ]]
    eventually has_waiters a 0
}

@test "inside of a run that holds one of them it runs under that lease" {
    exits 0 holdfast run b -- sh -c 'holdfast run --any a,b -- sh -c "echo \$HOLDFAST_NAME \$HOLDFAST_TOKEN"; echo b $HOLDFAST_TOKEN'
    mapfile -t lines < <(grep "^b " <<<"$output")
    [[ ${#lines[@]} == 2 && ${lines[0]} == "${lines[1]}" ]]
}

@test "bad input is refused" {
    exits 64 holdfast run a --any b -- true
    says "instead of NAME"
    exits 64 holdfast run --any a,b --also c -- true
    exits 64 holdfast run --any a,,b -- true
    exits 64 holdfast run --any a,b,a -- true
    says "'a' is named twice"
    exits 64 holdfast run --any "$(seq -s, 64)" --any 65 --any 66 -- true
    says "at most 64 names"
}
