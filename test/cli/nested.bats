#!/usr/bin/env bats
# A run inside a run of the same name re-enters; one that outlived its outer run does not.
load helper

@test "same name, same store: runs under the outer lease, with its token" {
    exits 0 timeout 20 holdfast run x -- sh -c '
        outer=$HOLDFAST_TOKEN
        [ "$(holdfast run x -- sh -c "echo \$HOLDFAST_TOKEN")" = "$outer" ]'
}

@test "also with -n and -w, three deep, and with another name in between" {
    exits 5 timeout 20 holdfast run x -- holdfast run -n x -- holdfast run y -- holdfast run -w 1s x -- sh -c 'exit 5'
}

@test "also when the store is written in another way" {
    ln -s store "$dir/alias"
    exits 0 timeout 20 holdfast run x -- holdfast -S "file:$dir/alias" run -n x -- true
}

@test "another store or another name is another lock" {
    exits 0 timeout 20 holdfast run x -- holdfast -S "file:$dir/other" run -n x -- true
    hold y
    exits 75 holdfast run x -- holdfast run -n y -- true
}

@test "another kind is refused as ever" {
    exits 65 timeout 20 holdfast run x -- holdfast run -s x -- true
    exits 65 timeout 20 holdfast run x -- holdfast run --slots 2 x -- true
}

@test "a writer covers writers and readers, a reader covers readers" {
    exits 0 timeout 20 holdfast run -x x -- holdfast run -x -n x -- true
    exits 0 timeout 20 holdfast run -x x -- holdfast run -s -n x -- true
    exits 75 timeout 20 holdfast run -s x -- holdfast run -x -n x -- true
    # An inner reader behind a waiting writer would wait for ever.
    begin holdfast run -s x -- sh -c 'touch ready; while [ ! -e go ]; do sleep 0.02; done; holdfast run -s x -- touch inner'
    pid=$!
    eventually test -e ready
    begin holdfast run -x x -- touch writer
    eventually has_waiters x 1
    touch go
    wait $pid
    [[ -e inner ]]
    eventually test -e writer
}

@test "permits of a semaphore are counted" {
    exits 0 timeout 20 holdfast run --slots 2 x -- holdfast run --slots 2 -n x -- true
    exits 75 timeout 20 holdfast run --slots 1 x -- holdfast run --slots 1 -n x -- true
}

@test "the outer run does not release before its inner ones have ended" {
    begin holdfast run x -- sh -c 'echo $$ >command; holdfast run x -- sh -c "touch in; while [ ! -e go ]; do sleep 0.02; done" & while [ ! -e in ]; do sleep 0.02; done'
    pid=$!
    eventually test -e in
    eventually is_gone "$(cat command)"
    sleep 0.3
    kill -0 $pid
    exits 75 holdfast run -n x -- true
    touch go
    wait $pid
    is_free x
}

@test "a signal to the outer run, whose command has ended, reaches the inner one" {
    begin holdfast run x -- sh -c 'echo $$ >command; holdfast run x -- sh -c "touch in; exec sleep 1000" & while [ ! -e in ]; do sleep 0.02; done'
    pid=$!
    eventually test -e in
    eventually is_gone "$(cat command)"
    kill -TERM $pid
    wait $pid
    is_free x
}

@test "loss ends the inner one too: 76 for both" {
    # The outer command ignores TERM, and what it starts would too; so the inner one obeys at once, with time to spare.
    begin holdfast run x --kill-after 30s -- sh -c 'trap "" TERM
        setsid -w holdfast run x --kill-after 30s -- env --default-signal=TERM sh -c "touch in; exec sleep 1000"
        echo $? >inner; exit 0'
    pid=$!
    eventually test -e in
    holdfast break x --token "$(holdfast show x --json | jq -r '.holders[0].token')"
    status=0
    wait $pid || status=$?
    [[ $status == 76 ]]
    [[ $(cat inner) == 76 ]]
}

@test "--max-hold of an inner run ends only the inner one" {
    exits 3 timeout 20 holdfast run x -- sh -c 'holdfast run x --max-hold 1s -- sleep 1000; [ $? = 76 ] && exit 3'
}

@test "the outer run is killed: the inner one ends its command at once, for the lease has ended; 76" {
    begin holdfast run x -- sh -c 'setsid sh -c "holdfast run x --kill-after 100s -- sh -c \"trap : TERM; touch in; while :; do sleep 0.05; done\"; echo \$? >inner" & while :; do sleep 0.1; done'
    pid=$!
    eventually test -e in
    kill -KILL $pid
    eventually test -s inner
    [[ $(cat inner) == 76 ]]
    eventually is_free x
}

# old_outer WORD...: a run around an inner one, as it was before GRANTED had a grace, sends these words
old_outer() {
    timeout 60 python3 -c '
import os, socket, struct, subprocess, sys, time
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
inner = subprocess.Popen(["holdfast", "run", "x", "--kill-after", "100s", "--", "sh", "-c",
                          "echo $HOLDFAST_TOKEN >token; trap : TERM; touch in; while :; do sleep 0.05; done"],
                         pass_fds=[theirs.fileno()],
                         env=dict(os.environ, HOLDFAST_RUN_FD=f"{theirs.fileno()}:{os.fstat(theirs.fileno()).st_ino}"))
_, fds, _, _ = socket.recv_fds(ours, 8192, 1)
inner_end = socket.socket(fileno=fds[0])
inner_end.send(struct.pack("=IIQ", 1, 0, 4711)) # GRANTED, nothing, token
while not os.path.exists("in"): time.sleep(0.01)
for word in sys.argv[1:]:
    inner_end.send(struct.pack("=IIQ", int(word), 0, 0))
inner_end.close()
sys.exit(inner.wait())' "$@"
}

@test "an outer run of an older version: the inner one works, and ends its command early enough for any ttl" {
    exits 76 old_outer
    [[ $(cat token) == 4711 ]]
    rm in
    exits 76 old_outer 4 # LOST
}

@test "an inner run of an older version gets its token, and is told of the grace in what it does not read" {
    exits 0 timeout 20 holdfast run x --kill-after 2s --ttl 60s -- python3 -c '
import os, socket, struct
fd = int(os.environ["HOLDFAST_RUN_FD"].split(":")[0])
location = ("file:" + os.path.realpath("store")).encode()
for kind in range(8): # the number of a mutex
    hello = struct.pack("=IIII", 0x48465231, kind, 1, len(location)) + b"x" + location
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    socket.send_fds(socket.socket(fileno=os.dup(fd)), [hello], [theirs.fileno()])
    word, grace, token = struct.unpack("=IIQ", ours.recv(16))
    if word == 1: break
assert (word, grace, token) == (1, 2000, int(os.environ["HOLDFAST_TOKEN"])), (word, grace, token)'
}

@test "an environment that outlived its run is an ordinary acquire" {
    begin holdfast run x -- sh -c 'setsid sh -c "while [ ! -e go ]; do sleep 0.02; done; holdfast run -n x -- touch again; echo \$? >code" >/dev/null 2>&1 &'
    wait $!
    hold x
    touch go
    eventually test -s code
    [[ $(cat code) == 75 && ! -e again ]]
}

@test "a made-up environment is an ordinary acquire" {
    hold x
    for value in '' 0 1 60 junk 1:2 60:0 '99999999999999999999:1' '-1:1' '1:1,2:2,' "$(printf '9%.0s' {1..5000})"; do
        HOLDFAST_RUN_FD=$value exits 75 timeout 20 holdfast run -n x -- true
        HOLDFAST_RUN_FD=$value exits 0 timeout 20 holdfast run -n y -- true
    done
}

@test "another socket under the number is not written to" {
    exits 0 python3 - <<'PY'
import os, socket, subprocess
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
inode = os.fstat(b.fileno()).st_ino
code = subprocess.call(["holdfast", "run", "-n", "x", "--", "true"], pass_fds=[b.fileno()],
                       env=dict(os.environ, HOLDFAST_RUN_FD=f"{b.fileno()}:{inode + 1}"))
assert code == 0, code
a.setblocking(False)
try:
    assert not a.recv(100)
except BlockingIOError:
    pass
PY
}

@test "garbage on the socket harms nobody" {
    exits 0 timeout 20 holdfast run x -- python3 -c '
import os, socket, subprocess
fd = int(os.environ["HOLDFAST_RUN_FD"].split(":")[0])
s = socket.socket(fileno=os.dup(fd))
r, w = os.pipe()
for data in (b"\0", b"x", b"HFR1" * 4, b"\0" * 16, b"1RFH" + b"\xff" * 12, os.urandom(4000)):
    s.send(data)
    socket.send_fds(s, [data], [r, w, r])
assert subprocess.call(["holdfast", "run", "-n", "x", "--", "true"], pass_fds=[fd]) == 0'
}
