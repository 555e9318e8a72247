#!/usr/bin/env bats
# Completions: made from the table, so they must offer what help lists, and their shells must take them.
load helper

options_of() { holdfast help "$1" | grep -oE '^ {2,6}(-.,)? *--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort -u; }

offers() { # WORD...: what bash offers for the last one
    bash -c 'source <(holdfast completion bash)
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE=$*; COMP_LINE=${COMP_LINE// = /=}; COMP_POINT=${#COMP_LINE}
        _holdfast
        printf "%s\n" "${COMPREPLY[@]}"' - "$@"
}

@test "bash: every verb, and for each verb every option that its help lists" {
    [[ $(offers holdfast r | xargs) == "run renew resize redlock" ]]
    for verb in run once elect latch barrier lock renew convert unlock limit ls show watch break init doctor engines redlock cell counter script completion; do
        offers holdfast '' | grep -qx $verb
        [[ $(offers holdfast $verb -- | grep -- -- | sort -u) == "$(options_of $verb)" ]]
    done
}

@test "bash: values of choices, names that are held, verbs behind help" {
    [[ $(offers holdfast run --on-lost '' | xargs) == "term kill warn" ]]
    [[ $(offers holdfast run --on-lost = k) == kill ]]
    [[ $(offers holdfast completion '' | xargs) == "bash zsh fish" ]]
    [[ $(offers holdfast help 'do') == doctor ]]
    [[ $(offers holdfast redlock '' | xargs) == "status join" ]]
    [[ $(offers holdfast cell '' | xargs) == "get put cas rm watch commit" ]]
    [[ $(offers holdfast script '' | xargs) == "run load exists flush kill" ]]
    [[ $(offers holdfast engines '' | sort | xargs) == "etcd lmdb mariadb memcached postgres redis redlock zookeeper" ]]
    holdfast lock my-name >/dev/null
    [[ $(offers holdfast show my) == my-name ]]
    offers holdfast run x -- tru | grep -qx true
    offers holdfast once x -- tru | grep -qx true
}

@test "zsh takes its script" {
    holdfast completion zsh >_holdfast
    zsh -n _holdfast
    zsh -fc 'autoload -U compinit; compinit -u -D; source ./_holdfast; [[ $_comps[holdfast] == _holdfast ]]'
}

@test "fish takes its script and offers verbs and values" {
    holdfast completion fish >holdfast.fish
    fish -n holdfast.fish
    fish -c 'source holdfast.fish; complete -C"holdfast "' | grep -q '^run'
    [[ $(fish -c 'source holdfast.fish; complete -C"holdfast run --on-lost "' | cut -f1 | xargs) == "kill term warn" ]]
    fish -c 'source holdfast.fish; complete -C"holdfast run --sl"' | grep -q -- --slots
}

scenario() { timeout 110 python3 "$BATS_TEST_DIRNAME/terminal.py" "$1"; }

@test "bash on a terminal: TAB completes names of any bytes, tokens and stores, and executes nothing" {
    scenario completion_bash
}

@test "zsh on a terminal: likewise" {
    scenario completion_zsh
}

@test "fish on a terminal: likewise" {
    scenario completion_fish
}

@test "ls -0: names byte for byte" {
    holdfast lock $'two\nlines' >/dev/null
    holdfast lock $'\xff' >/dev/null
    [[ $(holdfast ls -0 | sort -z | od -An -tx1 | tr -d ' \n') == 74776f0a6c696e657300ff00 ]]
    [[ $(holdfast ls -1 | sort | xargs -0) == *'two\x0alines'* || $(holdfast ls -1) == *'two\n'* ]]
}

@test "profiles are offered as stores" {
    printf '[profile work]\nurl = file:%s/store\n[profile home sweet]\nurl = file:%s/store\n' "$dir" "$dir" >config
    export HOLDFAST_CONFIG=$dir/config
    [[ $(offers holdfast -S wo) == work ]]
    [[ $(offers holdfast -S ho) == 'home\ sweet' ]]
    [[ $(offers holdfast doctor wo) == work ]]
}

@test "another shell: 64" {
    exits 64 holdfast completion tcsh
    exits 64 holdfast completion
}
