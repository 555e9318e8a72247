#!/usr/bin/env bats
# `holdfast elect`: a command that runs only while it leads, and observers.
load helper

# leader NAME [OPTION...]: an elect in the background whose command runs; its process is $leader.
leader() {
    local name=$1
    shift
    rm -f leads
    begin holdfast elect "$name" "$@" -- sh -c 'echo $$ >leads.tmp; mv leads.tmp leads; exec sleep 1000'
    leader=$!
    eventually test -e leads
}

# told TEXT: the last line that the observer printed.
told() { [[ $(tail -1 seen | jq -r '.event + " " + (.value // "") + " " + (.label // "")') == "$1" ]]; }

@test "observers see who leads, what it says, and that it ended or died" {
    holdfast elect chair --observe --json >seen 2>&1 3>&- &
    begun+=($!)
    eventually told "vacant  "
    leader chair --value ada:80 --label ada
    eventually told "leads ada:80 ada"
    kill -TERM "$leader"
    eventually told "vacant  "
    leader chair --value bob:80 --label bob
    eventually told "leads bob:80 bob"
    kill -KILL "$leader" # nobody follows, and it said nothing
    eventually told "vacant  "
    [[ $(holdfast elect chair -- sh -c 'echo $HOLDFAST_NAME $HOLDFAST_TOKEN') == "chair "[0-9]* ]]
}

@test "one leads at a time; the exit code is the command's" {
    leader chair
    exits 75 holdfast elect chair -n -- true
    kill -TERM "$leader"
    eventually is_gone "$leader"
    exits 7 holdfast elect chair -- sh -c 'exit 7'
    exits 64 holdfast elect chair --observe -- true
    exits 64 holdfast elect chair
}

break_it() { holdfast break "$1" --token "$(holdfast show "$1" --json | jq -r '.holders[0].token')"; }

@test "lost: the command is ended, 76; with --again it campaigns anew" {
    begin sh -c 'holdfast elect chair -- sh -c "touch leads; exec sleep 1000"; echo $? >code.tmp; mv code.tmp code'
    eventually test -e leads
    break_it chair
    eventually test -e code
    [[ $(cat code) == 76 ]]

    leader chair --again
    first=$(cat leads)
    rm leads
    break_it chair
    eventually test -e leads
    is_gone "$first"
    [[ $(cat leads) != "$first" ]]
    kill -TERM "$leader"
    eventually is_gone "$leader"
    is_free chair
}

@test "for people: a line with a time" {
    leader chair --value here
    [[ $(holdfast elect chair --observe | head -1) == *"  leads   chair  token "[0-9]*"here" ]]
}
