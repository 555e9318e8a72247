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

@test "-n: a refused connection is an answer, and says which address refused it" {
    for url in "${refused[@]}"; do
        echo "$url"
        took holdfast -S "$url" run -n x -- true
        [ "$status" -eq 69 ]
        [[ $output == *127.0.0.1* && $output == *"onnection refused"* ]]
        ((ms < 3500)) # it was 5 s
    done
}

@test "-w: opening takes no longer than that" {
    took holdfast -S redis://127.0.0.1:1 run -w 1s x -- true
    [ "$status" -eq 69 ]
    ((ms >= 900 && ms < 3500))
}

@test "-w: what opening took is taken off the waiting" {
    begin redis-server --port 0 --unixsocket "$dir/server" --save ''
    eventually test -S "$dir/server"
    begin holdfast -S "redis+unix://$dir/server" run x -- sleep 60
    held() { [ "$(holdfast -S "redis+unix://$dir/server" ls -1)" = x ]; }
    eventually held
    begin sh -c 'sleep 3; ln -s server late'
    took holdfast -S "redis+unix://$dir/late" run -w 6s x -- true
    [ "$status" -eq 75 ]
    ((ms >= 5900 && ms < 8500)) # it was 9 s
}

@test "--open-timeout: a silent server is waited for so long, with -n too" {
    silent_server
    took holdfast -S "redis://127.0.0.1:$port" --open-timeout 1s run -n x -- true
    [ "$status" -eq 69 ]
    ((ms >= 900 && ms < 3500))
    took holdfast -S "memcached://127.0.0.1:$port" ls --open-timeout 1s
    [ "$status" -eq 69 ]
    ((ms >= 900 && ms < 3500))
    run holdfast ls --open-timeout 0s
    [ "$status" -eq 64 ]
}
