#!/usr/bin/env bats
# script: Lua on a Redis server, which each test has of its own; and what other stores say to it.
load helper

eval "$(declare -f setup | sed '1s/setup/base_setup/')"
setup() {
    local try
    base_setup
    for ((try = 0; try < 50; try++)); do
        port=$((10000 + RANDOM % 20000))
        setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --port "$port" --unixsocket "$dir/sock" \
            --dir "$dir" --save '' --daemonize no --requirepass sesame >"$dir/server.log" 2>&1 3>&- &
        server=$!
        begun+=("$server")
        while kill -0 $server 2>/dev/null; do
            [[ $(raw ping) == PONG ]] && break 2
            sleep 0.02
        done
    done
    export HOLDFAST_STORE=redis://:sesame@127.0.0.1:$port
}

raw() { REDISCLI_AUTH=sesame redis-cli -s "$dir/sock" "$@" 2>&1; }
is_busy() { [[ $(raw ping) == *BUSY* ]]; }

@test "run: keys, a comma, arguments; what it returns" {
    echo 'return { #KEYS, #ARGV, KEYS[1], KEYS[2], ARGV[1], ARGV[2] }' >words.lua
    [[ $(holdfast script run words.lua k1 k2 , -1 --json | xargs) == "2 2 k1 k2 -1 --json" ]]
    [[ $(holdfast script run words.lua k1 | xargs) == "1 0 k1" ]]
    [[ $(holdfast script run words.lua , a | xargs) == "0 1" ]]
    [[ $(echo 'return redis.call("SET", "k", "v")' | holdfast script run -) == OK ]]
    [[ $(echo 'return 2 ^ 40' | holdfast script run -) == 1099511627776 ]]
    printf '%s\n' 'return { 1, "a\"b", false, { "x", { } }, redis.pcall("NONE"), "\255" }' >kinds.lua
    holdfast script run kinds.lua >out
    [[ $(sed -n 3p out) == "(nil)" && $(sed -n 4p out) == "  x" && $(sed -n 5p out) == "  (empty)" ]]
    [[ $(sed -n 6p out) == "(error) ERR "* ]]
    holdfast script run --json kinds.lua >out
    [[ $(jq -c '.value[:4]' out) == '["1","a\"b",null,["x",[]]]' ]]
    [[ $(jq -r '.value[4].error' out) == "ERR "* && $(jq -r '.value[5]' out) == '\xff' ]]
    [[ -z $(echo 'return 1' | holdfast script run -q -) ]]
}

@test "run: a script at fault is 65, and its words are told; what cannot be read is 66" {
    echo 'this is no Lua' >bad.lua
    exits 65 holdfast script run bad.lua
    says "compiling"
    echo 'return redis.error_reply("OOPS so it is")' >bad.lua
    exits 65 holdfast script run bad.lua
    says "OOPS so it is"
    exits 66 holdfast script run missing.lua
    says "missing.lua: No such file"
    exits 66 holdfast script run .
}

@test "exists, flush" {
    echo 'return 7' >seven.lua
    sha=$(sha1sum seven.lua | cut -d' ' -f1)
    exits 1 holdfast script exists seven.lua
    says "no"
    [[ $(holdfast script run seven.lua) == 7 ]]
    exits 0 holdfast script exists seven.lua
    says "yes"
    exits 0 holdfast script exists "$sha" --json
    [[ $(jq -c . <<<"$output") == '{"exists":true}' ]]
    exits 0 holdfast script flush
    exits 1 holdfast script exists -q "$sha"
    [[ -z $output && $(holdfast script run seven.lua) == 7 ]]
}

@test "kill: while the server answers BUSY to all else" {
    exits 75 holdfast script kill
    says "no script runs"
    raw config set lua-time-limit 50
    echo 'while true do end' >forever.lua
    begin holdfast -S "$HOLDFAST_STORE?op_timeout=60s" script run forever.lua
    runner=$!
    eventually is_busy
    exits 0 holdfast script kill -w 60s
    status=0
    wait $runner || status=$?
    [[ $status == 75 ]]
    grep -q "killed" err
    echo 'redis.call("SET", "k", 1) while true do end' >written.lua
    begin holdfast script run written.lua
    eventually is_busy
    exits 75 holdfast script kill -w 60s
    says UNKILLABLE
}

@test "the rate limit of the examples" {
    limit() { holdfast script run "$HOLDFAST_SOURCE/examples/rate_limit.lua" limit:10.0.0.7 , 1000 3; }
    [[ $(limit)$(limit)$(limit)$(limit)$(limit) == 11100 ]]
    ttl=$(raw ttl limit:10.0.0.7)
    ((ttl > 0 && ttl <= 1000))
    raw expire limit:10.0.0.7 0 # the window is over
    [[ $(limit) == 1 ]]
}

@test "usage; and stores without scripts, which point to cells" {
    exits 64 holdfast script
    exits 64 holdfast script walk
    exits 64 holdfast script run
    exits 64 holdfast script run -w 5s x.lua
    exits 64 holdfast script flush x
    exits 64 holdfast script exists x y
    export HOLDFAST_STORE=file:$dir/store
    echo 'return 1' >one.lua
    exits 78 holdfast script run one.lua
    says "cells"
    exits 78 holdfast script flush
    exits 78 holdfast script kill
    says "runs no scripts"
}
