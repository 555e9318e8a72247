#!/usr/bin/env bats
# Losing the lease while the command runs: TERM, KILL, 76.
load helper

token_of() { holdfast show "$1" --json | jq -r '.holders[0].token'; }
ends_with() { local status=0; wait "$2" || status=$?; [[ $status == "$1" ]] || { echo "exit code $status"; return 1; }; }

@test "broken: TERM, and 76 wins over the command's status" {
    begin holdfast run x --status-fd 9 -- sh -c 'trap "echo term >got; exit 5" TERM; touch ready; while :; do sleep 0.05; done' 9>status
    pid=$!
    eventually test -e ready
    exits 0 holdfast break x --token "$(token_of x)"
    ends_with 76 $pid
    [[ $(cat got) == term ]]
    [[ $(jq -r .event <status | xargs) == "acquired started lost exited" ]]
    grep -q "lease of 'x' is lost" err
}

@test "broken: a command that ignores TERM is killed after --kill-after, with its group" {
    begin holdfast run x --kill-after 500ms -- sh -c 'trap "" TERM; sleep 1000 & echo $! >grandchild; touch ready; while :; do sleep 0.05; done'
    pid=$!
    eventually test -e ready
    holdfast break x --token "$(token_of x)"
    ends_with 76 $pid
    eventually is_gone "$(cat grandchild)"
}

@test "broken: what a command that obeys TERM leaves behind in its group is killed" {
    begin holdfast run x -- sh -c 'sh -c "trap \"\" TERM; echo \$\$ >grandchild; while :; do sleep 0.05; done" & trap "exit 0" TERM; while [ ! -s grandchild ]; do sleep 0.02; done; touch ready; wait'
    pid=$!
    eventually test -e ready
    holdfast break x --token "$(token_of x)"
    ends_with 76 $pid
    eventually is_gone "$(cat grandchild)"
}

@test "broken, --on-lost=kill: KILL at once" {
    begin holdfast run x --on-lost=kill -- sh -c 'trap "touch got" TERM; touch ready; while :; do sleep 0.05; done'
    pid=$!
    eventually test -e ready
    holdfast break x --token "$(token_of x)"
    ends_with 76 $pid
    [[ ! -e got ]]
}

@test "broken, --on-lost=warn: the command goes on, and the code is 76" {
    begin holdfast run x --on-lost=warn -- sh -c 'touch ready; while [ ! -e go ]; do sleep 0.05; done; touch finished'
    pid=$!
    eventually test -e ready
    holdfast break x --token "$(token_of x)"
    eventually grep -q "continues without it" err
    touch go
    ends_with 76 $pid
    [[ -e finished ]]
}

# stuck OPTION...: a run whose standard error is a full pipe, which is read from when the file `read` is there
stuck() {
    begin python3 -c '
import os, subprocess, sys, time
reader, writer = os.pipe()
os.set_blocking(writer, False)
try:
    while True:
        os.write(writer, b"x" * 1)
except BlockingIOError:
    pass
os.set_blocking(writer, True)
run = subprocess.Popen(["holdfast", "run", "x", *sys.argv[1:]], stderr=writer)
os.close(writer)
while run.poll() is None and not os.path.exists("read"):
    time.sleep(0.02)
if run.poll() is None:
    with open("said", "wb") as said, os.fdopen(reader, "rb") as pipe:
        said.write(pipe.read().lstrip(b"x"))
sys.exit(run.wait())' "$@"
}

@test "broken, with a full pipe as standard error: the command is ended, and so are we" {
    stuck -- sh -c 'exec 2>/dev/null; trap "touch got; exit 5" TERM; touch ready; while :; do sleep 0.05; done'
    pid=$!
    eventually test -e ready
    holdfast break x --token "$(token_of x)"
    eventually test -e got
    ends_with 76 $pid
    [[ ! -e said ]] # nobody has read anything
}

@test "... and what could not be written comes when the pipe is read" {
    stuck --kill-after 30s -- sh -c 'exec 2>/dev/null; trap "touch got" TERM; touch ready; while [ ! -e go ]; do sleep 0.05; done'
    pid=$!
    eventually test -e ready
    holdfast break x --token "$(token_of x)"
    eventually test -e got
    sleep 0.5
    touch read
    sleep 0.5
    touch go
    ends_with 76 $pid
    grep -q "lease of 'x' is lost: it was ended by force; ending the command" said
}

# breaks NAME: when the command is ready
breaks() {
    eventually test -e ready
    holdfast break "$1" --token "$(token_of "$1")"
}

@test "broken: a command that changed its process group is ended" {
    begin holdfast run x -- python3 -c '
import os, time
if os.fork() == 0: # a group of the same session to move into
    os.setpgid(0, 0)
    open("child", "w").write(str(os.getpid()))
    while True: time.sleep(1)
while not os.path.exists("child") or not open("child").read(): time.sleep(0.01)
os.setpgid(0, int(open("child").read()))
open("ready", "w")
while True: time.sleep(1)'
    pid=$!
    breaks x
    ends_with 76 $pid
    is_gone "$(cat child)"
}

@test "broken: what left the group and the session of the command is ended too, TERM first" {
    begin holdfast run x --kill-after 3s -- sh -c '
        setsid sh -c "trap \"echo >polite; exit\" TERM; echo \$\$ >first; while :; do sleep 0.05; done" &
        setsid sh -c "trap \"\" TERM; (setsid sleep 1000 & echo \$! >third); echo \$\$ >second; while :; do sleep 0.05; done" &
        while ! [ -s first -a -s second -a -s third ]; do sleep 0.02; done
        trap "exit 0" TERM; touch ready; while :; do sleep 0.05; done'
    pid=$!
    breaks x
    ends_with 76 $pid
    is_gone "$(cat first)" # when we have ended, all of it has
    is_gone "$(cat second)"
    is_gone "$(cat third)"
    [[ -e polite ]]
}

@test "a daemon that the command leaves behind lives on when nothing is lost" {
    exits 0 holdfast run x -- sh -c 'setsid sleep 1000 >/dev/null 2>&1 & echo $! >daemon'
    daemon=$(cat daemon)
    begun+=("$daemon")
    not is_gone "$daemon"
    is_free x
}

@test "broken: a process that was there before run is not the command's, and lives on" {
    begin bash -c 'sleep 1000 & echo $! >stranger; exec holdfast run x -- sh -c "touch ready; exec sleep 1000"'
    pid=$!
    breaks x
    ends_with 76 $pid
    begun+=("$(cat stranger)")
    not is_gone "$(cat stranger)"
}

@test "broken: a command that became another user is said to go on, and is named" {
    [[ $EUID == 0 ]] || skip "needs root to become another user"
    install -m 4755 "$(command -v setpriv)" become
    open_to_all
    chmod 777 .
    begin setpriv --reuid=65534 --regid=65534 --clear-groups holdfast run x --kill-after 1s --status-fd 9 -- \
        ./become --reuid=0 --clear-groups sh -c 'echo $$ >command; touch ready; while [ ! -e go ]; do sleep 0.05; done' 9>status
    pid=$!
    eventually test -e ready
    if [[ $(awk '/^Uid:/ { print $2 }' "/proc/$(cat command)/status") != 0 ]]; then touch go; skip "set-user-ID has no effect here"; fi
    as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; } # the store is nobody's
    as_nobody holdfast break x --token "$(as_nobody holdfast show x --json | jq -r '.holders[0].token')"
    eventually grep -q not_ended status
    grep -q "the command runs as another user and cannot be ended" err
    grep -q "process $(cat command) (sh) was not ended in time and continues without the lease: Operation not permitted" err
    jq -e --argjson pid "$(cat command)" \
        'select(.event == "not_ended") | (.pids | index($pid) != null) and .reason == "Operation not permitted"' status
    touch go
    ends_with 76 $pid
}

renewed_for_two_ttls() {
    rm -f go
    begin holdfast run x --ttl 2s -- sh -c 'touch ready; while [ ! -e go ]; do sleep 0.05; done'
    local pid=$! i
    eventually test -e ready || return 2
    for i in 1 2 3 4 5 6 7 8; do
        sleep 0.5
        exits 75 holdfast run x -n -- true || return 1
    done
    touch go
    ends_with 0 $pid
}

@test "a lease with a ttl is renewed for as long as the command runs" {
    once_of_five renewed_for_two_ttls
}

# ---- TERM and KILL before the end ----
#
# The file trace says what run plans, and when it has done it: see norenew.c. The plan must be right to the
# millisecond, however slow the machine is. All times are ms of one clock.

uptime_ms() { local now; read -r now _ </proc/uptime; echo "${now/./}0"; } # never later than it is
first() { awk -v "what=$1" 'index($0, what " ") == 1 { print $NF; exit }' trace; } # first "kill 9": when
# timer_before "kill 9": until when it slept before that
timer_before() { awk -v "what=$1" 'index($0, what " ") == 1 { print at; exit } $1 == "timer" { at = $2 }' trace; }

# traced COMMAND...: in the background, with a trace
traced() {
    rm -f trace
    begin env ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}" HOLDFAST_TEST_TRACE="$dir/trace" \
        HOLDFAST_TEST_READY="$dir/ready" LD_PRELOAD="$HOLDFAST_BUILD/bin/test/cli_norenew.so" "$@"
}

# traced_run OPTION...: a run whose command does not obey TERM but notes it, and notes that it is alive.
# 2: it did not end as it must.
traced_run() {
    rm -f alive term ready
    traced holdfast run x "$@" -- env -u LD_PRELOAD sh -c 'trap "touch term" TERM; touch ready
        while :; do read -r now rest </proc/uptime; echo "$now" >>alive; sleep 0.01; done'
    ends_with 76 $! || return 2
    cat trace || return 2
}

# between LOW VALUE HIGH
between() {
    [[ -n $2 ]] && (($1 <= $2 && $2 <= $3)) && return
    echo "'$2' is not between $1 and $3"
    return 1
}

# killed_before EARLIEST END: KILL was meant for a moment between EARLIEST and 50 ms (KILL_MARGIN_MS) before
# END, came then, and ended everything; 1: but it came after END.
killed_before() {
    local meant last
    meant=$(timer_before "kill 9")
    last=$(tail -n 1 alive 2>/dev/null)
    between "$1" "$meant" $(($2 - 50)) || return 2
    between "$meant" "$(first "kill 9")" $((meant + 60000)) || return 2
    between 0 "${last/./}0" "$(first "kill 9")" || return 2
    between "$meant" "$(first "kill 9")" "$2"
}

# termed_before EARLIEST LATEST: TERM was planned between them, came then, and was received; 1: it was not sent
# or received, because the machine was too slow.
termed_before() {
    local meant
    [[ -e term && -n $(first "kill 15") ]] || return 1
    meant=$(timer_before "kill 15")
    between "$1" "$meant" "$2" || return 2
    between "$meant" "$(first "kill 15")" "$(first "kill 9")" || return 2
}

max_hold() {
    local start held
    start=$(uptime_ms)
    traced_run --max-hold 3s --kill-after 1s || return
    held=$(awk '$1 == "timer" { print $3; exit }' trace) # it was acquired between start and this
    termed_before $((start + 1800)) $((held + 3000 - 1050)) || return
    killed_before $((start + 2800)) $((held + 3000))
}

@test "--max-hold: TERM early enough that KILL lands before the end" {
    once_of_five max_hold
}

unrenewed() {
    local end
    HOLDFAST_TEST_VALID_MS=4000 traced_run --ttl 60s --kill-after 3s || return
    end=$(first lease)
    grep -q "could not be renewed; ending the command" err || return 2
    termed_before $((end - 3500)) $((end - 3050)) || return
    killed_before $((end - 500)) "$end"
}

@test "a lease that cannot be renewed: TERM, then KILL before it ends" {
    once_of_five unrenewed
}

unrenewed_kill() {
    local end
    HOLDFAST_TEST_VALID_MS=1000 traced_run --ttl 60s --on-lost=kill || return
    end=$(first lease)
    [[ ! -e term && -z $(first "kill 15") ]] || return 2
    killed_before $((end - 500)) "$end"
}

@test "a lease that cannot be renewed, --on-lost=kill: no TERM, KILL before it ends" {
    once_of_five unrenewed_kill
}

stopped_past_the_lease() {
    rm -f ready got alive
    traced holdfast run x --ttl 2s --kill-after 400ms -- env -u LD_PRELOAD sh -c '
        trap "touch got" TERM; touch ready; while :; do echo >>alive; sleep 0.02; done'
    local pid=$! child before
    eventually test -e ready || return 2
    child=$(pgrep -P $pid)
    kill -STOP "$child" $pid
    if grep -qs kill trace; then return 1; fi # the machine stalled, the lease was lost before
    eventually is_free x || return 2
    exits 0 holdfast run x -n -- touch other || return 2
    before=$(wc -l <alive)
    kill -CONT $pid
    ends_with 76 $pid || return 2
    [[ $(grep -m 1 kill trace) == "kill 9 "* ]] || { cat trace; return 2; } # no CONT before KILL
    [[ $(wc -l <alive) == "$before" && ! -e got ]] || return 2
}

@test "a run that was stopped past its lease does not continue the command: it kills it" {
    once_of_five stopped_past_the_lease
}

@test "--max-hold that is over is not a renewal that failed, also if the acquire took its time" {
    exits 76 holdfast run --max-hold 1s x -- sleep 30
    says "--max-hold is over"
    HOLDFAST_TEST_LATE_MS=300 traced holdfast run --max-hold 1s x -- sleep 30
    ends_with 76 $!
    grep -q -e "--max-hold is over" err
}

@test "broken is broken, also with --max-hold" {
    begin holdfast run x --max-hold 100s -- sh -c 'touch ready; exec sleep 1000'
    pid=$!
    eventually test -e ready
    holdfast break x --token "$(token_of x)"
    ends_with 76 $pid
    grep -q "it was ended by force" err
}
