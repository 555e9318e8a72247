#!/usr/bin/env bats
# `holdfast latch` and `holdfast barrier`: several participants that wait for each other.
load helper

# Has somebody come? A barrier for one lets us through unless others are at it.
somebody_came() { holdfast -q barrier "$1" --parties 1 -n 2>/dev/null; (($? == 65)); }

@test "latch: each counts once, and when all have it opens" {
    exits 75 holdfast latch gate
    says "there is no such latch"
    exits 0 holdfast latch gate --count 2
    exits 0 holdfast latch gate --down --as ada
    exits 0 holdfast latch gate --down --as ada
    [[ $(holdfast latch gate) == "1 of 2 have yet to count down" ]]
    [[ $(holdfast latch gate --json | jq -c .) == '{"name":"gate","count":2,"left":1}' ]]
    exits 75 holdfast latch gate --wait -n
    exits 4 holdfast latch gate --wait -w 10ms -E 4
    begin sh -c 'holdfast latch gate --wait && touch open'
    exits 0 holdfast latch gate --down
    eventually test -e open
    exits 0 holdfast latch gate --wait -n
    exits 0 holdfast latch gate --remove
    exits 75 holdfast latch gate --remove
}

@test "latch: a command counts down when it has succeeded; one that fails or dies breaks it" {
    holdfast latch gate --count 1
    exits 0 holdfast latch gate --down --as ada -- sh -c '[ "$(holdfast latch gate --json | jq .left)" = 1 ]'
    exits 0 holdfast latch gate --wait
    for how in 'exit 3' 'kill -KILL $PPID'; do
        holdfast latch gate --remove
        holdfast latch gate --count 2
        begin holdfast latch gate --down --as bob -- sh -c "touch at-it; until [ -e go ]; do sleep 0.02; done; $how"
        eventually test -e at-it
        begin sh -c 'holdfast latch gate --wait 2>said; echo $? >code.tmp; mv code.tmp code'
        touch go
        eventually test -e code
        [[ $(cat code) == 76 ]]
        grep -q "'bob' is gone" said
        rm at-it go code
    done
}

@test "barrier: all go on together, again and again" {
    for round in 1 2; do
        begin sh -c 'holdfast barrier ring --parties 3 && touch a'
        begin sh -c 'holdfast barrier ring --parties 3 && touch b'
        eventually somebody_came ring
        exits 65 holdfast barrier ring --parties 2
        [[ ! -e a && ! -e b ]]
        exits 0 holdfast barrier ring --parties 3
        eventually test -e a -a -e b
        rm a b
    done
    exits 75 holdfast barrier ring --parties 2 -n
    exits 75 holdfast barrier ring --parties 2 -w 10ms
    exits 0 holdfast -q barrier ring --parties 2 -n -E 0
}

@test "barrier: a signal takes the arrival back, a death breaks it for all" {
    begin holdfast barrier ring --parties 3 --as bob
    bob=$!
    eventually somebody_came ring
    begin holdfast barrier ring --parties 3 --as ada
    ada=$!
    eventually eval '[[ $(holdfast ls -1 | grep -c ring) == 2 ]]'
    kill -TERM $ada
    wait $ada && false || [[ $? == 143 ]]
    [[ $(state_of $bob) != Z ]]
    begin sh -c 'holdfast barrier ring --parties 3 --as carol 2>said; echo $? >code.tmp; mv code.tmp code'
    kill -KILL $bob
    eventually test -e code
    [[ $(cat code) == 76 ]]
    grep -q "'bob' is gone" said
    is_free ring

    # A participant that came and died while nobody else was there neither counts for the next ones nor
    # blocks them.
    begin holdfast barrier ring --parties 2 --as bob
    bob=$!
    eventually somebody_came ring
    kill -KILL $bob
    eventually is_gone $bob
    exits 75 holdfast barrier ring --parties 2 -n
    begin holdfast barrier ring --parties 2 --as bob
    bob=$!
    eventually somebody_came ring
    kill -KILL $bob
    eventually is_gone $bob
    exits 75 holdfast barrier ring --parties 3 -n
}

@test "barrier with commands: they start together, and none exits before all have ended" {
    begin sh -c 'holdfast barrier ring --parties 2 --as ada -- touch ada; echo $? >ada.code'
    eventually eval '[[ $(holdfast ls -1 | grep -c ring) == 1 ]]'
    [[ ! -e ada ]]
    begin sh -c 'holdfast barrier ring --parties 2 --as bob -- sh -c "until [ -e go ]; do sleep 0.02; done; exit 5"; echo $? >bob.code'
    eventually test -e ada
    [[ ! -e ada.code ]]
    touch go
    eventually test -s ada.code -a -s bob.code
    [[ $(cat ada.code bob.code | xargs) == "0 5" ]]

    # It is no lease of the name: a run inside is an ordinary one.
    exits 0 holdfast barrier solo --parties 1 -- sh -c 'holdfast run solo --status-fd 1 -- true | grep -q "nested.: *false"'

    rm go ada ada.code # one dies inside
    begin holdfast barrier ring --parties 2 --as bob -- sleep 1000
    bob=$!
    begin sh -c 'holdfast barrier ring --parties 2 --as ada -- touch ada; echo $? >code.tmp; mv code.tmp ada.code'
    eventually test -e ada
    kill -KILL $bob
    eventually test -e ada.code
    [[ $(cat ada.code) == 76 ]]
}

@test "usage" {
    exits 64 holdfast barrier ring
    exits 64 holdfast barrier ring --parties 0
    exits 64 holdfast latch gate --count 2 --wait
    exits 64 holdfast latch gate --wait -- true
    exits 64 holdfast latch gate --down --as "$(printf '%065d' 0)"
}
