#!/usr/bin/env bats
# `holdfast lab` without an experiment: the list, the language, and what is refused. The experiments are tests of their own (lab_*).
load helper

exits() {
    local want=$1
    shift
    run "$@"
    [[ $status == "$want" ]] || { echo "$status: $output"; return 1; }
}
says() { [[ $output == *"$1"* ]] || { echo "$output"; return 1; }; }

@test "without a name it lists the experiments, in the language of the environment" {
    exits 0 env -u LC_ALL -u LC_MESSAGES LANG=en_GB.UTF-8 holdfast lab
    says "pause              A process is paused past its lease"
    exits 0 env -u LC_ALL -u LC_MESSAGES LANG=zh_CN.UTF-8 holdfast lab
    says "pause              进程暂停"
    exits 0 env -u LC_ALL LC_MESSAGES=zh_CN.UTF-8 LANG=C holdfast lab
    says "进程暂停"
    exits 0 env LC_ALL=C LC_MESSAGES=zh_CN.UTF-8 LANG=zh_CN.UTF-8 holdfast lab
    says "A process is paused"
    exits 0 env LC_ALL=C.UTF-8 holdfast lab --lang zh
    says "进程暂停"
    [[ $(holdfast lab --json | jq -r '.[] | select(.experiment == "pause").title') == "A process"* ]]
}

@test "English in place of Chinese has a reason" {
    # No server is found in an empty directory, so nothing runs.
    mkdir nothing
    run env PATH="$PWD/nothing" LC_ALL=C "$(command -v holdfast)" lab pause --lang zh
    says "LANG=C.UTF-8"
    run env PATH="$PWD/nothing" LC_ALL=xx_XX.UTF-8 "$(command -v holdfast)" lab pause --lang zh
    [[ $output != *"LANG=C.UTF-8"* ]] || { echo "$output"; return 1; }
}

@test "it does not touch the default store" {
    exits 0 holdfast lab
    [[ ! -e $dir/store ]]
}

@test "an unknown name: the closest one is suggested, and nothing of it reaches the terminal" {
    exits 64 holdfast lab pauze
    says "there is no experiment 'pauze'; did you mean 'pause'?"
    exits 64 holdfast lab qqqqqqqqqq
    says "'qqqqqqqqqq'; \`holdfast lab\` lists them"
    exits 64 holdfast lab redlock
    says "there is no experiment 'redlock'; there are redlock-down, redlock-clock, redlock-pause, redlock-memory"
    exits 64 holdfast lab $'\033[31mpause'
    [[ $output != *$'\033'* ]]
    says '\x1b[31mpause'
}

@test "bad options" {
    exits 64 holdfast lab pause --lang fr
    says "--lang 'fr' is none of en|zh"
    exits 64 holdfast lab pause --repeat 0
    exits 64 holdfast lab pause --repeat many
    exits 64 holdfast lab pause second
    says "one argument too many"
    exits 64 holdfast lab pause --all gallery
    says "without a name"
    exits 64 holdfast lab --all gallery --svg x.svg
    [[ ! -e gallery && ! -e x.svg ]]
    for option in --code "--repeat 3" "--svg x.svg" "--html x.html" "-S redis://localhost"; do
        # shellcheck disable=SC2086 # two words each
        exits 64 holdfast lab $option
        says "no experiment: "
    done
    exits 64 holdfast lab pause --svgs x
    says "did you mean '--svg'?"
}

@test "a file that cannot be written is refused before anything runs" {
    exits 74 holdfast lab pause --svg missing/x.svg
    says "cannot write missing/x.svg: No such file or directory"
    mkdir folder
    exits 74 holdfast lab pause --html folder
    says "cannot write folder: Is a directory"
    exits 74 holdfast lab pause --svg fine.svg --html missing/x.html
    [[ ! -e fine.svg ]]
    exits 74 bash -c 'holdfast lab >/dev/full'
    exits 74 bash -c 'holdfast lab >&-'
}

@test "a store must be a Redis server, and its password is in no argument" {
    exits 64 holdfast lab pause -S "file:$dir/store"
    says "redis://"
    # A server that does not answer: long enough to look at the arguments.
    python3 - >port 3>&- <<'EOF' &
import socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
time.sleep(1000)
EOF
    begun+=($!)
    eventually test -s port
    begin holdfast lab pause -S "redis://:sesame@127.0.0.1:$(cat port)"
    runs_the_lab() { [[ $(tr '\0' ' ' <"/proc/${begun[1]}/cmdline") == holdfast-lab* ]]; }
    eventually runs_the_lab
    run tr '\0' ' ' <"/proc/${begun[1]}/cmdline"
    says "--stores-fd="
    says " pause"
    [[ $output != *sesame* ]]
}

@test "holdfast-lab(1) lists the same experiments" {
    "$HOLDFAST_SOURCE/tools/lab-man.sh" "$HOLDFAST_BIN" --check
}

@test "the names of experiments are completed" {
    holdfast completion bash >complete.bash
    run bash -c 'source ./complete.bash
        COMP_LINE="holdfast lab pau" COMP_POINT=16 COMP_WORDS=(holdfast lab pau) COMP_CWORD=2
        _holdfast; echo "${COMPREPLY[@]}"'
    says pause
}

@test "on the user's own server: its keys are not touched, and nothing stays" {
    local port
    for try in {1..50}; do
        port=$((10000 + RANDOM % 20000))
        setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --port "$port" --unixsocket "$dir/sock" --dir "$dir" \
            --save '' --daemonize no >"$dir/server.log" 2>&1 3>&- &
        begun+=($!)
        eventually eval "[[ \$(redis-cli -s '$dir/sock' ping 2>&1) == PONG ]] || ! kill -0 $!"
        kill -0 "$!" 2>/dev/null && break
    done
    redis-cli -p "$port" set lock mine
    redis-cli -p "$port" hset hf:lock a b
    exits 0 holdfast lab -S "redis://127.0.0.1:$port" crash --json
    exits 0 holdfast lab -S "redis://127.0.0.1:$port" reentrant --json
    [[ $(redis-cli -p "$port" keys '*' | sort | xargs) == "hf:lock lock" ]]
    [[ $(redis-cli -p "$port" get lock) == mine ]]
    exits 64 holdfast lab -S "redis://127.0.0.1:$port" redlock-memory
    says "servers of its own"
    exits 64 holdfast lab -S "redis://127.0.0.1:$port?prefix=mine:" crash
}

@test "interrupted, it ends its servers, and leaves no directory behind" {
    mkdir tmp
    begin env TMPDIR="$dir/tmp" holdfast lab slow
    eventually eval "compgen -G '$dir/tmp/holdfast-redis-*/socket' >/dev/null"
    kill -TERM "${begun[0]}"
    local status=0
    wait "${begun[0]}" || status=$?
    [[ $status == 143 && -z $(ls tmp) ]] || { echo "$status"; ls -R tmp; return 1; }
}

@test "interrupted on the user's own server, it takes its keys away" {
    # shellcheck disable=SC2016 # for the shell that has a server
    "$HOLDFAST_BUILD/bin/test/with_server" redis sh -c '
        keys() { redis-cli -p "$HOLDFAST_TEST_PORT" --scan | grep -c .; }
        holdfast lab -S "redis://127.0.0.1:$HOLDFAST_TEST_PORT" slow &
        until [ "$(keys)" -gt 0 ]; do sleep 0.05; done
        kill -TERM $!
        wait $!
        echo "status $?"
        keys' >out 2>said 3>&- || true
    [[ $(<out) == $'status 143\n0' ]] || { cat out said; return 1; }
}

@test "on a terminal it says meanwhile what it does, and elsewhere nothing" {
    script -qec "holdfast lab watchdog --repeat 2" /dev/null >seen </dev/null
    run cat seen
    says "watchdog: starting servers ..."
    says "watchdog: No watchdog, run 2 of 2 ..."
    holdfast lab watchdog >out 2>said
    run cat said
    [[ $output != *"starting servers"* ]]
}
