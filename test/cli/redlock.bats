#!/usr/bin/env bats
# The command on Redlock: three servers of its own for each test, which die with it.
load helper

eval "$(declare -f setup | sed '1s/setup/base_setup/')"
setup() {
    local i
    base_setup
    ports=() servers=()
    for i in 0 1 2; do start_node "$i"; done
    aim max_ttl=3s
}

# start_node I: a new server, empty, on a port that is free.
start_node() {
    local try
    for ((try = 0; try < 50; try++)); do
        ports[$1]=$((10000 + RANDOM % 20000))
        again_node "$1" && return
    done
    false
}

# again_node I: on the port that it had; without its data, for it keeps none.
again_node() {
    setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --port "${ports[$1]}" --unixsocket "$dir/sock$1" \
        --dir "$dir" --save '' --daemonize no >"$dir/server$1.log" 2>&1 3>&- &
    servers[$1]=$!
    begun+=("$!")
    while kill -0 "${servers[$1]}" 2>/dev/null; do
        [[ $(raw "$1" ping 2>&1) == PONG ]] && return
        sleep 0.02
    done
    false
}

stop_node() {
    {
        kill -KILL "${servers[$1]}"
        wait "${servers[$1]}"
    } 2>/dev/null || true
    rm -f "$dir/sock$1"
}

raw() { redis-cli -s "$dir/sock$1" "${@:2}"; }
node() { echo "127.0.0.1:${ports[$1]}"; }
aim() {
    HOLDFAST_STORE="redlock://$(node 0),$(node 1),$(node 2)?$1"
    export HOLDFAST_STORE
}
votes() { holdfast redlock status --json 2>/dev/null | jq "[.nodes[] | select(.votes)] | length"; }
all_vote() { [[ $(votes) == 3 ]]; }

@test "-n is the first command of all: it makes the cluster, also beside others that do" {
    local i pids=()
    for i in 1 2 3 4; do
        holdfast run -n --open-timeout 60s "job$i" --ttl 3s -- true 2>"$dir/first$i" &
        pids+=("$!")
    done
    for i in 1 2 3 4; do
        wait "${pids[i - 1]}" || { cat "$dir/first$i"; return 1; }
    done
    eventually all_vote
}

@test "-n hears every node before it says that too few answer" {
    exits 0 holdfast run job --ttl 3s -- true
    aim 'max_ttl=3s&connect_timeout=40s'
    kill -STOP "${servers[1]}" "${servers[2]}"
    begin sh -c 'sleep 1; kill -CONT "$@"' - "${servers[1]}" "${servers[2]}"
    exits 0 holdfast run -n --open-timeout 40s job --ttl 3s -- true
}

@test "run, lock, show, ls, break, renew, unlock on three nodes" {
    exits 7 holdfast run job --ttl 3s -- sh -c '[ "$HOLDFAST_TOKEN" -gt 0 ] && exit 7'
    hold job --ttl 3s
    exits 75 holdfast run -n job --ttl 3s -- true
    [[ $(holdfast ls -1) == job ]]
    token=$(holdfast show job --json | jq -r '.holders[0].token')
    exits 75 holdfast break job --token 1
    exits 0 holdfast break job --token "$token"
    eventually is_gone "$held_pid"
    lease=$(holdfast lock job --ttl 3s)
    exits 0 holdfast renew job --lease "$lease" --ttl 3s
    exits 0 holdfast unlock job --lease "$lease"
    is_free job
}

@test "status: a line a node, and what is next; 69 without a majority" {
    exits 0 holdfast redlock status
    says "0 of 3 nodes vote"
    says "the next step is to start"
    exits 0 holdfast run job --ttl 3s -- true
    eventually all_vote
    exits 0 holdfast redlock status
    says "$(node 2)" && says "3 of 3 nodes vote, 2 are needed; nothing to do"
    json=$(holdfast redlock status --json)
    [[ $(jq -r '.cluster | "\(.votes) \(.needed) \(.nodes) \(.next)"' <<<"$json") == "3 2 3 nothing" ]]
    [[ $(jq -r '.nodes[0] | "\(.node) \(.state) \(.votes) \(.epoch) \(.lag) \(.max_ttl_ms)"' <<<"$json") == "$(node 0) ready true 1 0 3000" ]]
    [[ $(jq -r '[.nodes[].cluster] | unique | length' <<<"$json") == 1 ]]
    stop_node 1
    exits 0 holdfast redlock status
    says "unreachable" && says "2 of 3 nodes vote"
    stop_node 2
    exits 69 holdfast redlock status
    says "more of them must answer" && says "$(node 1)"
}

@test "join heals a node that lost its data, and says what it waits for" {
    exits 0 holdfast run job --ttl 3s -- true
    eventually all_vote
    stop_node 1
    again_node 1
    exits 0 holdfast redlock join "$(node 1)"
    says "waiting for" && says "may be held until then" && says "joined in epoch 2" && says "it votes"
    all_vote
    exits 0 holdfast redlock join
    says "3 of 3 nodes vote"
    stop_node 0
    exits 69 holdfast redlock join
    says "$(node 0)"
    again_node 0
    out=$(holdfast redlock join --json)
    [[ $(jq -r '.done | length > 0' <<<"$out") == true ]]
    all_vote
}

@test "join makes a cluster of empty nodes" {
    exits 0 holdfast redlock join
    all_vote
    exits 0 holdfast run job --ttl 3s -- true
}

@test "without an intact majority: 69 with the choices; --force decides, and says what is given up" {
    first=$(holdfast run job --ttl 3s -- sh -c 'echo $HOLDFAST_TOKEN')
    eventually all_vote
    raw 0 FLUSHALL
    raw 1 FLUSHALL
    exits 69 holdfast run job --ttl 3s -- true
    says "holdfast redlock join --force" && says "$(node 0)" && says "$(node 1)"
    exits 69 holdfast redlock status
    says "an operator must decide"
    exits 69 holdfast redlock join
    says "--force"
    [[ $(votes) == 0 ]]
    exits 0 holdfast redlock join --force
    says "given up"
    all_vote
    second=$(holdfast run job --ttl 3s -- sh -c 'echo $HOLDFAST_TOKEN')
    ((second > first))
}

@test "what does not fit is told: nodes, kinds of store, actions" {
    exits 0 holdfast run job --ttl 3s -- true
    eventually all_vote
    exits 78 holdfast -S "redlock://$(node 0),$(node 1),$(node 2),127.0.0.1:1,127.0.0.1:2" run job --ttl 3s -- true
    says "is one of 3 nodes, and the URL names 5"
    exits 78 holdfast -S "redlock://$(node 0),$(node 1)" redlock status
    exits 78 holdfast -S "redis://$(node 0)" redlock status
    says "nothing to administer"
    exits 78 holdfast -S "file:$dir/store" redlock join
    exits 78 holdfast -S "redlock://$(node 0),$(node 1),$(node 2)?bogus=1" redlock status
    exits 64 holdfast redlock join 10.0.0.1:1
    says "not one of the nodes"
    exits 64 holdfast redlock
    exits 64 holdfast redlock heal
    exits 64 holdfast redlock status --force
    exits 64 holdfast redlock join "$(node 0)" "$(node 1)"
}

@test "doctor: what tokens hang on" {
    exits 0 holdfast run job --ttl 3s -- true
    eventually all_vote
    exits 1 holdfast doctor
    says "strict only while" && says "3 of 3 nodes vote"
    raw 2 CONFIG SET save "60 1"
    exits 2 holdfast doctor
    says "snapshots only"
}
