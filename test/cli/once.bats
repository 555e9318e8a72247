#!/usr/bin/env bats
# `holdfast once`: run it if nobody has done it yet.
load helper

@test "it runs once; whoever comes later is told so" {
    exits 0 holdfast once setup --label ada -- sh -c 'echo ran >>ran'
    exits 0 holdfast once setup -- sh -c 'echo ran >>ran'
    says "'setup' was done at "
    says "by ada"
    exits 0 holdfast -q once setup -- sh -c 'echo ran >>ran'
    [[ -z $output && $(wc -l <ran) == 1 ]]
    [[ $(holdfast -q once setup --status-fd 1 -- true | jq -r '.event + " " + .name + " " + .label') == "done setup ada" ]]
    is_free setup
}

@test "what failed is not done, and its exit code is the command's" {
    exits 7 holdfast once job -- sh -c 'exit 7'
    exits 143 holdfast once job -- sh -c 'kill -TERM $$'
    exits 127 holdfast once job -- ./nosuch
    exits 0 holdfast once job -- sh -c 'echo "$HOLDFAST_NAME" >ran'
    [[ $(cat ran) == job ]]
    exits 0 holdfast once job -- sh -c 'rm ran'
    [[ -e ran ]]
}

@test "a crash before the mark: the next one does it again" {
    begin holdfast once job -- sh -c 'echo $$ >pid.tmp; mv pid.tmp pid; exec sleep 1000'
    eventually test -e pid
    kill -KILL $!
    exits 0 holdfast once job -- touch again
    [[ -e again ]]
}

@test "who waits for it while it is done does not do it again" {
    begin holdfast once job -- sh -c 'touch at-it; until [ -e go ]; do sleep 0.02; done; echo >>ran'
    eventually test -e at-it
    exits 75 holdfast once job -n -- sh -c 'echo >>ran'
    begin holdfast once job -- sh -c 'echo >>ran'
    eventually has_waiters job 1
    touch go
    wait "${begun[@]}"
    [[ $(wc -l <ran) == 1 ]]
    grep -q "'job' was done" err
}

@test "lost while it runs: 76, and not done" {
    begin sh -c 'holdfast once job -- sh -c "touch at-it; exec sleep 1000"; echo $? >code.tmp; mv code.tmp code'
    eventually test -e at-it
    holdfast break job --token "$(holdfast show job --json | jq -r '.holders[0].token')"
    eventually test -e code
    [[ $(cat code) == 76 ]]
    exits 0 holdfast once job -- touch again
    [[ -e again ]]
}

@test "--forget takes the mark away; the name's cell may be something else" {
    exits 75 holdfast once job --forget
    exits 0 holdfast once job -- true
    exits 0 holdfast once job --forget
    exits 0 holdfast once job -- touch again
    [[ -e again ]]
    exits 64 holdfast once job --forget -- true
    exits 64 holdfast once job
    exits 64 holdfast once job --shared -- true
}
