#!/usr/bin/env bats
# The command on a memcached. Each test has a server of its own, which dies with the test.
load helper

eval "$(declare -f setup | sed '1s/setup/base_setup/')"
setup() {
    base_setup
    local user=()
    [[ $(id -u) != 0 ]] || user=(-u "$(id -un)")
    setpriv --pdeathsig KILL memcached -t 2 -U 0 -s "$dir/sock" "${user[@]}" >"$dir/server.log" 2>&1 3>&- &
    begun+=($!)
    export HOLDFAST_STORE=memcached+unix://$dir/sock
    eventually holdfast ls
}

@test "memcached: run, and who comes second" {
    exits 7 holdfast run job -- sh -c 'echo "$HOLDFAST_NAME $HOLDFAST_TOKEN"; exit 7'
    says "job 0"
    hold job
    exits 75 holdfast run -n job -- true
    exits 75 holdfast run -w 50ms job -- true
    kill "$holder"
    eventually holdfast run -n job -- true
}

@test "memcached: waiters are not tracked, and that is said" {
    hold job
    exits 0 holdfast show job
    says "not tracked"
    [[ $(holdfast show job --json | jq -c '[.waiters, .holders[0].token]') == '[null,"0"]' ]]
    exits 0 holdfast ls -1
    says job
}

@test "memcached: lock, renew, unlock by the handle alone" {
    lease=$(holdfast lock job --ttl 1m)
    exits 75 holdfast run -n job -- true
    exits 0 holdfast renew job --lease "$lease"
    exits 0 holdfast unlock job --lease "$lease"
    exits 0 holdfast run -n job -- true
}

@test "memcached: what it cannot do it refuses" {
    exits 78 holdfast run -s job -- true
    exits 78 holdfast run --slots 2 job -- true
    exits 78 holdfast break job --token 1
    exits 78 holdfast limit job --rate 1/1s -n
    says "clock"
    exits 64 holdfast run --ttl 500ms job -- true
    exits 78 holdfast -S memcached://a,b ls
    exits 78 holdfast -S 'memcached://h?no=such' ls
}

@test "memcached: doctor says what every memcached lacks, and warns only of what this one could do better" {
    exits 0 holdfast doctor
    says "nothing fences a holder"
    says "evicted"
    [[ $(holdfast engines --json | jq -r '.engines[] | select(.engine == "memcached") | .tokens') == none ]]
}
