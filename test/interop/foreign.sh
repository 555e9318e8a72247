#!/bin/bash
# SPDX-License-Identifier: MIT
# foreign.sh npm|redisson|redsync|redlock-py BUILD: interop.py with clients that are fetched first, by name, into
# BUILD: nothing of where they came from is kept in the tree. Needs npm; mvn and a JDK; go; or pip.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
kind=${1:?npm, redisson, redsync or redlock-py}
build=$(cd "${2:?a build folder}" && pwd)
place=$build/interop-$kind
python=/usr/bin/python3
mkdir -p "$place"

# between QUERY WORKER...
between() {
    "$build/bin/test/with_server" redis "$python" "$here/interop.py" "$build/bin/test/interop_worker" "$@"
}

# Likewise on the three nodes of a Redlock.
between_nodes() {
    "$build/bin/test/with_server" redis -R 3 "$python" "$here/interop.py" "$build/bin/test/interop_worker" "$@"
}

case $kind in
npm)
    (cd "$place" && npm install --no-save --no-package-lock --no-audit --no-fund --loglevel=error \
        redlock@4 redis-semaphore@5 ioredis@5 >/dev/null)
    export NODE_PATH=$place/node_modules
    echo "== redlock"
    between wire=plain node "$here/worker_npm.js" redlock '{port}'
    echo "== redlock on three nodes"
    between_nodes wire=plain node "$here/worker_npm.js" redlock '{port}'
    echo "== redis-semaphore"
    INTEROP_PREFIX=mutex: between wire=plain node "$here/worker_npm.js" redis-semaphore '{port}'
    ;;
redisson)
    mvn -q -B -f "$here/redisson/pom.xml" dependency:build-classpath -Dmdep.outputFile="$place/classpath"
    javac -cp "$(cat "$place/classpath")" -d "$place" "$here/redisson/Worker.java"
    echo "== redisson"
    between wire=redisson java -XX:+UseSerialGC -Xmx128m -cp "$place:$(cat "$place/classpath")" Worker '{port}'
    ;;
redsync)
    cp "$here/redsync/worker.go" "$place/"
    (cd "$place" && { [ -f go.mod ] || go mod init holdfast/interop 2>/dev/null; } &&
        go get github.com/go-redsync/redsync/v4 github.com/redis/go-redis/v9 2>/dev/null && go build -o worker worker.go)
    echo "== redsync"
    between wire=plain "$place/worker" '{port}'
    echo "== redsync on three nodes"
    between_nodes wire=plain "$place/worker" '{port}'
    ;;
redlock-py)
    python3 -m venv "$place/venv"
    "$place/venv/bin/pip" install -q --disable-pip-version-check redlock-py redis
    echo "== redlock-py on three nodes"
    # With a node lost it raises an error where it has a majority, and keeps what it has: no more cases.
    INTEROP_WHOLE=1 between_nodes wire=plain "$place/venv/bin/python" "$here/worker_redlock_py.py" '{port}'
    ;;
*)
    echo "usage: foreign.sh npm|redisson|redsync|redlock-py BUILD" >&2
    exit 64
    ;;
esac
