#!/bin/bash
# SPDX-License-Identifier: MIT
# foreign.sh npm|redisson|redsync|redlock-py|curator|shedlock BUILD: interop.py with clients that are fetched first, by name, into
# BUILD, and the code of docs/migrate that uses them: nothing of where they came from is kept in the tree. Needs npm; mvn and a
# JDK; go; or pip.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
kind=${1:?npm, redisson, redsync, redlock-py, curator or shedlock}
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

# The Java code of docs/migrate/$kind.md, compiled with our binding and run beside a server: java_page SERVER
java_page() {
    local java=$here/../../bindings/java
    echo "== docs/migrate/$kind.md"
    mvn -q -B -f "$here/$kind/pom.xml" dependency:build-classpath -Dmdep.outputFile="$place/classpath"
    HOLDFAST_BUILD=$build "$java/native/build.sh" "$place/native"
    mkdir -p "$place/page"
    "$python" "$here/page_code.py" "$here/../../docs/migrate/$kind.md" java "$here/$kind/Page.java.in" >"$place/page/Page.java"
    find "$java/src/main/java" -name '*.java' -exec \
        javac -cp "$(cat "$place/classpath")" -d "$place/page" "$place/page/Page.java" {} +
    "$build/bin/test/with_server" "$1" java -XX:+UseSerialGC -Xmx128m -Dholdfast.library="$place/native/libholdfast_jni.so" \
        -cp "$place/page:$(cat "$place/classpath")" Page
}

# The Go code of docs/migrate/redsync.md. Its server is a Redis.
go_page() {
    echo "== docs/migrate/redsync.md"
    mkdir -p "$place/page"
    "$python" "$here/page_code.py" "$here/../../docs/migrate/redsync.md" go "$here/redsync/page.go.in" >"$place/page/main.go"
    cp "$place/go.mod" "$place/go.sum" "$place/page/"
    (cd "$place/page" && go mod edit -require=holdfast@v0.0.0 -replace=holdfast="$(cd "$here/../../bindings/go" && pwd)" &&
        CGO_CFLAGS="\"-I$(cd "$here/../../include" && pwd)\"" CGO_LDFLAGS="\"-L$build/lib\" \"-Wl,-rpath,$build/lib\"" go build -o page .)
    "$build/bin/test/with_server" redis "$place/page/page"
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
    java_page redis
    ;;
curator)
    java_page zookeeper
    ;;
shedlock)
    java_page postgres
    ;;
redsync)
    cp "$here/redsync/worker.go" "$place/"
    (cd "$place" && { [ -f go.mod ] || go mod init holdfast/interop 2>/dev/null; } &&
        go get github.com/go-redsync/redsync/v4 github.com/redis/go-redis/v9 2>/dev/null && go build -o worker worker.go)
    echo "== redsync"
    between wire=plain "$place/worker" '{port}'
    echo "== redsync on three nodes"
    between_nodes wire=plain "$place/worker" '{port}'
    go_page
    ;;
redlock-py)
    python3 -m venv "$place/venv"
    "$place/venv/bin/pip" install -q --disable-pip-version-check redlock-py redis
    echo "== redlock-py on three nodes"
    # With a node lost it raises an error where it has a majority, and keeps what it has: no more cases.
    INTEROP_WHOLE=1 between_nodes wire=plain "$place/venv/bin/python" "$here/worker_redlock_py.py" '{port}'
    ;;
*)
    echo "usage: foreign.sh npm|redisson|redsync|redlock-py|curator|shedlock BUILD" >&2
    exit 64
    ;;
esac
