# SPDX-License-Identifier: MIT
# What every suite needs: a store of its own in a temporary directory, and ways to wait for
# something to become true instead of sleeping. Processes in the background must not keep bats'
# descriptor 3: begin() sees to that, and teardown ends what a failed test left behind.

# Suites write UTF-8 ($'\u202e'), also where cron or a new root has no language. Here, before bash reads the tests.
[[ -n ${LC_ALL:-}${LC_CTYPE:-}${LANG:-} ]] || export LANG=C.UTF-8

setup() {
    dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-cli.XXXXXX")
    cd "$dir" || return
    export HOLDFAST_STORE=file:$dir/store
    unset HOLDFAST_CONFIG HOLDFAST_NAME HOLDFAST_TOKEN HOLDFAST_TOKENS HOLDFAST_SLOT HOLDFAST_RUN_FD HOLDFAST_SESSION NO_COLOR
    export PATH=$dir/bin:$PATH
    export TERM=xterm-256color # cron, most CI and a new root have none
    mkdir bin
    ln -s "${HOLDFAST_BIN:?}" bin/holdfast
    begun=()
}

teardown() {
    local pid
    for pid in "${begun[@]}"; do
        kill -CONT "$pid" 2>/dev/null || true
        kill -KILL "$pid" 2>/dev/null || true
    done
    cd / && rm -rf "$dir"
}

# For tests with several users: everybody may enter $dir, and `holdfast` is a copy in it. Others cannot read the build if the tree is
# below root's home, which has the mode 0700.
open_to_all() {
    local build=${HOLDFAST_BIN%/bin/holdfast}
    mkdir -p product/bin product/lib/holdfast
    cp "$HOLDFAST_BIN" product/bin
    cp -a "$build"/lib/libholdfast.so.* product/lib
    cp "$build"/lib/holdfast/*.so product/lib/holdfast
    chmod -R a+rX "$dir/product"
    chmod 755 "$dir"
    ln -sfn "$dir/product/bin/holdfast" bin/holdfast
}

# begin COMMAND...: in the background; $! is its process. Output goes to $dir/out and $dir/err.
begin() {
    "$@" >>"$dir/out" 2>>"$dir/err" 3>&- &
    begun+=($!)
}

# make_store: an empty store of the test, for verbs that only inspect.
make_store() { holdfast -q init "$dir/store" >/dev/null; }

# eventually COMMAND...: true within 40 seconds.
eventually() {
    local i
    for ((i = 0; i < 2000; i++)); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.02
    done
    echo "never became true: $*" >&2
    return 1
}

# once_of_five FUNCTION: until it does not return 1. A lease that must be renewed in time, or a moment that must
# not be missed, gets five attempts on a machine that stalls; a real error fails in each. Return 2 for an error
# that no stall explains.
once_of_five() {
    local i code
    for i in 1 2 3 4 5; do
        code=0
        "$@" || code=$?
        ((code != 1)) && return "$code"
        echo "attempt $i came to nothing"
    done
    return 1
}

# hold NAME [OPTION...]: a run in the background that holds NAME; its process is $holder, its
# command's $held_pid.
hold() {
    local name=$1
    shift
    rm -f "$dir/held"
    begin holdfast run "$name" "$@" -- sh -c 'echo $$ >"$0.tmp"; mv "$0.tmp" "$0"; exec sleep 1000' "$dir/held"
    holder=$!
    eventually test -e "$dir/held"
    held_pid=$(cat "$dir/held")
}

is_gone() { [[ ! -e /proc/$1 || $(state_of "$1") == Z ]]; } # a container's init may reap late
has_no_child() { ! pgrep -P "$1"; } # none that it has not waited for
is_free() { [[ $(holdfast show "$1" --json | jq '.holders | length') == 0 ]]; }
is_held() { [[ $(holdfast show "$1" --json | jq '.holders | length') != 0 ]]; }
waiters() { holdfast show "$1" --json | jq '.waiters | length'; }
has_waiters() { [[ $(waiters "$1") == "$2" ]]; }
state_of() { sed 's/.*) \(.\).*/\1/' "/proc/$1/stat"; }
is_stopped() { [[ $(state_of "$1") == T ]]; }
is_not_stopped() { [[ $(state_of "$1") != T ]]; }

# not COMMAND...: fails if it succeeds; a plain ! would not fail a test.
not() { ! "$@"; }

# exits CODE COMMAND...: runs it and compares; its output is in $output.
exits() {
    local expected=$1 status=0
    shift
    output=$("$@" 2>&1) || status=$?
    if [[ $status != "$expected" ]]; then
        echo "exit code $status, not $expected: $*"
        echo "$output"
        return 1
    fi
}

# says TEXT: the last output contains it.
says() {
    [[ $output == *"$1"* ]] || { echo "no '$1' in: $output"; return 1; }
}
