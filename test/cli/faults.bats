#!/usr/bin/env bats
# `holdfast faults`: what it finds, that it asks before, and that nothing is left behind.
load helper


# The program that the verb executes, as the verb does it, but for less than a minute.
faults() {
    local seconds=$1 url=$2
    shift 2
    "$HOLDFAST_BUILD/bin/holdfast-faults" --stores-fd=9 "--seconds=$seconds" --yes "$@" 9< <(printf '\0%s\0' "$url")
}

@test "faults on the embedded store: nothing is found, and wrong clients are caught" {
    make_store
    faults 10 "file:$dir/store" --json >found 2>said
    grep 'file:.* (lmdb)' said
    grep 'Connections are not cut: a proxy stands only before one server, without TLS' said
    [[ $(jq -c '[.[].fault]' found) == '["client-kill","client-stop"]' ]]
    jq -e 'all(.right.acquisitions > 0 and .right.strikes > 0)' found
    jq -e 'all(.right.double_holds == 0 and .right.fenced.lost == 0 and .right.tokens_back == 0)' found
    jq -e 'all(.right.counter.lost == 0 and .right.cell.lost == 0 and .right.hung == 0)' found
    jq -e 'all(.wrong.client == "early" and .wrong.double_holds > 0)' found
    [[ $(holdfast ls --names) == "" ]]
    [[ $(grep -o 'faults/[0-9]*/' said) == faults/*/ ]]
}

@test "connections of a server are cut, and an interrupt ends it in order" {
    # shellcheck disable=SC2016 # for the shell that has a server
    "$HOLDFAST_BUILD/bin/test/with_server" redis sh -c '
        holdfast faults --yes --minutes 9 "redis://127.0.0.1:$HOLDFAST_TEST_PORT" 2>said &
        while [ "$(holdfast -S "redis://127.0.0.1:$HOLDFAST_TEST_PORT" ls --names | grep -c faults/)" -lt 1 ]; do sleep 0.05; done
        kill -TERM $!
        wait $!
        echo "status $?"
        holdfast -S "redis://127.0.0.1:$HOLDFAST_TEST_PORT" ls --names' >out 3>&-
    grep 'and their connections are cut' said
    [[ $(cat out) == 'status 130' ]]
}

@test "without a terminal it needs --yes; a store that is away is 69" {
    run holdfast faults "file:$dir/store" </dev/null
    [[ $status == 64 && $output == *--yes* ]]
    run holdfast faults --yes redis://127.0.0.1:1
    [[ $status == 69 && $output == *'Connection refused'* ]]
    run holdfast faults --yes -S "file:$dir/store" "file:$dir/other"
    [[ $status == 64 ]]
    run "$HOLDFAST_BUILD/bin/holdfast-faults"
    [[ $status == 64 && $output == *'`holdfast faults` runs this program'* ]]
}

@test "on a terminal it asks, and no is no" {
    make_store
    # shellcheck disable=SC2016
    python3 - "$dir" <<'EOP'
import os, pty, sys
said = b""
pid, fd = pty.fork()
if pid == 0:
    os.execvp("holdfast", ["holdfast", "faults", "file:%s/store" % sys.argv[1]])
while b"Type yes: " not in said:
    said += os.read(fd, 1000)
os.write(fd, b"no\n")
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert status == 64, status
assert b"not for a store that others need now" in said, said
EOP
}
