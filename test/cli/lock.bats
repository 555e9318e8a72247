#!/usr/bin/env bats
# lock, renew, unlock: leases that outlive the command; and the keeper of --for.
load helper

@test "lock prints a handle; renew and unlock want it" {
    handle=$(holdfast lock x)
    [[ -n $handle && $handle != *[[:space:]]* ]]
    exits 75 holdfast run -n x -- true
    exits 0 holdfast renew x --lease "$handle"
    exits 0 holdfast unlock x --lease "$handle"
    is_free x
    exits 76 holdfast unlock x --lease "$handle"
    exits 76 holdfast renew x --lease "$handle"
}

@test "not a handle: 64; a handle of another lease frees nothing" {
    holdfast lock x >/dev/null
    other=$(holdfast lock y)
    exits 64 holdfast unlock x --lease junk
    says "--lease is not a handle that \`lock\` printed"
    exits 64 holdfast unlock x
    exits 76 holdfast unlock x --lease "$other"
    is_held x
}

@test "--json: name, token, handle, ttl" {
    out=$(holdfast lock x --ttl 20s --json)
    jq -e '.name == "x" and .ttl_ms == "20000" and (.token | type) == "string" and .keeper_pid == null' <<<"$out"
    handle=$(jq -r .handle <<<"$out")
    holdfast renew x --lease "$handle" --ttl 60s --json | jq -e '.ttl_ms == "60000"'
    holdfast show x --json | jq -e '.holders[0].detached and (.holders[0].ttl_ms | tonumber) > 50000'
    holdfast unlock x --lease "$handle" --json | jq -e .released
}

ends_after_its_ttl() {
    holdfast lock x --ttl 2s || return 2
    exits 75 holdfast run -n x -- true || return 1
    exits 0 holdfast run -w 60s x -- true || return 2
}

@test "without renewal it ends after its ttl" {
    once_of_five ends_after_its_ttl
}

@test "busy: -n, -w, -E, kinds" {
    hold x
    exits 75 holdfast lock -n x
    exits 75 holdfast lock -w 50ms x
    exits 3 holdfast lock -n -E 3 x
    exits 65 holdfast lock -s x
    exits 64 holdfast lock x --ttl 0s
    exits 64 holdfast lock x --for 0
    holdfast lock s --slots 2
    holdfast lock s --slots 2
    exits 75 holdfast lock s --slots 2 -n
}

@test "a handle that cannot be printed is given back" {
    exits 74 sh -c 'holdfast lock x >/dev/full'
    is_free x
    exits 74 sh -c 'holdfast lock x >&-'
    is_free x
}

@test "a signal while waiting leaves the queue" {
    hold x
    begin holdfast lock x
    pid=$!
    eventually has_waiters x 1
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    [[ $status == 143 ]]
    has_waiters x 0
}

keeper_of() { jq -r .keeper_pid <<<"$1"; }

renewed_for_a_process() {
    begin sleep 1000
    local pid=$! out
    holdfast lock x --ttl 2s --for $pid || return 2
    out=$(holdfast lock y --ttl 600s --for $pid --json) || return 2
    sleep 3.5
    exits 75 holdfast run -n x -- true || { kill -KILL $pid; eventually is_free y; return 1; }
    kill -KILL $pid
    exits 0 holdfast run -w 60s x -- true || return 2
    exits 0 holdfast run -w 60s y -- true || return 2
    eventually is_gone "$(keeper_of "$out")" || return 2
}

@test "--for: renewed while the process lives, released when it has ended" {
    once_of_five renewed_for_a_process
}

@test "--for: the keeper ends when the lease is unlocked or broken" {
    for how in unlock break; do
        out=$(holdfast lock x --ttl 6s --for $$ --json)
        keeper=$(keeper_of "$out")
        kill -0 "$keeper"
        if [[ $how == unlock ]]; then
            holdfast unlock x --lease "$(jq -r .handle <<<"$out")"
        else
            holdfast break x --token "$(jq -r .token <<<"$out")"
        fi
        is_free x
        eventually is_gone "$keeper"
    done
}

@test "--for: the keeper holds nothing of its parent: no output, no directory, no session" {
    out=$(timeout 20 holdfast lock x --ttl 6s --for $$ --json) # would hang if the keeper had our pipe
    keeper=$(keeper_of "$out")
    [[ $(readlink "/proc/$keeper/cwd") == / ]]
    for fd in 0 1 2; do [[ $(readlink "/proc/$keeper/fd/$fd") == /dev/null ]]; done
    [[ $(ps -o sid= -p "$keeper" | xargs) == "$keeper" ]]
    not grep -aF "$(jq -r .handle <<<"$out")" "/proc/$keeper/cmdline"
    holdfast unlock x --lease "$(jq -r .handle <<<"$out")"
    eventually is_gone "$keeper"
}

@test "--for: a store with a long way to it, no such process, a name that is busy" {
    out=$(holdfast -S "file:$dir/bin/../rel" lock x --for $$ --json)
    [[ $(holdfast -S "file:$dir/rel" show x --json | jq '.holders | length') == 1 ]]
    holdfast -S "file:$dir/bin/../rel" unlock x --lease "$(jq -r .handle <<<"$out")"
    exits 64 holdfast lock x --for 4194304
    says "no such process"
    is_free x
    hold x
    exits 75 timeout 20 holdfast lock -n x --for $$
}

@test "a lease for a process names that process and its machine" {
    sleep 60 3>&- &
    pid=$!
    eventually grep -qx sleep "/proc/$pid/comm" # before that it is bash
    handle=$(holdfast lock x --for "$pid")
    [[ $(holdfast show x) == *" $(hostname):$pid sleep"* ]]
    holdfast unlock x --lease "$handle"
    kill "$pid"
}

@test "convert: a reader becomes the writer and a reader again, each time with a new handle" {
    first=$(holdfast lock t --upgradeable)
    exits 0 holdfast run -n -s t -- true
    exits 75 holdfast run -n -x t -- true
    second=$(holdfast convert t --lease "$first" -x)
    [[ $second != "$first" ]]
    exits 76 holdfast unlock t --lease "$first"
    exits 75 holdfast run -n -s t -- true
    third=$(holdfast convert t --lease "$second" --shared --json | jq -er .handle)
    exits 0 holdfast run -n -s t -- true
    exits 64 holdfast convert t --lease "$third" -x
    [[ $output == *"UPGRADEABLE"* ]]
    exits 0 holdfast unlock t --lease "$third"
    exits 0 holdfast run -n -x t -- true
}

@test "convert: other readers keep it from becoming the writer, and it stays as it is" {
    lease=$(holdfast lock t --upgradeable)
    reader=$(holdfast lock t -s)
    exits 75 holdfast convert t --lease "$lease" -x -n
    exits 75 holdfast convert t --lease "$lease" -x -w 100ms
    exits 3 holdfast convert t --lease "$lease" -x -n -E 3
    holdfast show t --json | jq -e '.holders | length == 2'
    [[ $(holdfast show t) == "t: rwlock, 2 readers"* ]]
    [[ $(holdfast ls t) == *" 2 readers "* ]]
    exits 0 holdfast unlock t --lease "$reader"
    [[ $(holdfast show t) == "t: rwlock, 1 reader"$'\n'* ]]
    lease=$(holdfast convert t --lease "$lease" -x -n)
    exits 0 holdfast unlock t --lease "$lease"
}

@test "convert: what it wants to know" {
    lease=$(holdfast lock t --upgradeable)
    exits 64 holdfast convert t --lease "$lease"
    exits 64 holdfast convert t --lease "$lease" -s -x
    exits 64 holdfast convert t --lease "$lease" -x -n -w 1s
    exits 64 holdfast convert t -x
    exits 64 holdfast lock t -s --upgradeable
    exits 0 holdfast unlock t --lease "$lease"
    exits 76 holdfast convert t --lease "$lease" -x
}
