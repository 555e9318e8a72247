#!/bin/bash
# SPDX-License-Identifier: MIT
# install.sh DIR: fetch and build the peers in DIR, by name, with the ordinary client of each language as it is configured on
# this machine. A tool that is missing is installed as a Debian package, if we may. What cannot be had is said, and written to
# DIR/skipped ("peer: why"); that is no failure.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?a folder}"
place=$(cd "$1" && pwd)
: >"$place/skipped"

# need PROGRAM PACKAGE...
need() {
    program=$1
    shift
    command -v "$program" >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    echo "peers: installing $*"
    apt-get install -y --no-install-recommends "$@" >/dev/null 2>&1
    command -v "$program" >/dev/null
}

skip() { # WHY LOG PEER...
    why=$1 log=$2
    shift 2
    [ -s "$log" ] && why="$why: $(tail -n 1 "$log" | cut -c1-160)"
    for peer; do
        echo "peers: $peer is skipped: $why"
        echo "$peer: $why" >>"$place/skipped"
    done
}

go_peers() {
    need go golang-go || { skip 'no go' /dev/null redsync pgx etcd-go; return; }
    mkdir -p "$place/go" && cp "$here"/go/*.go "$place/go/" && cd "$place/go" || return
    {
        [ -f go.mod ] || go mod init peers
        go get github.com/go-redsync/redsync/v4@latest github.com/redis/go-redis/v9@latest github.com/jackc/pgx/v5@latest \
            go.etcd.io/etcd/client/v3@latest && go build -o peer .
    } >"$place/go.log" 2>&1 || skip 'go build failed' "$place/go.log" redsync pgx etcd-go
}

rust_peers() {
    need cargo cargo || { skip 'no cargo' /dev/null rslock; return; }
    mkdir -p "$place/rslock" && cp "$here"/rslock/Cargo.toml "$here"/rslock/main.rs "$place/rslock/" && cd "$place/rslock" || return
    CARGO_TARGET_DIR=$place/rslock/target cargo build --release --quiet >"$place/rslock.log" 2>&1 ||
        skip 'cargo build failed' "$place/rslock.log" rslock
}

python_peers() {
    need python3 python3 python3-venv || { skip 'no python3' /dev/null redis-py; return; }
    {
        [ -x "$place/python/bin/python" ] || python3 -m venv "$place/python"
        "$place/python/bin/pip" install --quiet redis
    } >"$place/python.log" 2>&1 || skip 'pip install failed' "$place/python.log" redis-py
}

node_peers() {
    need npm nodejs npm || { skip 'no npm' /dev/null node-redlock; return; }
    mkdir -p "$place/node" && cd "$place/node" || return
    npm install --no-save --no-package-lock --no-audit --no-fund --loglevel=error redlock@4 ioredis@5 >"$place/node.log" 2>&1 ||
        skip 'npm install failed' "$place/node.log" node-redlock
}

java_peers() {
    if ! need mvn maven || ! need javac default-jdk-headless; then
        skip 'no maven or JDK' /dev/null redisson curator
        return
    fi
    mkdir -p "$place/java" && cd "$place/java" || return
    {
        mvn -q -B -f "$here/java/pom.xml" dependency:build-classpath -Dmdep.outputFile="$place/java/classpath" &&
            javac -cp "$(cat classpath)" -d . "$here"/java/*.java
    } >"$place/java.log" 2>&1 || skip 'mvn or javac failed' "$place/java.log" redisson curator
}

go_peers
rust_peers
python_peers
node_peers
java_peers
exit 0
