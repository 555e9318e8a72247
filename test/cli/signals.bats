#!/usr/bin/env bats
# Signals: passed on, ending the wait, killing the command when run is killed.
load helper

@test "signals are passed on to the whole process group of the command" {
    begin holdfast run x -- sh -c 'sleep 1000 & echo $! >grandchild; trap "echo usr1 >>got" USR1; touch ready; while :; do wait; done'
    pid=$!
    eventually test -e ready
    kill -USR1 $pid
    eventually grep -q usr1 got
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    [[ $status == 143 ]]
    eventually is_gone "$(cat grandchild)"
    is_free x
}

@test "TERM INT HUP QUIT USR1 USR2 ALRM: all of them arrive" {
    # Started by python, because bash ignores INT and QUIT in background processes.
    python3 - <<'PY'
import os, signal, subprocess, time
child = """
import signal, sys
n = int(sys.argv[1])
signal.pthread_sigmask(signal.SIG_BLOCK, [n])
open("ready", "w")
signal.sigwait([n])
sys.exit(42)
"""
for name in "TERM INT HUP QUIT USR1 USR2 ALRM".split():
    n = getattr(signal, "SIG" + name)
    if os.path.exists("ready"):
        os.unlink("ready")
    p = subprocess.Popen(["holdfast", "run", "x", "--", "python3", "-c", child, str(int(n))])
    while not os.path.exists("ready"):
        time.sleep(0.01)
    p.send_signal(n)
    assert p.wait(60) == 42, name
PY
}

@test "a command that has left its process group gets signals, too" {
    begin holdfast run x -- python3 -c '
import os, signal, time
child = os.fork()
if child == 0: # a group of the same session to move into
    while True: time.sleep(1)
os.setpgid(child, child)
def end(*_):
    os.kill(child, signal.SIGKILL)
    os._exit(42)
signal.signal(signal.SIGTERM, end)
os.setpgid(0, child)
open("ready", "w")
while True: time.sleep(1)'
    pid=$!
    eventually test -e ready
    kill -TERM $pid
    eventually is_gone $pid
    status=0
    wait $pid || status=$?
    [[ $status == 42 ]]
}

@test "a signal while waiting leaves the queue at once" {
    hold x
    for signal in TERM HUP USR1; do
        begin holdfast run x -- touch started
        pid=$!
        eventually has_waiters x 1
        kill -$signal $pid
        status=0
        wait $pid || status=$?
        [[ $status == $((128 + $(kill -l $signal))) ]]
        has_waiters x 0
    done
    [[ ! -e started ]]
}

@test "nohup: an ignored HUP ends nothing" {
    hold x
    begin bash -c 'trap "" HUP; exec holdfast run x -- touch started'
    pid=$!
    eventually has_waiters x 1
    kill -HUP $pid
    sleep 0.3
    has_waiters x 1
    kill -TERM "$holder"
    wait $pid
    [[ -e started ]]
}

@test "kill -9 of run kills the command and frees the name" {
    hold x
    kill -KILL "$holder"
    eventually is_gone "$held_pid"
    eventually is_free x
}

@test "a waiter that is killed leaves the queue, and the next gets it" {
    hold x
    begin holdfast run x -- touch first
    first=$!
    eventually has_waiters x 1
    begin holdfast run x -- touch second
    second=$!
    eventually has_waiters x 2
    kill -KILL $first
    kill -TERM "$holder"
    wait $second
    [[ ! -e first && -e second ]]
}

@test "a stopped run keeps the name" {
    hold x
    kill -STOP "$holder"
    exits 75 holdfast run x -n -- true
    kill -CONT "$holder"
    kill -TERM "$holder"
    eventually is_free x
}

renews_while_the_command_is_stopped() {
    hold x --ttl 2s || return 2
    kill -STOP "$held_pid"
    sleep 3
    is_held x || return 1
    kill -CONT "$held_pid"
    kill -TERM "$holder"
    eventually is_free x || return 2
}

@test "the command is stopped for a look: run goes on and renews" {
    once_of_five renews_while_the_command_is_stopped
}
