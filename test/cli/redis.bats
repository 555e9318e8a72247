#!/usr/bin/env bats
# The command on a Redis server. Each test has a server of its own, which dies with the test.
load helper

eval "$(declare -f setup | sed '1s/setup/base_setup/')"
setup() {
    base_setup
    start_server
}

# start_server [OPTION...]: a new redis-server, empty, instead of the one before; $port, $server.
start_server() {
    local try
    stop_server
    for ((try = 0; try < 50; try++)); do
        port=$((10000 + RANDOM % 20000))
        setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --port "$port" --unixsocket "$dir/sock" \
            --dir "$dir" --save '' --daemonize no "$@" >"$dir/server.log" 2>&1 3>&- &
        server=$!
        begun+=("$server")
        wait_for_server && break
    done
    export HOLDFAST_STORE=redis://127.0.0.1:$port
}

# restart_server [OPTION...]: again, on the same port.
restart_server() {
    setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --port "$port" --unixsocket "$dir/sock" \
        --dir "$dir" --save '' --daemonize no "$@" >"$dir/server.log" 2>&1 3>&- &
    server=$!
    begun+=("$server")
    wait_for_server
}

wait_for_server() {
    while kill -0 $server 2>/dev/null; do
        [[ $(redis-cli -s "$dir/sock" ping 2>&1) == *@(PONG|NOAUTH)* ]] && return
        sleep 0.02
    done
    false
}

stop_server() {
    [[ -z ${server:-} ]] && return
    {
        kill -KILL "$server"
        wait "$server"
    } 2>/dev/null || true
    server=
    rm -f "$dir/sock"
}

raw() { redis-cli -s "$dir/sock" "$@"; }
ends_with() { local status=0; wait "$2" || status=$?; [[ $status == "$1" ]] || { echo "exit code $status"; cat err; return 1; }; }
token_of() { holdfast show "$1" --json | jq -r '.holders[0].token'; }

@test "a run inside a run takes its own lock if its URL means other locks: another wire, another prefix" {
    # An inner run that counted as nested would write no key of its own, and hold nothing.
    exits 0 timeout 20 holdfast run -n k -- holdfast -S "$HOLDFAST_STORE?wire=plain" run -n k -- redis-cli -s "$dir/sock" exists k
    [[ $output == 1 ]]
    exits 0 timeout 20 holdfast -S "$HOLDFAST_STORE?wire=redisson" run -n k -- holdfast -S "$HOLDFAST_STORE" run -n k -- sh -c 'echo $HOLDFAST_TOKEN'
    ((output > 0))
    exits 0 timeout 20 holdfast -S "$HOLDFAST_STORE?prefix=a:" run -n k -- holdfast -S "$HOLDFAST_STORE?prefix=b:" run -n k -- \
        holdfast -S "$HOLDFAST_STORE?prefix=b:" ls
    [[ $output == *$'\nk '* ]]
    # The same locks, in other words.
    exits 0 timeout 20 holdfast run -n k -- holdfast -S "$HOLDFAST_STORE/0?prefix=hf:&wire=native&op_timeout=3s" run -n k -- true
}

# ---- every verb ------------------------------------------------------------------------------

@test "a waiter knows its position by the label that the library made; by a label of its own it does not" {
    hold job
    begin sh -c 'exec holdfast run job --label batch --status-fd 9 -- true 9>"$0"' "$dir/named"
    eventually has_waiters job 1
    begin sh -c 'exec holdfast run job --status-fd 9 -- true 9>"$0"' "$dir/status"
    eventually grep -q '"position":2' status
    eventually grep -q '"position":null' named
}

@test "run: the command's status, and what it finds in its environment" {
    exits 7 holdfast run job -- sh -c 'echo "$HOLDFAST_NAME $HOLDFAST_STORE"; [ "$HOLDFAST_TOKEN" -gt 0 ]; exit 7'
    says "job redis://127.0.0.1:$port"
    is_free job
}

@test "tokens grow, and a waiter is next when the holder ends" {
    hold job
    first=$(token_of job)
    begin holdfast run job -- sh -c 'echo "$HOLDFAST_TOKEN" >second'
    waiter=$!
    eventually has_waiters job 1
    exits 75 holdfast run -n job -- true
    exits 75 holdfast run -w 3s job -- true
    has_waiters job 1
    kill "$holder"
    ends_with 0 $waiter
    (($(cat second) > first))
}

@test "lock, show, renew, unlock: only with the handle, and once" {
    handle=$(holdfast lock job --ttl 60s)
    exits 0 holdfast show job
    says detached
    exits 0 holdfast renew job --lease "$handle" --ttl 100s
    [[ $(holdfast show job --json | jq '.holders[0].ttl_ms | tonumber > 60000') == true ]]
    exits 64 holdfast unlock job --lease nonsense
    exits 76 holdfast unlock job --lease "0123456789abcdef0123456789abcdef-1"
    is_held job
    exits 0 holdfast unlock job --lease "$handle"
    is_free job
    exits 76 holdfast unlock job --lease "$handle"
}

@test "lock --for: kept while the process lives, freed when it ends" {
    sleep 1000 3>&- &
    sleeper=$!
    begun+=("$sleeper")
    holdfast lock job --for $sleeper --ttl 1s >handle
    sleep 2.5
    is_held job
    kill $sleeper
    eventually is_free job
}

@test "break: exactly that lease, and its holder is told" {
    begin holdfast run job -- sleep 1000
    pid=$!
    eventually is_held job
    token=$(token_of job)
    exits 75 holdfast break job --token $((token + 1))
    exits 75 holdfast break job --token 1
    is_held job
    exits 0 holdfast break job --token "$token"
    ends_with 76 $pid
    grep -q "lease of 'job' is lost" err
    exits 75 holdfast break job --token "$token"
}

@test "ls: names, a glob, kinds, JSON" {
    holdfast lock db.one >handle
    holdfast lock db.two --slots 3 >handle
    holdfast lock 'odd {name}%*' -s >handle
    exits 0 holdfast ls -1
    [[ $output == 'db.one
db.two
odd {name}%*' ]]
    exits 0 holdfast ls -1 'db.*'
    [[ $output == 'db.one
db.two' ]]
    [[ $(holdfast ls --json | jq -r '.names[].kind' | xargs) == "mutex semaphore rwlock" ]] ||
        { holdfast ls --json; false; }
    [[ $(holdfast ls --json | jq -r '.engine') == redis ]]
    exits 65 holdfast run -n --slots 2 db.one -- true
}

@test "watch: what is there, then what changes, as the server tells" {
    holdfast lock old >handle
    begin holdfast watch --json
    watch=$!
    eventually grep -q '"old"' out
    hold new
    eventually grep -q '"held".*"new"' out
    begin holdfast run new -- true
    eventually grep -q '"waiters".*"new"' out
    kill "$holder"
    eventually grep -q '"freed".*"new"' out
    [[ $(jq -r 'select(.name == "old") | "\(.event) \(.first)"' <out | head -1) == "held true" ]]
    kill -0 $watch
}

@test "watch ends when nobody reads it" {
    holdfast lock old >handle
    exits 0 timeout 60 bash -c 'set -o pipefail; holdfast watch | head -1'
}

@test "engines: redis and what it promises" {
    exits 0 holdfast engines
    says "redis (redis rediss redis+unix redis+sentinel rediss+sentinel redis+cluster rediss+cluster)"
    [[ $(holdfast engines --json | jq -r '.engines[] | select(.engine == "redis") | .tokens') == while-durable ]]
}

@test "the Unix socket, another database, IPv4 in words" {
    exits 0 holdfast -S "redis+unix://$dir/sock" run a -- holdfast ls -1
    says a
    exits 0 holdfast -S "redis://127.0.0.1:$port/5" lock b
    exits 0 holdfast ls -1
    [[ $output == "" ]]
    exits 0 holdfast -S "redis://localhost:$port/5" ls -1
    [[ $output == b ]]
    [[ $(raw -n 5 keys '*') == *'hf:{b}'* ]]
}

# ---- misuse ------------------------------------------------------------------------------------

@test "a store that is not there: 69" {
    stop_server
    exits 69 holdfast run -n job -- touch ran
    says "127.0.0.1:$port: Connection refused"
    exits 69 holdfast -S "redis+unix://$dir/nosuch" ls
    exits 69 holdfast -S redis://nosuch.invalid ls
    says nosuch.invalid
    [[ ! -e ran ]]
}

@test "a store URL that is wrong: 78" {
    local url
    for url in "redis://127.0.0.1:$port/99" "redis://127.0.0.1:$port/x" "redis://127.0.0.1:$port?nosuch=1" \
        "redis://127.0.0.1:$port?wire=other" "redis://127.0.0.1:$port?verify=off" redis:// redis://:0 \
        "redis://127.0.0.1:99999" "redis://127.0.0.1:$port?op_timeout=5" "redis://me@127.0.0.1:$port" \
        "redis+unix://" "redis://127.0.0.1:$port?sync=x" "redis://127.0.0.1:$port?repair_expiry=1s"; do
        exits 78 holdfast -S "$url" run -n job -- touch ran
    done
    [[ ! -e ran ]]
}

@test "a port where something else listens: 69, and no waiting for ever" {
    begin python3 -c 'import socket,time
s = socket.create_server(("127.0.0.1", 0)); open("port.tmp", "w").write(str(s.getsockname()[1]))
import os; os.rename("port.tmp", "port")
while True:
    c, _ = s.accept(); c.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"); time.sleep(1); c.close()'
    eventually test -e port
    exits 69 holdfast -S "redis://127.0.0.1:$(cat port)" run -n job -- true
}

@test "TLS to a server that has none: 69, and it says TLS" {
    exits 69 holdfast -S "rediss://127.0.0.1:$port" ls
    says TLS
}

@test "a name that something else has taken: an error, and the other's key stays" {
    raw set 'hf:{job}' precious
    exits 65 holdfast run -n job -- touch ran
    [[ ! -e ran && $(raw get 'hf:{job}') == precious ]]
}

# ---- the server fails while the command runs -------------------------------------------------------

@test "the server dies: the command is ended, and the code is 76" {
    begin holdfast run job --ttl 3s --status-fd 9 -- sh -c 'trap "echo term >got; exit 5" TERM; touch ready; while :; do sleep 0.05; done' 9>status
    pid=$!
    eventually test -e ready
    stop_server
    ends_with 76 $pid
    [[ $(cat got) == term ]]
    [[ $(jq -r .event <status | xargs) == "acquired started "*"lost exited" ]] || { cat status; false; }
}

# The command's end, and ours: in ms of one clock.
uptime_ms() { local now; read -r now _ </proc/uptime; echo "${now/./}0"; }

# ends_soon STATUS MOST OPTION... -- COMMAND...: a run whose server dies when its command has made `ready` exits with STATUS,
# and in one of five attempts less than MOST ms after its command, however busy the machine is. A file `go` is made then.
ends_soon() {
    local status_wanted=$1 most=$2
    shift 2
    attempt() {
        local pid ended late
        rm -f ready go ended
        start_server
        begin holdfast run job "$@"
        pid=$!
        eventually test -e ready || return 2
        stop_server
        touch go
        ends_with "$status_wanted" $pid || return 2
        ended=$(cut -d' ' -f1 <ended)
        late=$(($(uptime_ms) - ${ended/./}0))
        ((late < most)) || { echo "ended $late ms after the command"; return 1; }
    }
    once_of_five attempt "$@"
}
until_term='trap "cat /proc/uptime >ended; exit 5" TERM; touch ready; while :; do sleep 0.05; done'

@test "the server dies: when the command has ended, so have we" {
    ends_soon 76 4000 --ttl 3s -- sh -c "$until_term" # promised: 1 s; it was 10
}

@test "the server dies: --min-hold does not keep us when the command was ended for that" {
    ends_soon 76 3500 --ttl 15s --min-hold 60s -- sh -c "$until_term" # promised: 1 s; the lease had 5 s left
}

@test "the server dies, and the command ends under its lease: the release is not waited for without end" {
    # Promised: 6 s; it was 10.
    ends_soon 5 8500 --ttl 60s -- sh -c 'touch ready; while [ ! -e go ]; do sleep 0.05; done; cat /proc/uptime >ended; exit 5'
    grep -q "'job' was not released" err
}

# The next holder looks whether the inner command is still there.
outer_killed() {
    local outer status=0
    rm -f in command alive
    begin holdfast run job --ttl 3s -- sh -c 'setsid holdfast run job -- sh -c "trap \"\" TERM; echo \$\$ >command; touch in; while :; do sleep 0.05; done" & wait'
    outer=$!
    eventually test -e in || return 2
    kill -KILL $outer
    holdfast run job -- sh -c 'state=$(sed "s/.*) \(.\).*/\1/" "/proc/$(cat command)/stat" 2>/dev/null); [ -z "$state" ] || [ "$state" = Z ]' || status=1
    kill -KILL "$(cat command)" 2>/dev/null
    return $status
}

@test "the outer run is killed: the inner command has ended before the next holder begins" {
    once_of_five outer_killed
}

@test "the server comes back without its data: the lease is lost, and the code is 76" {
    begin holdfast run job --ttl 60s -- sh -c 'trap "echo term >got; exit 5" TERM; touch ready; while :; do sleep 0.05; done'
    pid=$!
    eventually test -e ready
    stop_server
    restart_server
    ends_with 76 $pid
    [[ $(cat got) == term ]]
}

@test "the server's data is deleted under a holder: the message blames not only force" {
    hold x --ttl 6s
    redis-cli -s "$dir/sock" flushall
    ends_with 76 "$holder"
    grep -qF "the lease of 'x' is lost: it was ended by force, or the store has forgotten it; ending the command" err
}

@test "the server comes back with its data: the command goes on" {
    start_server --appendonly yes --appendfsync always
    begin holdfast run job --ttl 60s -- sh -c 'touch ready; while [ ! -e go ]; do sleep 0.05; done; exit 5'
    pid=$!
    eventually test -e ready
    stop_server
    restart_server --appendonly yes --appendfsync always
    exits 75 holdfast run -n job -- true
    touch go
    ends_with 5 $pid
    is_free job
}

@test "the server is stopped for a while: waiting goes on afterwards" {
    hold job
    begin holdfast run job -- touch ran
    waiter=$!
    eventually has_waiters job 1
    kill -STOP $server
    sleep 1
    kill -CONT $server
    kill "$holder"
    ends_with 0 $waiter
    [[ -e ran ]]
}

# ---- passwords -------------------------------------------------------------------------------------

@test "wrong password, no password: 77, and nothing quotes it" {
    start_server --requirepass hunter2
    exits 77 holdfast ls
    says NOAUTH
    exits 77 holdfast -S "redis://:hunter3@127.0.0.1:$port" ls
    says WRONGPASS
    not says hunter3
    exits 77 holdfast -S "redis://me:hunter2@127.0.0.1:$port" ls
    not says hunter2
    exits 77 holdfast -S "redis://127.0.0.1:$port?password_file=$dir/nosuch" ls
    exits 78 holdfast -S "redis://127.0.0.1:$port?password_env=NOSUCH" ls
}

@test "a password in the URL works, and is seen nowhere" {
    start_server --requirepass hunter2
    begin holdfast -v -S "redis://:hunter2@127.0.0.1:$port" run job --status-fd 9 -- sh -c 'env >env; touch ready; exec sleep 1000' 9>status
    pid=$!
    eventually test -e ready
    not grep -aq hunter2 /proc/$pid/cmdline
    not grep -q hunter2 env
    grep -qx "HOLDFAST_STORE=redis://127.0.0.1:$port" env
    export HOLDFAST_STORE=redis://:hunter2@127.0.0.1:$port
    exits 0 holdfast -v ls --json
    not says hunter2
    exits 0 holdfast -v show job --json
    not says hunter2
    exits 1 holdfast -v doctor
    not says hunter2
    exits 1 holdfast -v doctor --json
    not says hunter2
    exits 1 holdfast doctor "$HOLDFAST_STORE"
    not says hunter2
    exits 0 holdfast run other -- sh -c 'echo "$HOLDFAST_STORE"'
    not says hunter2
    exits 64 holdfast run one two "$HOLDFAST_STORE" -- true
    not says hunter2
    exits 64 holdfast "$HOLDFAST_STORE" run
    not says hunter2
    exits 64 holdfast run job --wait "$HOLDFAST_STORE" -- true
    not says hunter2
    exits 0 holdfast lock kept --for $$
    begin holdfast watch
    watch=$!
    eventually grep -q kept out
    not grep -aq hunter2 /proc/$watch/cmdline
    not grep -q hunter2 out err status
    [[ $(raw -a hunter2 --no-auth-warning client list) != *hunter2* ]]
}

@test "password_file, for the command and for a holdfast inside of it" {
    start_server --requirepass hunter2
    (umask 077 && echo hunter2 >password)
    export HOLDFAST_STORE="redis://127.0.0.1:$port?password_file=$dir/password"
    exits 0 holdfast run a -- sh -c 'echo "$HOLDFAST_STORE"; holdfast run b -- holdfast ls -1'
    says "password_file=$dir/password"
    says "a
b"
}

@test "password_env: the command does not inherit it" {
    start_server --requirepass hunter2
    export PW=hunter2
    exits 0 holdfast -S "redis://127.0.0.1:$port?password_env=PW" run a -- env
    not says hunter2
    says "password_env=PW"
}

# A command of `run` gets no password, and a `holdfast` in it uses the same store.
same_store() { # STORE [LIST]: of a holdfast inside, in all ways in which it may mean the store
    HOLDFAST_STORE=$1 exits 0 holdfast run a -- sh -c 'env >env; holdfast ls -1; holdfast -S "$HOLDFAST_STORE" run b -- holdfast ls -1;
        holdfast run a -- holdfast ls -1; holdfast limit l --rate 9/1s -- holdfast ls -1; holdfast guard g -- holdfast ls -1'
    [[ $(grep -v '^l$' <<<"$output") == a$'\n'a$'\n'b$'\n'a$'\n'a$'\n'a ]]
    not grep -q hunter2 env
}

@test "a holdfast inside of a run uses the same store, wherever its password is" {
    start_server --requirepass hunter2
    (umask 077 && echo hunter2 >password)
    cat >config <<CONFIG
[profile file]
url = redis://127.0.0.1:$port/
password_file = $dir/password
[profile variable]
url = redis://127.0.0.1:$port/
password_env = PW
CONFIG
    export HOLDFAST_CONFIG=$dir/config
    same_store "redis://:hunter2@127.0.0.1:$port"
    PW=hunter2 same_store "redis://127.0.0.1:$port?password_env=PW&db=0"
    same_store "redis://127.0.0.1:$port?password_file=$dir/password"
    same_store file
    PW=hunter2 same_store variable
    export HOLDFAST_STORE=redis://:hunter2@127.0.0.1:$port
    # Also where the outer one leads, and is observed from inside; and where it holds nothing of the name.
    exits 0 holdfast elect e -- sh -c 'holdfast elect e --observe >seen & until grep -q holder seen || grep -q leader seen || [ -s seen ]; do sleep 0.02; done; kill $!'
    grep -q ' e' seen
    exits 0 holdfast join g -- holdfast members g
    exits 0 holdfast once o -- holdfast ls -1
    # Another store inside: the password of the outer one is not for it.
    exits 77 holdfast run a -- holdfast -S "redis://127.0.0.1:$port/1" ls
}

@test "a holdfast inside of a run without the descriptor: why it has no password" {
    start_server --requirepass hunter2
    export HOLDFAST_STORE=redis://:hunter2@127.0.0.1:$port
    exits 77 holdfast run a -- bash -c 'eval "exec ${HOLDFAST_STORE_FD%%:*}>&-"; holdfast ls'
    says "took the password out of HOLDFAST_STORE"
    says "password_file="
    # Nor is there one where nobody stays to answer.
    exits 77 holdfast limit l --rate 9/1s -- holdfast ls
    says "took the password out of HOLDFAST_STORE"
    # Of a run that has ended.
    holdfast run a -- sh -c '(until [ -e ended ]; do sleep 0.02; done; holdfast ls 2>late; echo $? >code) >/dev/null 2>&1 3>&- &'
    touch ended
    eventually test -s code
    [[ $(cat code) == 77 ]]
    grep -q "took the password out of HOLDFAST_STORE" late
    not grep -q hunter2 late
    not says hunter2
}

@test "another user who has the descriptor gets no password" {
    ((EUID == 0)) || skip "not root: no process can become another user"
    setpriv --reuid 65534 --regid 65534 --clear-groups "$HOLDFAST_BIN" --version >/dev/null 2>&1 ||
        skip "another user cannot read this build"
    start_server --requirepass hunter2
    export HOLDFAST_STORE=redis://:hunter2@127.0.0.1:$port
    exits 0 holdfast run a -- setpriv --reuid 0 "$HOLDFAST_BIN" ls -1
    exits 77 holdfast run a -- setpriv --reuid 65534 --regid 65534 --clear-groups "$HOLDFAST_BIN" ls
    says "took the password out of HOLDFAST_STORE"
    not says hunter2
}

@test "a profile: its password goes nowhere" {
    start_server --requirepass hunter2
    (umask 077 && echo hunter2 >password)
    printf '[profile locks]\nurl = redis://127.0.0.1:%s/\npassword_file = %s/password\n' "$port" "$dir" >config
    export HOLDFAST_CONFIG=$dir/config
    exits 0 holdfast -v -S locks run a -- sh -c 'echo "$HOLDFAST_STORE"; holdfast ls -1'
    says locks
    says "
a"
    not says hunter2
}

# ---- rights -----------------------------------------------------------------------------------------

# The rule as holdfast-engines(7) has it.
documented_rule() { sed -n 's/^ACL SETUSER locks //p' "$HOLDFAST_SOURCE/man/holdfast-engines.7" | xargs; }

@test "the ACL rule of the manual is enough" {
    rule=$(documented_rule)
    [[ $rule == *+evalsha* ]]
    # shellcheck disable=SC2086 # words
    raw acl setuser locks $rule
    export HOLDFAST_STORE=redis://locks:secret@127.0.0.1:$port
    exits 0 holdfast run job -- true
    hold job
    begin holdfast run job -- touch ran
    eventually has_waiters job 1
    exits 77 holdfast ls
    raw acl setuser locks +scan
    exits 0 holdfast ls -1
    says job
    exits 0 holdfast break job --token "$(token_of job)"
    eventually test -e ran
    handle=$(holdfast lock job)
    exits 0 holdfast renew job --lease "$handle"
    exits 0 holdfast unlock job --lease "$handle"
    exits 1 holdfast doctor
    says "rights: all that locks need"
    says "no right to know"
    # Keys and channels of others are not for it.
    [[ $(raw --user locks --pass secret --no-auth-warning eval 'return redis.call("hset", KEYS[1], "a", "b")' 1 other 2>&1) == *@(NOPERM|permission)* ]]
    [[ $(raw --user locks --pass secret --no-auth-warning flushall 2>&1) == *NOPERM* ]]
}

@test "a user who may too little: 77 or the doctor's word" {
    # shellcheck disable=SC2046 # words
    raw acl setuser locks $(documented_rule) -hset
    exits 77 holdfast -S "redis://locks:secret@127.0.0.1:$port" run -n job -- true
    exits 2 holdfast doctor "redis://locks:secret@127.0.0.1:$port"
    says "refused: HSET"
    raw acl setuser locks +hset -publish
    exits 1 holdfast doctor "redis://locks:secret@127.0.0.1:$port"
    says "woken by their own heartbeats only"
    raw acl setuser locks +publish -evalsha
    exits 2 holdfast doctor "redis://locks:secret@127.0.0.1:$port"
    says "EVALSHA: NOPERM"
    # shellcheck disable=SC2046 # words
    raw acl setuser locks reset $(documented_rule) resetchannels
    exits 77 holdfast -S "redis://locks:secret@127.0.0.1:$port" run -n job -- true
    says SUBSCRIBE
}

# ---- doctor ------------------------------------------------------------------------------------------

level_of() { holdfast doctor --json | jq -r ".findings[] | select(.topic == \"$1\") | .level" | head -1; }

@test "doctor: 0 if all is well" {
    start_server --appendonly yes --appendfsync always
    exits 0 holdfast doctor
    says "survive a restart"
    says "noeviction"
    says "round trip"
    exits 0 holdfast -q doctor
    [[ $output == "" ]]
}

@test "doctor in Chinese: by --lang, by the environment in UTF-8; JSON stays as it is" {
    exits 1 holdfast doctor --lang zh
    says "说明     复制：没有副本：这台服务器没了，锁也就没了"
    says "CONFIG SET appendonly yes"
    says "结论：可用，有 1 项警告。"
    exits 1 env LC_ALL=zh_CN.UTF-8 "$HOLDFAST_BIN" doctor
    says "结论：可用"
    exits 1 env LC_ALL=zh_CN.GBK "$HOLDFAST_BIN" doctor
    says "verdict: it works"
    exits 1 env LC_ALL=zh_CN.UTF-8 "$HOLDFAST_BIN" doctor --lang en
    says "verdict: it works"
    holdfast doctor --lang zh --json | jq -e 'any(.findings[]; .text | startswith("no replicas: "))'
}

@test "doctor: 1 for what a restart forgets, 2 for a lock that can be evicted" {
    exits 1 holdfast doctor
    says "a restart forgets every lease"
    raw config set maxmemory-policy allkeys-lru
    exits 1 holdfast doctor
    raw config set maxmemory 100mb
    exits 2 holdfast doctor
    says "can be evicted"
    [[ $(level_of memory) == bad && $(level_of persistence) == warning && $(level_of server) == fine ]]
    raw config set maxmemory-policy noeviction
    raw config set maxmemory 1
    [[ $(level_of memory) == warning ]]
}

@test "doctor: replicas, and those that sync= wants" {
    exits 2 holdfast doctor "redis://127.0.0.1:$port?sync=1"
    says "no lock will be granted"
}

@test "doctor leaves nothing behind" {
    exits 1 holdfast doctor
    [[ $(raw dbsize) == 0 ]]
}

# ---- the guard -----------------------------------------------------------------------------------------

# script NAME: one of the two in holdfast-pitfalls(7).
script() { sed -n "/^-- $1:/,/^\(\.Ed\)\?$/p" "$HOLDFAST_SOURCE/man/holdfast-pitfalls.7" | grep -v '^\.Ed'; }

@test "the guard of the manual: a late token is refused, and what was claimed cannot be overwritten" {
    old=$(holdfast run job -- printenv HOLDFAST_TOKEN)
    new=$(holdfast run job -- printenv HOLDFAST_TOKEN)
    raw eval "$(script claim)" 1 resource "$old"
    [[ $(raw eval "$(script write)" 1 resource "$old" first) == 1 ]]
    [[ $(raw eval "$(script claim)" 1 resource "$new") == first ]]
    [[ $(raw eval "$(script write)" 1 resource "$old" late 2>&1) == *LATE* ]]
    [[ $(raw eval "$(script claim)" 1 resource "$old" 2>&1) == *LATE* ]]
    [[ $(raw eval "$(script claim)" 1 resource "$new") == first ]]
}

@test "elect --observe waits for a store that is away" {
    holdfast elect chair --observe --json >seen 2>said 3>&- &
    observer=$!
    begun+=("$observer")
    eventually grep -q vacant seen
    stop_server
    eventually grep -q "waiting for it" said
    restart_server
    [[ $(holdfast elect chair --value here -- sh -c 'until grep -q here seen; do sleep 0.05; done; echo led') == led ]]
    kill -0 $observer
}

said_twice() { (($(grep -c "the store does not know it yet" err) == 2)); }

@test "once, latch --down: the store is away when it is done: that is written when it is back" {
    start_server --appendonly yes --appendfsync always
    holdfast latch gate --count 1
    begin holdfast -S "$HOLDFAST_STORE?op_timeout=200ms" once job --ttl 120s -- sh -c 'touch ready; while [ ! -e go ]; do sleep 0.05; done'
    once=$!
    begin holdfast -S "$HOLDFAST_STORE?op_timeout=200ms" latch gate --down --as me -- sh -c 'touch joined; while [ ! -e go ]; do sleep 0.05; done'
    latch=$!
    eventually test -e ready
    eventually test -e joined
    stop_server
    touch go
    eventually said_twice
    restart_server --appendonly yes --appendfsync always
    ends_with 0 $once
    ends_with 0 $latch
    exits 0 holdfast once job -- touch again
    [[ ! -e again ]]
    exits 0 holdfast latch gate --wait -n
}
