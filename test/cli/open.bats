#!/usr/bin/env bats
# A server that is absent or silent: how long the command takes, and its message.
load helper

refused=("redis://127.0.0.1:1" "redis+sentinel://127.0.0.1:1,127.0.0.1:2/m" "redis+cluster://127.0.0.1:1"
    "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3" "memcached://127.0.0.1:1" "etcd://127.0.0.1:1"
    "zk://127.0.0.1:1" "postgresql://app@127.0.0.1:1/x" "mariadb://app@127.0.0.1:1/x")

# took COMMAND...: run it; $ms is how long it took.
took() {
    local begun=${EPOCHREALTIME/./}
    run "$@"
    ms=$(((${EPOCHREALTIME/./} - begun) / 1000))
    echo "$ms ms, status $status: $output"
}

# A server that takes connections and says nothing: $port.
silent_server() {
    begin python3 -c 'import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(16); print(s.getsockname()[1], flush=True); time.sleep(300)'
    eventually test -s "$dir/out"
    port=$(cat "$dir/out")
}

# in_time STATUS LEAST MOST COMMAND...: it exits with STATUS and takes at least LEAST ms. In one of five runs it takes less
# than MOST, however busy the machine is.
in_time() {
    local status_wanted=$1 least=$2 most=$3
    shift 3
    attempt() {
        took "$@"
        [ "$status" -eq "$status_wanted" ] && ((ms >= least)) || return 2
        ((ms < most))
    }
    once_of_five attempt "$@"
}

@test "-n: a refused connection is an answer, and says which address refused it" {
    for url in "${refused[@]}"; do
        echo "$url"
        in_time 69 0 3500 holdfast -S "$url" run -n x -- true # it was 5 s
        [[ $output == *127.0.0.1* && $output == *"onnection refused"* ]]
    done
}

@test "-w: opening takes no longer than that" {
    in_time 69 900 3500 holdfast -S redis://127.0.0.1:1 run -w 1s x -- true
}

@test "-w: what opening took is taken off the waiting" {
    begin redis-server --port 0 --unixsocket "$dir/server" --save ''
    eventually test -S "$dir/server"
    begin holdfast -S "redis+unix://$dir/server" run x -- sleep 300
    held() { [ "$(holdfast -S "redis+unix://$dir/server" ls -1)" = x ]; }
    eventually held
    opens_late() {
        rm -f "$dir/late"
        begin sh -c 'sleep 3; ln -s server late'
        holdfast -S "redis+unix://$dir/late" run -w 6s x -- true
    }
    in_time 75 5900 8500 opens_late # it was 9 s
}

@test "--open-timeout: a silent server is waited for so long, with -n too" {
    silent_server
    in_time 69 900 3500 holdfast -S "redis://127.0.0.1:$port" --open-timeout 1s run -n x -- true
    in_time 69 900 3500 holdfast -S "memcached://127.0.0.1:$port" ls --open-timeout 1s
    run holdfast ls --open-timeout 0s
    [ "$status" -eq 64 ]
}
