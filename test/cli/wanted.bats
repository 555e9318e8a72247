#!/usr/bin/env bats
# Others want what a run holds: --on-wanted, --yield-signal, ask.
load helper

ends_with() { local status=0; wait "$2" || status=$?; [[ $status == "$1" ]] || { echo "exit code $status"; return 1; }; }
events() { jq -r .event <status | xargs; }
says_event() { [[ " $(events) " == *" $1 "* ]]; }
is_told() { [[ $(wc -l <got) == "$1" ]]; }
goes_on() { (($(wc -c <steps) > $(cat last))); }

# A command that writes `ready`, and then its steps into `steps`, until `stop` is there.
worker() {
    begin holdfast run x --status-fd 9 "$@" -- bash -c 'trap "echo wanted >>got" USR1; echo $HOLDFAST_TOKEN >token; touch ready
        while [ ! -e stop ]; do echo . >>steps; sleep 0.02; done' 9>status
    runner=$!
    eventually test -e ready
}

@test "on-wanted: the command is told once for each time that others begin to wait" {
    worker --on-wanted USR1
    begin holdfast run -w 30s x -- touch second
    eventually test -s got
    [[ $(cat got) == wanted ]]
    touch stop
    ends_with 0 $runner
    eventually test -e second
    [[ $(events) == "acquired started wanted exited released" ]]
    [[ $(jq -r 'select(.event == "wanted").name' <status) == x ]]
}

@test "on-wanted: the waiter leaves, and the signal goes to the command alone" {
    begin holdfast run x --on-wanted SIGUSR1 --status-fd 9 -- bash -c 'trap "echo wanted >>got" USR1; sleep 1000 & echo $! >grandchild; touch ready
        while [ ! -e stop ]; do sleep 0.02; done; kill $!' 9>status
    runner=$!
    eventually test -e ready
    exits 75 holdfast run -w 3s x -- true
    eventually says_event unwanted
    begin holdfast run -w 30s x -- true
    eventually is_told 2
    kill -0 "$(cat grandchild)"
    touch stop
    ends_with 0 $runner
    [[ $(events) == "acquired started wanted unwanted wanted exited released" ]]
}

@test "without these options the holder hears nothing, and ask says so" {
    hold x
    [[ $(holdfast ls --json | jq '.names[0].holders[0].watched') == false ]]
    exits 69 holdfast ask x
    says "does not listen"
    exits 1 holdfast ask y
    says "nobody holds"
    exits 1 env HOLDFAST_STORE="file:$dir/none" holdfast ask y
    [[ ! -e $dir/none ]]
}

@test "ask: the holder is told what the asker says; -w waits until it is given away" {
    worker --on-wanted USR1
    exits 0 holdfast show x
    says "watched"
    exits 0 holdfast ask x --text $'please\e[2J'
    eventually says_event asked
    [[ $(jq -r 'select(.event == "asked").label' <status) == $'please\e[2J' ]]
    eventually grep -q "asks for .*: please" err
    not grep -q $'\e' err
    [[ ! -s got ]] # nobody waits
    exits 75 holdfast ask x -w 200ms
    says "still held"
    begin holdfast ask x -v -w 30s --json
    asker=$!
    eventually grep -q "was asked" err
    touch stop
    ends_with 0 $asker
    jq -e '.told and .released' out
}

@test "yield-signal: nobody waits, and it is kept" {
    worker --yield-signal USR2
    kill -USR2 $runner
    eventually says_event kept
    touch stop
    ends_with 0 $runner
    [[ $(events) == "acquired started kept exited released" ]]
}

@test "yield-signal: nothing of the command runs while others have it; then it goes on with a new token" {
    worker --yield-signal USR2
    begin holdfast run -w 30s x -- bash -c 'wc -c <steps >first; sleep 0.5; wc -c <steps >last; echo $HOLDFAST_TOKEN >between'
    other=$!
    eventually says_event wanted
    kill -USR2 $runner
    ends_with 0 $other
    eventually says_event granted
    [[ $(cat first) == $(cat last) ]]
    token=$(jq -r 'select(.event == "granted").token' <status)
    (($(cat token) < $(cat between) && $(cat between) < token))
    [[ $(holdfast show x --json | jq -r '.holders[0].token') == "$token" ]]
    eventually goes_on
    touch stop
    ends_with 0 $runner
    eventually is_free x
    [[ $(events) == "acquired started wanted yielded granted unwanted exited released" || $(events) == "acquired started wanted yielded granted exited released" ]]
}

@test "yield-signal: not granted again in time: the command is ended, and the code is 76" {
    worker --yield-signal USR2 -w 1s
    begin holdfast run -w 30s x -- sh -c 'touch theirs; while [ ! -e free ]; do sleep 0.02; done'
    other=$!
    eventually says_event wanted
    kill -USR2 $runner
    ends_with 76 $runner
    grep -q "yielded, and not granted again" err
    [[ -e theirs ]]
    touch free
    ends_with 0 $other
}

@test "yield-signal: TERM while it is away ends the waiting and the command" {
    worker --yield-signal USR2
    begin holdfast run -w 30s x -- sh -c 'while [ ! -e free ]; do sleep 0.02; done'
    other=$!
    eventually says_event wanted
    kill -USR2 $runner
    eventually says_event yielded
    kill -TERM $runner
    ends_with 76 $runner
    touch free
    ends_with 0 $other
    eventually is_free x
}

@test "what makes no sense is refused" {
    exits 64 holdfast run x --on-wanted NONSENSE -- true
    says "no signal"
    exits 64 holdfast run x --on-wanted STOP -- true
    exits 64 holdfast run x --on-wanted USR1 --also y -- true
    says "--also"
    exits 64 holdfast run x --yield-signal USR2 -- true
    says "--status-fd"
    exits 64 holdfast run x --yield-signal CHLD --status-fd 9 -- true 9>status
    exits 64 holdfast run x --yield-signal KILL --status-fd 9 -- true 9>status
    exits 64 holdfast ask
}

@test "on-wanted: a run that had to wait itself is told too" {
    begin holdfast run x -- sh -c 'while [ ! -e free ]; do sleep 0.02; done'
    eventually is_held x
    begin holdfast run x -w 30s --status-fd 9 --on-wanted USR1 -- bash -c 'trap "echo wanted >>got" USR1; touch ready
        while [ ! -e stop ]; do sleep 0.02; done' 9>status
    runner=$!
    eventually has_waiters x 1
    touch free
    eventually test -e ready
    exits 75 holdfast run -w 1s x -- true
    eventually says_event unwanted
    [[ $(cat got) == wanted ]]
    begin holdfast run -w 30s x -- true
    eventually is_told 2
    touch stop
    ends_with 0 $runner
}

@test "on-wanted: others wait already when the command starts: it lives, and is told when it can be" {
    begin holdfast run x -- sh -c 'while [ ! -e free ]; do sleep 0.02; done'
    eventually is_held x
    begin holdfast run x -w 30s --status-fd 9 --on-wanted USR1 -- bash -c 'touch begun; while [ ! -e go ]; do sleep 0.02; done
        trap "echo wanted >>got" USR1; while [ ! -e stop ]; do sleep 0.02; done' 9>status
    runner=$!
    eventually has_waiters x 1
    begin holdfast run -w 30s x -- true
    last=$!
    eventually has_waiters x 2
    touch free
    eventually test -e begun
    eventually says_event wanted
    sleep 0.3 # so that a signal that is sent too early ends it
    touch go
    eventually is_told 1
    touch stop
    ends_with 0 $runner
    ends_with 0 $last
}

@test "on-wanted: TERM ends a command that does nothing about it" {
    begin holdfast run x --on-wanted TERM -- sleep 1000
    runner=$!
    eventually is_held x
    exits 0 holdfast run -w 30s x -- true
    ends_with 143 $runner
}

@test "yield-signal: a run that still waits is not ended by it" {
    begin holdfast run x -- sh -c 'while [ ! -e free ]; do sleep 0.02; done'
    eventually is_held x
    begin holdfast run x -w 30s --yield-signal USR2 --status-fd 9 -- true 9>status
    runner=$!
    eventually has_waiters x 1
    kill -USR2 $runner
    sleep 0.2
    touch free
    ends_with 0 $runner
    [[ $(events) == "waiting acquired started exited released" ]]
}

@test "yield-signal: what could not work is refused" {
    exits 64 holdfast run x -n --yield-signal USR2 --status-fd 9 -- true 9>status
    says "-n"
    for signal in TERM INT QUIT HUP 32 33; do
        exits 64 holdfast run x --yield-signal $signal --status-fd 9 -- true 9>status
    done
    exits 64 holdfast run x --on-wanted 33 -- true
}
