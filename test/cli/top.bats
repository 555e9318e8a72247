#!/usr/bin/env bats
# `holdfast top` in a terminal: tmux is the terminal, and says what is on it.
load helper

term() { tmux -S "$dir/tmux" -f /dev/null "$@" 3>&-; }
eval "end_$(declare -f teardown)"
teardown() {
    term kill-server 2>/dev/null || true
    end_teardown
}

# top [VARIABLE=VALUE...] [ARG...]: start it in 80x24, and wait for its first lines. What a shell would have printed before is
# on the screen already.
top() {
    local env=()
    while [[ ${1:-} == *=* && $1 != -* ]]; do
        env+=("$1")
        shift
    done
    cat >begin.sh <<'EOF'
stty -a >before
echo "before it"
env TERM=screen-256color "$@"
echo "status=$?"
stty -a >after
exec sleep 1000
EOF
    term new-session -d -s top -x 80 -y 24 sh "$dir/begin.sh" LC_ALL=C.UTF-8 "${env[@]}" holdfast top "$@"
    term set -g status off
    shows 'keys'
}
screen() { term capture-pane -p -t top; }
on_screen() { screen | grep -qE -- "$1"; }
not_on_screen() { ! on_screen "$1"; }
shows() { eventually on_screen "$1" || { screen; return 1; }; }
hides() { eventually not_on_screen "$1" || { screen; return 1; }; }
lacks() { if grep -qE -- "$1"; then return 1; fi; } # of standard input
keys() { term send-keys -t top "$@"; }
top_pid() { pgrep -P "$(term display -p -t top '#{pane_pid}')" holdfast-top; }
wait_for() { begin holdfast run "$@" -- sleep 1000; }

@test "holders and waiters are seen as they come; a name is opened, with its queue" {
    make_store
    top
    shows 'Nobody holds or waits for anything'
    hold deploy --label "release 2.14.1"
    shows "^● deploy +mutex  1/1 .* -  release 2.14.1 :"
    wait_for deploy --label hotfix
    shows "^◆ deploy +mutex  1/1 .* 1  release 2.14.1 :"
    keys Enter
    shows '^── ◆ deploy ─+ 1 waits ──'
    shows '  held by release 2.14.1 :[0-9]+ for '
    shows '  1  hotfix .* waits [0-9]'
    keys Escape
    hides 'held by'
    kill "$holder"
    shows '^● deploy .* hotfix '
}

@test "quitting gives the terminal back as it was, and so does SIGTERM" {
    make_store
    top
    not_on_screen 'before it'
    keys q
    shows 'status=0'
    shows 'before it'
    not_on_screen 'NAME'
    eventually cmp before after
    term kill-session -t top
    rm before after
    top
    kill "$(top_pid)"
    shows 'status=143'
    eventually cmp before after
}

@test "Ctrl-C quits" {
    make_store
    top
    keys C-c
    shows 'status=0'
}

@test "a lease is broken only if its name is typed, and exactly that lease" {
    hold deploy --label first
    token=$(holdfast show deploy --json | jq -r '.holders[0].token')
    top
    shows 'deploy .* first'
    keys b
    shows "End the lease of deploy, token $token"
    keys -l deplo
    keys Enter
    shows 'That is not the name: nothing was broken'
    is_held deploy
    keys b
    shows 'Type the name'
    keys -l deploy
    keys Escape
    shows 'Nothing was broken'
    is_held deploy
    keys b
    shows 'Type the name'
    keys -l deploy
    keys Enter
    shows "Broken: deploy, token $token"
    eventually is_free deploy
    hides '^. deploy'
}

@test "the window is resized: it draws anew, down to a few lines, and goes on" {
    hold deploy --label "release 2.14.1"
    top
    shows 'TOKEN'
    term resize-window -t top -x 120 -y 40
    shows '1[0-9]{15}$' # the whole token
    term resize-window -t top -x 40 -y 10
    hides 'HOLDER'
    shows '^● deploy'
    term resize-window -t top -x 5 -y 2
    term resize-window -t top -x 80 -y 24
    shows 'deploy .* release 2.14.1'
    keys q
    shows 'status=0'
}

@test "colours; none with NO_COLOR and with --color=never; only ASCII without UTF-8" {
    hold deploy
    top
    shows '^● deploy'
    term capture-pane -e -p -t top | grep -q $'\e\\[[0-9;]*38;5;'
    term kill-session -t top
    for how in NO_COLOR=1 --color=never; do
        top "$how"
        shows '^● deploy'
        term capture-pane -e -p -t top | lacks $'\e\\[[0-9;]*([34][0-7]|[34]8;5)[;m]'
        term kill-session -t top
    done
    top LC_ALL=C
    shows '^= deploy'
    screen | LC_ALL=C lacks '[^ -~]'
}

@test "a locale that is not installed, and says UTF-8, shows names and marks" {
    hold 库存/商品-104
    top LC_ALL=xx_XX.UTF-8
    shows '^● 库存/商品-104'
}

@test "a hostile name or label does nothing to the terminal" {
    hold $'evil\e]0;pwned\a\e[2J\ec' --label $'l\e[31m\e]0;pwned\a'
    hold $'wide 部署\u0301\u202e'
    top
    shows '^● evil\\x1b…'
    shows '^● wide 部…2\\x80\\xae mutex'
    keys Enter
    shows '^── ● evil\\x1b]0;pwned\\x07\\x1b\[2J\\x1bc ─'
    shows 'held by l\\x1b\[31m\\x1b]0;pwned'
    [[ $(term display -p -t top '#{pane_title}') != *pwned* ]]
    term capture-pane -e -p -t top | lacks $'\e\\]'
    keys b
    shows 'Type the name'
    keys -l 'evil\x1b]0;pwned\x07\x1b[2J\x1bc'
    keys Enter
    shows 'Broken: evil'
}

@test "a real deadlock: the alarm, the circle, which lease to break; broken, it is over" {
    make_store
    url="file:$dir/store?deadlock_check=300s"
    begin holdfast -S "$url" run a --label ada -- sh -c "until [ -e go ]; do sleep 0.02; done; exec holdfast -S '$url' run b --label ada -- sleep 1000"
    begin holdfast -S "$url" run b --label ben -- sh -c "until [ -e go ]; do sleep 0.02; done; exec holdfast -S '$url' run a --label ben -- sleep 1000"
    eventually is_held a
    eventually is_held b
    touch go
    top
    shows '↻ DEADLOCK for [0-9.]+m?s: (ada → ben → ada|ben → ada → ben) .*g shows it'
    shows '^↻ a '
    shows '^↻ b '
    keys g
    shows 'circle of 2'
    shows 'ada :[0-9]+ has a'
    shows 'waits [0-9.]+m?s for b, which [12] has'
    keys g
    shows 'NAME'
    keys Home b
    shows 'End the lease of a,'
    keys -l a
    keys Enter
    shows 'Broken: a'
    hides 'DEADLOCK'
}

@test "the holder is asked, and one that does not listen is named so" {
    hold deaf
    begin holdfast run hears --on-wanted USR1 -- sh -c 'touch ready; exec sleep 1000'
    eventually test -e ready
    top
    shows '^● hears'
    keys Home a
    shows 'Ask the holder to release deaf'
    keys Enter
    shows 'The holder of deaf does not listen'
    keys j a
    shows 'release hears'
    keys -l 'please'
    keys Enter
    shows 'The holder of hears was told'
    eventually grep -q 'asks for .*: please' err
}

@test "filter, sort, doctor, keys" {
    hold deploy
    hold nightly
    top
    shows nightly
    keys / n i g
    hides '^● deploy'
    shows 'filter nig_? +1 of 2'
    keys x
    shows "No name has 'nigx'"
    keys Escape
    shows '^● deploy'
    keys s
    shows 'Sorted by name'
    keys d
    shows 'What the doctor says'
    shows '^  (fine|warning) '
    keys '?'
    shows 'break its lease: asks for the name'
    keys Escape
    shows '^● deploy'
}

@test "several stores, one of them away: what, since when, what next; no password in sight" {
    hold here
    top -S "file:$dir/store" -S 'redis://ada:geheim@127.0.0.1:1'
    shows '1/2 ● file:'
    shows '^● here'
    keys 2
    shows 'redis has not answered for [0-9.]+m?s; trying again'
    shows '127.0.0.1:1: Connection'
    shows '2/2 ✗ redis://127.0.0.1:1'
    screen | lacks geheim
    tr '\0' '\n' <"/proc/$(top_pid)/cmdline" | lacks geheim
    tr '\0' '\n' <"/proc/$(top_pid)/environ" | lacks geheim
    keys 3
    shows 'There is no store 3'
    keys 1
    shows '^● here'
    keys q
    shows 'status=0'
}

@test "--once: text and JSON; a glob; nothing is created" {
    holdfast top --once >out
    grep -q 'There is no store yet' out
    [[ ! -e $dir/store ]]
    hold deploy --label release
    wait_for deploy --label next
    eventually has_waiters deploy 1
    hold other
    holdfast top --once | grep -E '^[◆*] deploy +mutex +1/1 .* 1  release'
    holdfast top --once --json | jq -e '.[0] | .up and .engine == "lmdb" and (.names | length == 2)'
    holdfast top --once --json 'dep*' |
        jq -e '.[0].names | length == 1 and .[0].state == "wanted" and .[0].holders[0].label == "release" and .[0].waiters[0].position == 1'
    [[ $(holdfast top --once --json | jq -r '.[0].names[] | select(.name == "deploy").holders[0].token') == \
        $(holdfast show deploy --json | jq -r '.holders[0].token') ]]
}

@test "--once: a store that is away is 69; wrong usage is 64" {
    run holdfast top --once -S redis://127.0.0.1:1
    [[ $status == 69 && $output == *'redis does not answer'* ]]
    run holdfast top --json --once -S redis://127.0.0.1:1
    [[ $status == 69 && $(jq '.[0].up' <<<"$output") == false ]]
    holdfast top --once -S redis://127.0.0.1:1 | grep 'Connection refused' | lacks 'trying again'
    run holdfast top </dev/null
    [[ $status == 64 && $output == *--once* ]]
    run holdfast top --json
    [[ $status == 64 ]]
    run "$HOLDFAST_BUILD/bin/holdfast-top"
    [[ $status == 64 && $output == *'`holdfast top` runs this program'* ]]
}

@test "a terminal that cannot move its cursor is refused, and so is one that is not known" {
    make_store
    for term in dumb nonsense; do
        term new-session -d -s top -x 80 -y 24 sh -c "TERM=$term holdfast top; echo status=\$?; exec sleep 1000"
        shows "this terminal cannot be used \(TERM=$term\); --once needs none"
        shows 'status=64'
        term kill-session -t top
    done
}
