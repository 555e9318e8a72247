#!/usr/bin/env bats
# counter: what it prints, and how it ends.
load helper

@test "add, set, if, delete: the value is printed" {
    [[ $(holdfast counter hits) == 0 ]]
    [[ $(holdfast counter hits --add 5) == 5 ]]
    [[ $(holdfast counter hits --add -7) == -2 ]]
    [[ $(holdfast counter hits --add=+1) == -1 ]]
    [[ $(holdfast counter hits --set 10) == 10 ]]
    [[ $(holdfast counter hits --set 11 --if 10) == 11 ]]
    exits 75 holdfast counter hits --set 12 --if 10
    says "11"
    says "it is 11, and not 10"
    [[ $(holdfast counter hits --json | jq -c .) == '{"name":"hits","value":"11"}' ]]
    [[ $(holdfast counter hits --add 1 --json | jq -r .value) == 12 ]]
    [[ -z $(holdfast counter hits --add 1 -q) ]]
    [[ -z $(holdfast counter hits --delete) ]]
    [[ $(holdfast counter hits) == 0 ]]
    [[ $(holdfast counter --name -x --add 1) == 1 ]]
}

@test "64 bits, and not one more" {
    [[ $(holdfast counter n --set 9223372036854775807) == 9223372036854775807 ]]
    exits 65 holdfast counter n --add 1
    says "range"
    [[ $(holdfast counter n --json | jq -r .value) == 9223372036854775807 ]]
    [[ $(holdfast counter n --set -9223372036854775808) == -9223372036854775808 ]]
    exits 65 holdfast counter n --add -1
    holdfast cell put thing x -q
    exits 65 holdfast counter thing --add 1
}

@test "usage" {
    exits 64 holdfast counter
    exits 64 holdfast counter n --add
    exits 64 holdfast counter n --add x
    says "'x' is not a whole number"
    for bad in 1.5 '' 9223372036854775808 1x ' ' -; do exits 64 holdfast counter n --add "$bad"; done
    exits 64 holdfast counter n --add 1 --set 1
    exits 64 holdfast counter n --set 1 --delete
    exits 64 holdfast counter n --if 1
    [[ $(holdfast counter n) == 0 ]]
}

@test "many at once: nothing is lost" {
    for i in 1 2 3 4; do begin sh -c 'for i in 1 2 3 4 5; do holdfast counter n --add 1; done'; done
    wait "${begun[@]}"
    [[ $(holdfast counter n) == 20 && $(sort -n out | xargs) == "$(seq 20 | xargs)" ]]
}
