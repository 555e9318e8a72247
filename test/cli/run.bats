#!/usr/bin/env bats
# `holdfast run`: exit codes, what the command gets, kinds of locks, status lines.
load helper

@test "the exit code is the command's, or 128 + its signal" {
    exits 0 holdfast run x -- true
    exits 7 holdfast run x -- sh -c 'exit 7'
    exits 143 holdfast run x -- sh -c 'kill -TERM $$'
    exits 137 holdfast run x -- sh -c 'kill -KILL $$'
    exits 127 holdfast run x -- ./nosuch
    says "cannot execute './nosuch'"
    touch notexec
    exits 126 holdfast run x -- ./notexec
    exits 126 holdfast run x -- "$dir"
    is_free x
}

@test "no shell in between; stdin and stdout are the command's" {
    [[ $(holdfast run x -- printf '%s|' 'a b' '$HOME' '*') == 'a b|$HOME|*|' ]]
    [[ $(echo in | holdfast run x -- cat) == in ]]
    [[ -z $(holdfast -v run x -- true 2>/dev/null) ]]
}

@test "what the command gets: name, token, store, and no descriptors of ours" {
    out=$(holdfast run 'a b' -- sh -c 'echo "$HOLDFAST_NAME $HOLDFAST_TOKEN $HOLDFAST_STORE"')
    [[ $out == "a b "[0-9]*" file:$dir/store" ]]
    first=$(holdfast run x -- sh -c 'echo $HOLDFAST_TOKEN')
    second=$(holdfast run x -- sh -c 'echo $HOLDFAST_TOKEN')
    ((second > first))
    # What we inherited, and the one socket for nested runs.
    plain=$(sh -c 'ls /proc/self/fd | xargs')
    inside=$(holdfast run x --ttl 10s -- sh -c 'ls /proc/self/fd | grep -v "^${HOLDFAST_RUN_FD%%:*}$" | xargs')
    [[ $inside == "$plain" ]] || { echo "$inside, not $plain"; false; }
}

# Without the two signals that the C library keeps for itself (32 and 33): it takes them back as soon as
# a process has threads, whatever was inherited.
signals_of() {
    "$@" grep -E 'Sig(Blk|Ign)' /proc/self/status | while read -r what mask; do
        printf '%s %x\n' "$what" $((0x$mask & ~0x180000000))
    done
}

@test "signals that are blocked or ignored reach the command as we got them" {
    plain=$(signals_of)
    inside=$(signals_of holdfast run x --)
    [[ $inside == "$plain" ]] || { echo "$inside, not $plain"; false; }
    export -f signals_of
    inside=$(bash -c 'trap "" HUP USR1; signals_of holdfast run x --')
    plain=$(bash -c 'trap "" HUP USR1; signals_of')
    [[ $inside == "$plain" ]] || { echo "$inside, not $plain"; false; }
    [[ $inside == *"SigIgn: "*201* ]]
    exits 3 python3 -c '
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp("holdfast", ["holdfast", "run", "x", "--", "sh", "-c", "exit 3"])'
}

@test "closed standard descriptors stay closed for the command and never hit the store" {
    holdfast run x -- sh -c '[ ! -e /proc/$$/fd/1 ] && [ ! -e /proc/$$/fd/2 ] && [ ! -e /proc/$$/fd/0 ]' <&- >&- 2>&-
    # Without placeholders the store's files would be descriptors 0, 1 and 2, and this would be written
    # into one.
    for i in 1 2 3; do holdfast -v run x -- true <&- >&- 2>&-; done
    exits 0 holdfast doctor -q
    [[ -z $output ]]
}

@test "busy: -n and -w give 75, -E another; -E 0 says nothing" {
    hold x
    exits 75 holdfast run -n x -- touch started
    says "not acquired"
    exits 75 holdfast run -w 50ms x -- touch started
    exits 4 holdfast run -n -E 4 x -- touch started
    exits 0 holdfast run -n -E 0 x -- touch started
    [[ -z $output ]]
    exits 0 holdfast run -v -n -E 0 x -- touch started
    says "not acquired"
    [[ ! -e started ]]
}

@test "busy: it says who holds it, and since when" {
    hold x --label 'the one'
    exits 75 holdfast run -n x -- true
    says "held by the one, pid $holder, for "
    [[ $output =~ ", since "[0-9]{4}-[0-9]{2}-[0-9]{2}" "[0-9:]{8} ]]
    exits 75 holdfast run -w 50ms x -- true
    says "held by the one, pid $holder, for "
    exits 75 holdfast lock -n x
    says "held by the one, pid $holder, for "
    exits 75 holdfast run -n free --also x -- true
    says "; 'x' is held by the one, pid $holder, for "
    exits 75 holdfast run -q -n x -- true
    [[ -z $output ]]
    hold s --slots 2
    begin holdfast run s --slots 2 -- sleep 1000
    eventually eval '[[ $(holdfast show s --json | jq .taken) == 2 ]]'
    exits 75 holdfast run s --slots 2 -n -- true
    says ", and by 1 more"
}

@test "busy: a label is no text for a terminal" {
    holdfast lock x --label $'\033]0;evil\007' >/dev/null
    exits 75 holdfast run -n x -- true
    says "held by "
    [[ $output != *$'\033'* && $output != *$'\007'* ]]
}

@test "--lock-delay keeps the name closed after a lease expired, not after a release" {
    exits 0 holdfast run x --ttl 1s --lock-delay 60s -- true
    exits 0 holdfast run -n x -- true
    holdfast lock x --ttl 1s --lock-delay 60s >/dev/null
    eventually eval '[[ $(holdfast show x --json | jq -r .closed_ms) != 0 ]]'
    exits 75 holdfast run -n x -- true
    says "closed for "
}

@test "--min-valid: what does not fit into the ttl is refused" {
    exits 0 holdfast run x --ttl 30s --min-valid 10s -- true
    exits 64 holdfast run x --ttl 2s --min-valid 2s -- true
    exits 75 holdfast run x --max-hold 2s --kill-after 500ms --min-valid 10s -- touch ran
    says "too little validity"
    [[ ! -e ran ]]
}

@test "it waits in order of arrival" {
    hold x
    for i in 1 2 3; do
        begin holdfast run x -- sh -c "echo $i >>$dir/order"
        eventually has_waiters x $i
    done
    kill -TERM "$holder"
    eventually grep -q 3 order
    [[ $(xargs <order) == "1 2 3" ]]
}

@test "semaphores: at most so many at once" {
    hold x --slots 3 --permits 2
    exits 0 holdfast run x --slots 3 -n -- true
    exits 75 holdfast run x --slots 3 --permits 2 -n -- true
}

@test "read-write locks: readers share, a writer is alone" {
    hold x -s
    exits 0 holdfast run x -s -n -- true
    exits 75 holdfast run x -x -n -- true
    kill -TERM "$holder"
    eventually is_free x
    hold x -x
    exits 75 holdfast run x -s -n -- true
}

@test "another kind or capacity: 65" {
    hold x
    exits 65 holdfast run x -s -- true
    says "in use as a mutex; -s, -x and --slots choose the kind"
    exits 65 holdfast run x --slots 2 -- true
    says "in use as a mutex"
    hold y --slots 2
    exits 65 holdfast run y --slots 3 -- true
    says "in use as a semaphore of 2"
}

holds_on() {
    rm -f ran
    begin holdfast run x --min-hold 2s -- touch ran
    local pid=$!
    eventually test -e ran || return 2
    eventually has_no_child $pid || return 2
    exits 75 holdfast run x -n -- true || return 1
    wait $pid || return 2
    is_free x || return 2
}

@test "--min-hold holds on after a quick command" {
    once_of_five holds_on
}

@test "--min-hold is over at once when a signal comes" {
    begin holdfast run x --min-hold 100s -- touch ran
    pid=$!
    eventually test -e ran
    eventually has_no_child $pid
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    [[ $status == 143 ]]
    is_free x
}

@test "--min-hold is over also when the signal comes while the command ends" {
    begin holdfast run x --min-hold 100s -- sh -c 'touch ran; while [ ! -e go ]; do sleep 0.02; done'
    pid=$!
    eventually test -e ran
    child=$(pgrep -P $pid)
    kill -STOP $pid
    touch go
    eventually is_gone "$child"
    kill -TERM $pid # before the command's end, in the order of their numbers, and both are there
    kill -CONT $pid
    status=0
    wait $pid || status=$?
    [[ $status == 143 ]]
    is_free x
}

@test "-v tells the store, who chose it, and the token" {
    exits 0 holdfast -v run x -- true
    says "$dir/store"
    says "from HOLDFAST_STORE"
    says "token"
}

@test "--label is what others see" {
    hold x --label $'the\033[31m holder'
    exits 0 holdfast show x
    says 'the\x1b[31m holder'
}

events() { jq -r .event <status | xargs; }

@test "--status-fd: acquired, started, exited, released" {
    exits 3 holdfast run x --status-fd 9 -- sh -c 'exit 3' 9>status
    [[ $(events) == "acquired started exited released" ]]
    jq -se '.[0].token | type == "string"' <status
    jq -se '.[1].pid > 1' <status
    jq -se '.[2].status == 3 and .[2].signal == null' <status
    exits 143 holdfast run x --status-fd 9 -- sh -c 'kill $$' 9>status
    jq -se '.[2].status == 143 and .[2].signal == 15' <status
}

@test "--status-fd: waiting tells holder and position; the command does not inherit it" {
    hold x --label 'the holder'
    begin holdfast run x -- true
    eventually has_waiters x 1
    begin holdfast run x --status-fd 9 -- sh -c '[ ! -e /proc/self/fd/9 ]' 9>status
    pid=$!
    eventually grep -q '"position":2' status
    grep '"position":2' status | jq -e '.holder.label == "the holder" and (.holder.token | type) == "string"'
    kill -TERM "$holder"
    wait $pid
    [[ $(events) == "waiting "*"acquired started exited released" ]]
}

@test "--status-fd: a line that is longer than the room in the pipe delays nobody" {
    exits 0 timeout 60 python3 - <<'PY'
import fcntl, os, subprocess
reader, writer = os.pipe()
os.set_blocking(writer, False)
os.write(writer, b"x" * (fcntl.fcntl(writer, 1032) - 4096)) # F_GETPIPE_SZ: one page is free
os.set_blocking(writer, True)
also = [word for i in range(8) for word in ("--also", "n" * 500 + str(i))]
code = subprocess.call(["holdfast", "run", "x", *also, "--status-fd", str(writer), "--", "touch", "started"],
                       pass_fds=[writer], timeout=50)
assert code == 0 and os.path.exists("started"), code
PY
}

@test "--status-fd: a reader that does not read delays nobody" {
    mkfifo pipe
    exec 8<>pipe
    head -c 65536 /dev/zero >&8
    exits 0 timeout 20 holdfast run x --status-fd 8 -- true
}
