#!/usr/bin/env bats
# cell: its use in scripts, output and exit codes.
load helper

@test "put, get, cas, rm: bytes as they are, versions, exit codes" {
    exits 1 holdfast cell get x
    says "no such cell: 'x'"
    exits 1 holdfast cell get x -q
    [[ -z $output ]]
    v1=$(holdfast cell put x hello)
    [[ $(holdfast cell get x) == hello ]]
    printf 'a\0b\n' | holdfast cell put bytes -q
    [[ $(holdfast cell get bytes | od -An -tx1 | xargs) == "61 00 62 0a" ]]
    printf '' | holdfast cell put empty - -q
    exits 0 holdfast cell get empty
    [[ -z $output ]]

    v2=$(holdfast cell cas x --version "$v1" second)
    exits 75 holdfast cell cas x --version "$v1" late
    says "'x'"
    exits 75 holdfast cell cas x --version 0 late
    [[ $(holdfast cell get x) == second && $v1 != "$v2" ]]
    exits 75 holdfast cell rm x --version "$v1"
    exits 0 holdfast cell rm x --version "$v2"
    exits 1 holdfast cell rm x
    v3=$(holdfast cell cas x --version 0 again)
    [[ $v3 != "$v1" && $v3 != "$v2" ]]
    exits 0 holdfast cell rm x
    [[ -z $output ]]
    holdfast cell put -q -- -x -y # names and values that look like options
    [[ $(holdfast cell get -- -x) == -y ]]
}

@test "--json, --ttl" {
    holdfast cell put x hello --json | jq -e '.name == "x" and (.version | type) == "string"'
    holdfast cell get x --json | jq -e '.value == "hello" and .ttl_ms == null and (.version | type) == "string" and (has("value_hex") | not)'
    printf '\xff\x00' | holdfast cell put x --ttl 1h -q
    holdfast cell get x --json | jq -e '.value == null and .value_hex == "ff00" and (.ttl_ms | tonumber) > 3000000'
    holdfast engines --json | jq -e '.engines[] | select(.engine == "lmdb") | .can | contains(["cells", "cell_ttl", "cell_watch", "clock"])'
}

lines() { [[ $(wc -l <"$dir/$1") -ge $2 ]]; }

@test "watch: what is there, then every change; a terminal is not made to obey" {
    begin holdfast cell watch x
    eventually lines out 1
    holdfast cell put x one -q
    eventually lines out 2
    printf 'a\033[2J\nb' | holdfast cell put x -q
    eventually lines out 3
    holdfast cell rm x
    eventually lines out 4
    [[ $(cut -f2 "$dir/out" | xargs -d '\n' printf '%s|') == '-|one|a\x1b[2J\x0ab|-|' ]]
    holdfast cell put x hello -q
    timeout 60 holdfast cell watch x --json | head -1 | jq -e '.name == "x" and .value == "hello"' # and ends
}

@test "what is wrong is said: usage, too much, another kind of cell, a store without cells" {
    exits 64 holdfast cell
    exits 64 holdfast cell fetch x
    says "get, put, cas, rm, watch or commit"
    exits 64 holdfast cell get
    exits 64 holdfast cell get x y
    says "'y'"
    exits 64 holdfast cell get x --version 1
    exits 64 holdfast cell cas x y
    says "--version V"
    exits 64 holdfast cell cas x y --version -1
    exits 64 holdfast cell rm x --version 0
    exits 64 holdfast cell put x y --ttl 10ms
    exits 64 holdfast cell put x y z
    head -c 65537 /dev/zero >large
    exits 64 holdfast cell put x <large
    says "65536"
    head -c 65536 large >full
    holdfast cell put x -q <full
    holdfast cell get x | cmp - full
    exits 66 holdfast cell put x </
    [[ $(holdfast --version) == "holdfast "* ]] # before the verb it is what it was
}

@test "commit: several in one step, or none; what it says and how it ends" {
    holdfast cell put first -q x # makes the store
    exits 0 holdfast cell commit put ada 0 100 put ben 0 100 check none 0
    [[ $(wc -l <<<"$output") == 3 && $output == *$'none\t-' ]]
    ada=$(holdfast cell get ada --json | jq -r .version)
    ben=$(holdfast cell get ben --json | jq -r .version)
    grep -q "^ada"$'\t'"$ada\$" <<<"$output"
    exits 0 holdfast cell commit -q put ada "$ada" 90 put ben "$ben" 110
    [[ -z $output && $(holdfast cell get ada) == 90 && $(holdfast cell get ben) == 110 ]]

    exits 75 holdfast cell commit put ada any lost put ben "$ben" lost
    says "items[1]: 'ben' has version"
    exits 75 holdfast cell commit put ada any lost check ben 0
    says "'ben' exists"
    exits 75 holdfast cell commit put ada any lost rm none 7
    says "'none' does not exist"
    [[ $(holdfast cell get ada) == 90 ]]

    printf 'a\0b' | holdfast cell commit --json --ttl 1h put ada any - rm ben any |
        jq -e '.cells[0].name == "ada" and (.cells[0].version | type) == "string" and .cells[1].version == null'
    [[ $(holdfast cell get ada | od -An -tx1 | xargs) == "61 00 62" ]]
    holdfast cell get ada --json | jq -e '(.ttl_ms | tonumber) > 3000000'
    exits 1 holdfast cell get ben
    holdfast cell commit -q -- put -x any -5 # as everywhere
    [[ $(holdfast cell get -- -x) == -5 ]]
}

@test "commit: what is wrong is said" {
    exits 64 holdfast cell commit
    exits 64 holdfast cell commit put a 0
    says "needs a name, a version and a value"
    exits 64 holdfast cell commit swap a 0 x
    says "begins with put, rm or check"
    exits 64 holdfast cell commit put a soon x
    says "soon"
    exits 64 holdfast cell commit put a 0 - put b 0 -
    exits 64 holdfast cell commit check a any
    says "items[0]"
    exits 64 holdfast cell commit put a 0 x check a 0
    says "'a'"
    exits 64 holdfast cell commit rm a 0
    exits 64 holdfast cell get a b
}
