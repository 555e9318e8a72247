#!/usr/bin/env bats
# guard: a resource that refuses stale tokens.
load helper

@test "claims, writes and reads by the token of the run around it" {
    exits 0 holdfast run deploy -- holdfast guard site
    [[ $(grep -v 'new store' <<<"$output") == "" ]]
    exits 0 holdfast run deploy -- holdfast guard site --set v1
    exits 0 holdfast run deploy -- holdfast guard site
    [[ $output == v1 ]]
    printf 'a\0b' | holdfast run deploy -- holdfast guard site --set -
    [[ $(holdfast run deploy -- holdfast guard site | tr '\0' 0) == a0b ]]
    exits 0 holdfast run deploy -- sh -c 'holdfast guard site --json | jq -e ".token == \"$HOLDFAST_TOKEN\""'
}

@test "a stale token is 76, changes nothing and runs nothing" {
    old=$(holdfast run deploy -- printenv HOLDFAST_TOKEN)
    holdfast run deploy -- holdfast guard site --set new
    exits 76 holdfast guard site --token "$old"
    says "token $old is refused"
    exits 76 holdfast guard site --token "$old" --set old
    exits 76 holdfast guard site --token "$old" -- touch ran
    [[ ! -e ran ]]
    [[ $(holdfast run deploy -- holdfast guard site) == new ]]
}

@test "a command takes our place, with the store and without our secrets" {
    holdfast run deploy -- holdfast guard site -- sh -c 'echo "$PPID $HOLDFAST_STORE"; exit 9' >got || code=$?
    [[ $code == 9 && $(cut -d" " -f2 <got) == "$HOLDFAST_STORE" ]]
    exits 127 holdfast guard site --token 9000000000000000 -- nosuch
    # It was claimed before: the run's token is lower now.
    exits 76 holdfast run deploy -- holdfast guard site
}

@test "what is wrong is said" {
    exits 64 holdfast guard
    exits 64 holdfast guard site
    says "no token: give --token T"
    HOLDFAST_TOKEN=0 exits 78 holdfast guard site
    says "its engine gives none"
    HOLDFAST_TOKEN=x exits 64 holdfast guard site
    says "HOLDFAST_TOKEN 'x'"
    HOLDFAST_TOKEN='1; rm' exits 64 holdfast guard site
    exits 64 holdfast guard site --token 0
    exits 64 holdfast guard site --token 1 --set v -- true
    exits 64 holdfast guard site --token 1 --
    head -c 65537 /dev/zero >large
    exits 64 holdfast guard site --token 1 --set - <large
    says "65536"
    holdfast cell put plain x
    exits 65 holdfast guard plain --token 1
}
