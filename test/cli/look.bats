#!/usr/bin/env bats
# ls, show, watch, break: what people and scripts see.
load helper

lacks_bytes() { if grep -aE -- "$1" "$2"; then return 1; fi; }

@test "ls: a head line also for nothing; one aligned line a name" {
    make_store
    exits 0 holdfast ls
    [[ $output == NAME*KIND*TAKEN*WAITERS*AGE*TTL*TOKEN*HOLDER ]]
    hold a --label one
    holdfast lock longer-name --slots 5 --ttl 60s --label two >/dev/null
    begin holdfast run a -- true
    eventually has_waiters a 1
    exits 0 holdfast ls
    [[ $(wc -l <<<"$output") == 3 ]]
    grep -E '^a +mutex +1/1 +1 .* - +[0-9]+ +one$' <<<"$output"
    grep -E '^longer-name +semaphore +1/5 +0 .*[0-9]+s +[0-9]+ +two$' <<<"$output"
    # The second column begins at the same place in every line.
    [[ $(sed -E 's/^([^ ]+ +).*/\1/' <<<"$output" | awk '{print length}' | sort -u | wc -l) == 1 ]]
}

@test "ls: globs, -1, --json" {
    for name in job/a job/b other; do holdfast lock $name >/dev/null; done
    [[ $(holdfast ls -1 'job/*' | xargs) == "job/a job/b" ]]
    [[ $(holdfast ls -1 'job/[!a]') == job/b ]]
    [[ -z $(holdfast ls -1 nosuch) ]]
    holdfast ls --json 'o*' | jq -e '(.names | length) == 1 and .names[0].name == "other" and .engine == "lmdb" and .waiters_tracked'
}

@test "--json: 64-bit numbers are strings; kinds, permits, waiters" {
    hold x -s
    begin holdfast run x -x -- true
    eventually has_waiters x 1
    holdfast show x --json >json
    jq -e '.kind == "rwlock" and .taken == 1' <json
    jq -e '.holders[0] | (.token | type) == "string" and (.age_ms | type) == "string" and .ttl_ms == null and .permits == 1 and (.detached | not)' <json
    jq -e ".holders[0].pid == $holder" <json
    jq -e '.waiters[0] | .position == 1 and .wants == "exclusive" and (.age_ms | type) == "string"' <json
    holdfast show nosuch --json | jq -e '.kind == null and .holders == [] and .waiters == []'
}

@test "names that are not UTF-8 or would be obeyed by a terminal are quoted" {
    holdfast lock $'\xff\xfe' --label $'\033]0;evil\007' >/dev/null
    holdfast lock $'a\033[2Jb' >/dev/null
    exits 0 holdfast ls
    [[ $output != *$'\033'* && $output != *$'\007'* ]]
    says '\xff\xfe'
    says 'a\x1b[2Jb'
    holdfast ls --json | jq -e '[.names[] | select(.name_hex == "fffe")] | length == 1'
    holdfast ls --json | jq -e '[.names[] | select(.name == "a\u001b[2Jb")][0] | has("name_hex") | not'
    exits 0 holdfast show $'\xff\xfe' --json
    [[ $(jq -r .name_hex <<<"$output") == fffe ]]
}

@test "JSON has no character that a terminal obeys or that reorders a line" {
    local odd=$'x\u202e\u2066\u009b\u00ad'
    hold "$odd" --label $'l\u202e\u0085'
    for words in "ls --json" "show $odd --json" "top --once --json" "run --log json $odd -n -- true"; do
        # shellcheck disable=SC2086 # words
        holdfast $words >out 2>&1 || true
        grep -qF 'x\u202e\u2066\u009b\u00ad' out || { cat out; return 1; }
        LC_ALL=C lacks_bytes $'\xe2\x80\xae|\xe2\x81\xa6|\xc2[\x80-\x9f\xad]' out
    done
    [[ $(holdfast ls --json | jq -r '.names[0].name') == "$odd" ]]
}

@test "show: holders and waiters in order" {
    make_store
    exits 0 holdfast show x
    [[ $output == "x: free" ]]
    hold x --label first
    begin holdfast run x --label second -- true
    eventually has_waiters x 1
    begin holdfast run x --label third -- true
    eventually has_waiters x 2
    exits 0 holdfast show x
    says "x: mutex, 1/1"
    grep -E "^1 +[0-9]+ +1 .* $holder +first$" <<<"$output"
    grep -E '^1 +1 .* second$' <<<"$output"
    grep -E '^2 +1 .* third$' <<<"$output"
}

@test "show --check: 75 unless it is free, 0 if it is; -q prints nothing" {
    exits 0 holdfast show x --check # there is no store yet
    make_store
    exits 0 holdfast show x --check
    [[ $output == "x: free" ]]
    holdfast lock x --slots 5 --ttl 60s >/dev/null
    exits 75 holdfast show x --check
    says "x: semaphore, 1/5"
    exits 75 holdfast show x --check -q
    [[ -z $output ]]
    exits 0 holdfast show x
    exits 75 holdfast show x --check --json
    jq -e '.taken == 1' <<<"$output"
}

@test "wait: at once if it is free, else until the holder has released it" {
    exits 0 holdfast wait x # there is no store yet
    make_store
    exits 0 holdfast wait x
    [[ -z $output ]]
    hold x
    begin holdfast wait x
    waiter=$!
    exits 75 holdfast wait x -w 50ms
    says "'x' is still held"
    exits 64 holdfast wait x -w 0s
    says "must not be 0"
    [[ $output != *"-n does not wait"* ]]
    exits 64 holdfast run x -w 0s -- true
    says "-n does not wait"
    exits 7 holdfast wait x -w 50ms -E 7
    exits 0 holdfast wait x -w 50ms -E 0
    [[ -z $output ]]
    exits 75 holdfast wait x -w 50ms --json
    jq -e '.name == "x" and (.free | not)' <<<"$(grep -v holdfast: <<<"$output")"
    has_waiters x 0 # it queues nowhere
    not is_gone "$waiter"
    kill "$held_pid"
    wait "$waiter"
    is_free x
    exits 0 holdfast wait x --json
    jq -e .free <<<"$output"
}

@test "wait: also for what ends by itself: a killed holder, a ttl, a lock delay" {
    hold x
    begin holdfast wait x
    waiter=$!
    kill -KILL "$holder"
    wait "$waiter"
    holdfast lock y --ttl 1s --lock-delay 1s >/dev/null
    began=$(date +%s%N)
    exits 0 holdfast wait y
    (($(date +%s%N) - began > 1000000000)) # longer than the rest of the ttl
}

@test "wait: it sleeps; it does not poll" {
    holdfast lock x --ttl 60s >/dev/null
    begin holdfast wait x
    waiter=$!
    sleep 3 # the time that is measured: a look every 20 ms would be 150 of them
    woken=$(awk '/^voluntary/ { sum += $2 } END { print sum }' /proc/$waiter/task/*/status)
    ((woken < 75)) || { echo "woken $woken times"; false; }
}

@test "break: exactly that token; another is 75 and ends nothing" {
    hold x
    token=$(holdfast show x --json | jq -r '.holders[0].token')
    exits 75 holdfast break x --token $((token + 1))
    exits 64 holdfast break x
    exits 64 holdfast break x --token 0
    is_held x
    holdfast break x --token "$token" --json | jq -e '.broken'
    eventually is_gone "$holder"
    is_free x
    exits 75 holdfast break x --token "$token"
}

@test "watch: what is there, and what changes, live" {
    make_store
    hold a --label old
    begin holdfast watch --json
    watcher=$!
    eventually grep -q '"first":true' out
    token=$(holdfast run b --label new -- bash -c '. "$0"; eventually grep -q "\"event\":\"held\".*\"name\":\"b\"" out; echo $HOLDFAST_TOKEN' \
        "$BATS_TEST_DIRNAME/helper.bash")
    eventually grep -q '"event":"freed".*"name":"b"' out
    jq -se '.[0] | .event == "held" and .first and .name == "a" and .holder.label == "old"' <out
    grep '"event":"held".*"name":"b"' out | jq -e ".holder.token == \"$token\" and (.first | not)"
    begin holdfast run a -- true
    eventually grep -q '"event":"waiters".*"waiters":1' out
    kill $watcher
}

@test "watch: only what matches the glob; people get a line" {
    make_store
    begin holdfast watch 'a*'
    holdfast lock abc >/dev/null
    holdfast lock xyz >/dev/null
    eventually grep -E '^[0-9:.]+ +held +abc +token [0-9]+' out
    not grep xyz out
}

@test "watch: also what ends by itself: a killed holder, a ttl" {
    make_store
    hold x
    begin holdfast watch --json
    eventually grep -q '"event":"held".*"name":"x"' out
    kill -KILL "$holder"
    eventually grep -q '"event":"freed".*"name":"x"' out
    holdfast lock y --ttl 3s >/dev/null
    eventually grep -q '"event":"freed".*"name":"y"' out
}

@test "watch ends quietly when nobody reads any more" {
    make_store
    for i in 1 2 3; do holdfast lock n$i >/dev/null; done
    status=0
    timeout 20 bash -c 'set -o pipefail; holdfast watch 2>err | head -n 1 >/dev/null' || status=$?
    [[ $status == 0 && ! -s err ]]
}
