#!/usr/bin/env bats
# The slots of a semaphore: their numbers, and `resize`.
load helper

slot_is() { [[ $(cat "$1") == "$2" ]]; }

@test "run --slots: the command gets the number of its slot" {
    begin holdfast run s --slots 3 -- bash -c 'echo $HOLDFAST_SLOT >first; while [ ! -e stop ]; do sleep 0.02; done'
    eventually test -s first
    slot_is first 0
    holdfast run s --slots 3 -- bash -c 'echo $HOLDFAST_SLOT >second'
    slot_is second 1
    holdfast run s --slots 3 --permits 2 -- bash -c 'echo $HOLDFAST_SLOT >third'
    slot_is third 1,2
    holdfast show s >shown
    grep -q 'slot 0' shown
    [[ $(holdfast show s --json | jq -c '.holders[0].slots') == '[0]' ]]
    # A mutex inside has none, and does not pass on ours.
    holdfast run s --slots 3 -- holdfast run other -- bash -c 'echo "[$HOLDFAST_SLOT]" >inner'
    slot_is inner '[]'
    touch stop
}

@test "lock --slots: the numbers are in the JSON" {
    holdfast lock s --slots 20 --permits 2 --json >json
    [[ $(jq -c .slots json) == '[0,1]' ]]
    [[ $(holdfast lock s --slots 20 --permits 17 --json | jq -c .slots) == null ]]
    [[ $(holdfast lock m --json | jq -c .slots) == null ]]
}

@test "resize: a set size counts, whatever --slots says, until --reset" {
    holdfast resize s --slots 2
    [[ $(holdfast show s --json | jq -c '[.kind, .capacity, .resized, .taken]') == '["semaphore",2,true,0]' ]]
    holdfast show s | grep -q 'its size was set'
    exits 0 holdfast show s --check
    [[ $(holdfast ls --json | jq -c .names) == '[]' ]]
    holdfast lock s --slots 9
    holdfast lock s --slots 9
    exits 75 holdfast lock -n s --slots 9
    holdfast ls | grep -q '2/2 (set)'
    exits 75 holdfast show s --check
    exits 65 holdfast lock -n s
    says "in use as a semaphore of 2"
    [[ $(holdfast resize s --slots 3 --json | jq -c .) == '{"name":"s","slots":3}' ]]
    holdfast lock -n s --slots 9
    exits 75 holdfast lock -n s --slots 9
}

@test "resize: those that wait and fit are let in at once" {
    begin holdfast run s --slots 1 -- bash -c 'touch ready; while [ ! -e stop ]; do sleep 0.02; done'
    eventually test -e ready
    begin holdfast run -w 60s s --slots 1 -- touch second
    eventually bash -c '[[ $(holdfast show s --json | jq ".waiters | length") == 1 ]]'
    holdfast resize s --slots 2
    eventually test -e second
    touch stop
    [[ $(holdfast resize s --reset --json | jq -c .) == '{"name":"s","slots":null}' ]]
    eventually bash -c 'holdfast show s | grep -q free'
}

@test "resize: refusals" {
    exits 64 holdfast resize s
    says "either --slots N or --reset"
    exits 64 holdfast resize s --slots 2 --reset
    exits 64 holdfast resize s --slots 0
    exits 64 holdfast resize
    holdfast lock m
    exits 65 holdfast resize m --slots 2
    says "in use as a mutex"
}
