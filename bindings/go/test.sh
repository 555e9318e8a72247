#!/bin/sh
# SPDX-License-Identifier: MIT
# Build, lint and test the Go binding, on the embedded store and on Redis.
#
#   HOLDFAST_BUILD  the build folder of the C library (default: build in the root of the repository)
#   HOLDFAST_OUT    what is built here goes there (default: $HOLDFAST_BUILD/bindings/go)
#   GO              the go command (default: go)
#
# The last line is "N passed, N failed".
# shellcheck disable=SC2089,SC2090 # cgo reads the quotes in its variables
set -u
cd "$(dirname "$0")" || exit 1
here=$(pwd)
root=$(cd ../.. && pwd)
build=$(cd "${HOLDFAST_BUILD:-$root/build}" && pwd) || exit 1
go=${GO:-go}
out=${HOLDFAST_OUT:-$build/bindings/go}
mkdir -p "$out/bin" || exit 1
log=$out/log
passed=0 failed=0

# What cgo needs; a path may hold spaces.
CGO_CFLAGS="-O2 -Wall -Werror \"-I$root/include\""
CGO_LDFLAGS="\"-L$build/lib\" \"-Wl,-rpath,$build/lib\""
GOFLAGS="${GOFLAGS:-} -buildvcs=false"
GOTOOLCHAIN=local
PATH=$("$go" env GOROOT)/bin:$PATH # staticcheck runs "go"
export CGO_CFLAGS CGO_LDFLAGS GOFLAGS GOTOOLCHAIN PATH

result() { # STATUS WHAT
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok   $2"
    else
        failed=$((failed + 1))
        echo "FAIL $2"
    fi
}

step() { # WHAT COMMAND...
    what=$1
    shift
    "$@" >"$log" 2>&1
    status=$?
    result $status "$what"
    [ $status -eq 0 ] || cat "$log"
}

redis() { "$build/bin/test/with_server" redis "$@"; }

is_formatted() {
    list=$("$("$go" env GOROOT)/bin/gofmt" -l .)
    [ -z "$list" ] || { echo "$list"; false; }
}

# Its version goes with that of Go. Without a way to get it, that is said, and nothing is counted.
staticcheck() {
    case $("$go" env GOVERSION) in
    go1.19* | go1.20* | go1.21*) version=v0.4.7 ;;
    go1.22* | go1.23* | go1.24*) version=v0.5.1 ;;
    *) version=v0.8.2 ;;
    esac
    tool=$out/bin/staticcheck-$("$go" env GOVERSION)-$version
    if [ ! -x "$tool" ]; then
        if ! (cd / && CGO_ENABLED=0 GOBIN=$out/bin "$go" install "honnef.co/go/tools/cmd/staticcheck@$version") >"$log" 2>&1; then
            echo "skip staticcheck $version: it could not be installed"
            return
        fi
        mv "$out/bin/staticcheck" "$tool"
    fi
    step "staticcheck $version" "$tool" -checks all ./...
}

# The output of the example, with the tokens as T1 < T2.
is_as_told() {
    "$@" >"$out/workers.txt" || return 1
    awk '/token [0-9]+$/ { n++; token[n] = $NF; sub(/[0-9]+$/, "T" n) } { print }
         END { exit !(n == 2 && token[1] < token[2]) }' "$out/workers.txt" >"$out/workers.got" || return 1
    cat >"$out/workers.want" <<'END'
first: holds report, token T1
first: wrote page
first: lost report
second: holds report, token T2
second: wrote page
first: refused, a newer token was used
second: released
page: by second
END
    diff "$out/workers.want" "$out/workers.got"
}

# The function of the README, word by word but for its URL, in a module of its own.
quickstart() {
    mine=$out/quickstart
    rm -rf "$mine" && mkdir -p "$mine" || return 1
    {
        printf 'package main\n\nimport (\n"context"\n"time"\n\n"holdfast"\n)\n\nfunc main() {\nif err := report(context.Background()); err != nil {\npanic(err)\n}\n}\n\n'
        awk '/^```go/ { on = 1; next } /^```/ && on { exit } on' README.md | sed "s|redis://localhost|file:$mine/store|"
    } >"$mine/main.go"
    printf 'module mine\n\ngo 1.19\n' >"$mine/go.mod"
    (cd "$mine" && "$go" mod edit -require=holdfast@v0.0.0 -replace=holdfast="$here" && "$go" run .)
}

# Two workers at once; every line has its form, and each has held something.
are_workers_fine() { # URL
    "$out/bin/worker" "$1" 1 2 >"$out/worker.1" &
    first=$!
    "$out/bin/worker" "$1" 2 2 >"$out/worker.2"
    second=$?
    wait $first && [ $second -eq 0 ] || return 1
    for file in "$out/worker.1" "$out/worker.2"; do
        grep -q '^[0-9]* got ' "$file" && grep -q '^[0-9]* added ' "$file" || return 1
        ! grep -vE '^[0-9]+ (ask [0-9]+ (mutex|semaphore|counter) [12]|got [0-9]+ [0-9]+|not [0-9]+ [A-Z_]+|(still|lost|letting) [0-9]+|let [0-9]+ [A-Z_]+|(adding|added|fenced|unsure) [0-9]+ [0-9]+)$' "$file" || return 1
    done
}

if [ "${1:-}" = on-redis ]; then # within with_server
    url=$(echo "$HOLDFAST_TEST_URL" | sed 's/{id}/go-test/')
    case $2 in
    workers) is_as_told "$out/bin/workers" "$url" ;;
    worker) are_workers_fine "$url" ;;
    esac
    exit
fi

step gofmt is_formatted
step vet "$go" vet ./...
staticcheck
step examples "$go" build -o "$out/bin/" ./examples/...
"$go" doc -all . >"$out/doc.txt" 2>"$log" && grep -q 'func (s \*Store) Lock' "$out/doc.txt"
result $? "doc: $out/doc.txt"

step "build of the tests, with the race detector" "$go" test -race -c -o "$out/bin/holdfast.test" .
redis "$out/bin/holdfast.test" -test.v -test.timeout 10m >"$out/tests.txt" 2>&1
status=$?
passed=$((passed + $(grep -c '^ *--- PASS' "$out/tests.txt")))
failed=$((failed + $(grep -c '^ *--- FAIL' "$out/tests.txt")))
if [ $status -ne 0 ]; then
    grep -v '^=== ' "$out/tests.txt" | tail -n 100
    grep -q '^ *--- FAIL' "$out/tests.txt" || failed=$((failed + 1)) # it has crashed
fi
grep -- '--- SKIP' "$out/tests.txt"

step "quickstart of the README" quickstart
dir=$(mktemp -d "$out/store.XXXXXX")
step "workers, embedded" is_as_told "$out/bin/workers"
step "workers, Redis" env HOLDFAST_BUILD="$build" HOLDFAST_OUT="$out" "$build/bin/test/with_server" redis "$here/test.sh" on-redis workers
step "worker, embedded" are_workers_fine "file:$dir/store"
step "worker, Redis" env HOLDFAST_BUILD="$build" HOLDFAST_OUT="$out" "$build/bin/test/with_server" redis "$here/test.sh" on-redis worker
rm -rf "$dir"

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
