#!/usr/bin/env bats
# The command on more than a plain Redis server: TLS, Sentinel, a cluster, the foreign wires. Each test
# runs as a whole inside of with_server redis, which has the servers: `within OPTION... -- FUNCTION`.
load helper

within() {
    local options=()
    while [[ $1 != -- ]]; do options+=("$1"); shift; done
    export dir
    # shellcheck disable=SC2016 # for the inner shell
    "$HOLDFAST_BUILD/bin/test/with_server" redis "${options[@]}" bash -c '
        source "$HOLDFAST_SOURCE/test/cli/helper.bash"
        source <(sed -n "/^# ---- inside/,/^# ---- tests/p" "$0")
        begun=()
        trap "kill -KILL \"\${begun[@]}\" 2>/dev/null || true" EXIT
        export HOLDFAST_STORE=${HOLDFAST_TEST_URL//"{id}"/x}
        set -e
        "$1"' "$BATS_TEST_FILENAME" "$2" 3>&-
}

# ---- inside

all_verbs() {
    exits 5 holdfast run job -- sh -c 'exit 5'
    hold job
    begin holdfast run job -- touch "$dir/ran"
    eventually has_waiters job 1
    exits 75 holdfast run -n job -- true
    for name in a b c d e f; do holdfast lock $name --ttl 10m >/dev/null; done
    [[ $(holdfast ls -1 '[a-f]' | xargs) == "a b c d e f" ]]
    exits 0 holdfast break job --token "$(holdfast show job --json | jq -r '.holders[0].token')"
    eventually test -e "$dir/ran"
    [[ $(holdfast counter n --add 2) == 2 ]]
    [[ $(echo 'return 7' | holdfast script run -) == 7 ]]
    exits 75 holdfast script kill
    says "no script runs"
    begin holdfast watch
    eventually grep -q 'held *f' "$dir/out"
    exits 1 holdfast doctor
    says "rights: "
}

sentinel() {
    all_verbs
    exits 1 holdfast doctor
    says "sentinel: 3 of 3 answer"
    says "2 replicas"
    exits 1 holdfast doctor "$HOLDFAST_STORE&sync=2"
    says "2 replicas keep up"
    exits 2 holdfast doctor "$HOLDFAST_STORE&sync=3"
    says "no lock will be granted"
    exits 0 holdfast -S "$HOLDFAST_STORE&sync=1" run synced -- true
    exits 69 holdfast -S "$HOLDFAST_STORE&sync=3" run -n synced -- touch "$dir/not"
    [[ ! -e $dir/not ]]
    exits 78 holdfast -S "${HOLDFAST_STORE/mymaster/nobody}" ls
    says nobody
}

cluster() {
    all_verbs
    exits 1 holdfast doctor
    says "cluster: 3 masters"
    says "its state is ok"
    exits 78 holdfast -S "$HOLDFAST_STORE&sync=1" ls
    # One node of it has only some of the names: "a" and "c" are not in the same third.
    node=${HOLDFAST_STORE#*://}
    node=${node%%,*}
    output=
    for name in a c; do
        output+=$(holdfast -S "redis://$node" run $name -- true 2>&1) || (($? == 78))
    done
    says "use redis+cluster:"
    exits 2 holdfast doctor "redis://$node"
    says "has only some of the names"
}

tls() {
    all_verbs
    exits 1 holdfast doctor
    says "the server's certificate is verified"
    exits 77 holdfast -S "rediss://127.0.0.1:$HOLDFAST_TEST_PORT" ls
    says "the server's certificate"
    exits 77 holdfast -S "$HOLDFAST_STORE&sni=other.example" ls
    says "hostname mismatch"
    exits 1 holdfast doctor "$HOLDFAST_STORE&verify=off"
    says "can pose as the server"
    exits 69 holdfast -S "redis://127.0.0.1:$HOLDFAST_TEST_PORT" ls
}

foreign() {
    exits 0 holdfast run job -- sh -c 'echo "token $HOLDFAST_TOKEN"'
    says "token 0"
    rm -f "$dir/held" "$dir/go"
    begin holdfast run job -- sh -c 'touch "$0/held"; while [ ! -e "$0/go" ]; do sleep 0.05; done' "$dir"
    eventually test -e "$dir/held"
    exits 75 holdfast run -n job -- true
    touch "$dir/go"
    exits 0 holdfast run job -- true
    exits 78 holdfast ls
    exits 78 holdfast run -s job -- true
    exits 78 holdfast run --slots 2 job -- true
    exits 1 holdfast doctor
    says "no tokens"
    handle=$(holdfast lock job)
    [[ $(redis-cli -s "$HOLDFAST_TEST_SOCKET" exists job) == 1 ]]
    exits 0 holdfast unlock job --lease "$handle"
    [[ $(redis-cli -s "$HOLDFAST_TEST_SOCKET" exists job) == 0 ]]
}

# ---- tests

# rule USER: what holdfast-engines(7) says that a user of that name needs.
rule() { sed -n "s/^ACL SETUSER $1 //p" "$HOLDFAST_SOURCE/man/holdfast-engines.7" | xargs; }

@test "Sentinel" { within -S -- sentinel; }
@test "a cluster" { within -C -- cluster; }
@test "TLS" { within -t -- tls; }
@test "wire=plain" { within -q wire=plain -- foreign; }
@test "wire=redisson" { within -q wire=redisson -- foreign; }
@test "wire=plain, with the rights of the manual" { within -u "$(rule plain)" -q wire=plain -- foreign; }
@test "wire=redisson, with the rights of the manual" { within -u "$(rule redisson)" -q wire=redisson -- foreign; }
