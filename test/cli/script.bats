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
pongs() { [[ $(raw ping) == PONG ]]; }
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
    [[ $(jq -c .exists <<<"$output") == true ]]
    exits 0 holdfast script flush
    exits 1 holdfast script exists -q "$sha"
    [[ -z $output && $(holdfast script run seven.lua) == 7 ]]
}

@test "-e: a text instead of a file; keys, comma and arguments come right behind it" {
    [[ $(holdfast script run -e 'return 1') == 1 ]]
    [[ $(holdfast script run -e 'return { #KEYS, KEYS[1], ARGV[1] }' k , -1 | xargs) == "1 k -1" ]]
    [[ $(holdfast script run --expression='return ARGV[2]' , a --json) == --json ]]
    [[ $(holdfast script run -e 'return ARGV[1]' --json -- , -x | jq -r .value) == -x ]]
    exits 65 holdfast script run -e 'return nil + 1'
    exits 0 holdfast script exists -e 'return 1'
}

@test "load: its SHA-1, by which it is run; NOSCRIPT is 66; exists for several" {
    echo 'return KEYS[1] .. ARGV[1]' >join.lua
    exits 0 holdfast script load join.lua
    [[ $output == "$(sha1sum join.lua | cut -d' ' -f1)" ]]
    sha=$output
    [[ $(holdfast script run "$sha" a , b) == ab ]]
    [[ $(holdfast script load --json -e 'return 1' | jq -r .sha1) == "$(printf 'return 1' | sha1sum | cut -d' ' -f1)" ]]
    none=0123456789012345678901234567890123456789
    exits 66 holdfast script run $none a , b
    says "NOSCRIPT"
    exits 1 holdfast script exists "$sha" $none join.lua
    [[ $output == "yes  $sha"$'\n'"no  $none"$'\n'"yes  join.lua" ]]
    exits 0 holdfast script exists "$sha" join.lua
    exits 1 holdfast script exists --json "$sha" $none
    [[ $(jq -c '[.exists, .scripts[].exists]' <<<"$output") == "[false,true,false]" ]]
    exits 65 holdfast script load -e 'no Lua'
    says "compiling"
    raw script flush
    exits 66 holdfast script run "$sha" a , b
}

@test "run --read-only: the server refuses what it writes; a server without EVAL_RO is told apart" {
    [[ $(holdfast script run --read-only -e 'return redis.call("EXISTS", KEYS[1])' k) == 0 ]]
    exits 65 holdfast script run --read-only -e 'return redis.call("SET", KEYS[1], 1)' k
    says "read-only"
    [[ $(raw exists k) == 0 ]]
    kill "$server" # as before Redis 7.0
    wait "$server" || true
    setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --port "$port" --unixsocket "$dir/sock" \
        --dir "$dir" --save '' --daemonize no --requirepass sesame --rename-command EVAL_RO "" \
        --rename-command EVALSHA_RO "" >"$dir/server.log" 2>&1 3>&- &
    begun+=($!)
    eventually pongs
    exits 78 holdfast script run --read-only -e 'return 1'
    says "EVAL_RO"
    [[ $(holdfast script run -e 'return 1') == 1 ]]
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
    exits 64 holdfast script run
    exits 64 holdfast script load
    exits 64 holdfast script load x.lua -e 'return 1'
    exits 64 holdfast script load x y
    exits 64 holdfast script load --read-only x
    exits 64 holdfast script flush -e 'return 1'
    exits 64 holdfast script run -e ''
    says "is no script"
    exits 64 holdfast script load -e ''
    exits 66 holdfast script exists x y
    export HOLDFAST_STORE=file:$dir/store
    echo 'return 1' >one.lua
    exits 78 holdfast script run one.lua
    says "cells"
    exits 78 holdfast script load one.lua
    says "cells"
    exits 78 holdfast script flush
    exits 78 holdfast script kill
    says "runs no scripts"
}
