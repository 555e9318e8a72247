#!/bin/bash
# SPDX-License-Identifier: MIT
# test.sh: build the addon, lint, check the types, make the documentation, and run all tests on the embedded store and on Redis.
# HOLDFAST_BUILD is the build folder of Holdfast. All that is written is below HOLDFAST_BUILD/bindings/node. The last line is
# "N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
HOLDFAST_BUILD=$(realpath "${HOLDFAST_BUILD:-$here/../../build}") || exit 1
export HOLDFAST_BUILD
out=$HOLDFAST_BUILD/bindings/node
export HOLDFAST_NODE=$out/holdfast.node
mkdir -p "$out" && cd "$here" || exit 1
passed=0 failed=0

# step NAME COMMAND...: what it says is shown only if it fails.
step() {
    local name=$1
    shift
    if "$@" >"$out/log" 2>&1 </dev/null; then
        passed=$((passed + 1))
        echo "ok $name"
    else
        failed=$((failed + 1))
        echo "not ok $name"
        cat "$out/log"
    fi
}

# The tools of package.json, installed once for each version of it.
tools() {
    cmp -s package.json "$out/tools/installed" && return
    mkdir -p "$out/tools" && cp package.json "$out/tools/" || return
    (cd "$out/tools" && npm install --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error) || return
    cp package.json "$out/tools/installed"
}
tool() { node "$out/tools/node_modules/$1" "${@:2}"; }

# Files outside of this folder refer to it by its path: the tools are not here.
types() {
    tool typescript/bin/tsc --noEmit --strict -p tsconfig.json --typeRoots "$out/tools/node_modules/@types"
}
doc() {
    printf '{ "extends": "%s/tsconfig.json", "compilerOptions": { "typeRoots": ["%s"] }, "files": ["%s/index.d.ts"] }\n' \
        "$here" "$out/tools/node_modules/@types" "$here" >"$out/tsconfig.json"
    tool typedoc/bin/typedoc --entryPoints index.d.ts --tsconfig "$out/tsconfig.json" --readme none --disableSources --out "$out/doc" \
        --treatWarningsAsErrors
}

# The example, with its tokens replaced.
expected='first: holds report, token T1
first: wrote page
first: lost report
second: holds report, token T2
second: wrote page
first: refused, a newer token was used
second: released
page: by second'
example() {
    local seen
    seen=$(timeout 120 node examples/workers.mjs "$@") || return
    seen=$(sed -E 's/^(first: .*token )[0-9]+$/\1T1/; s/^(second: .*token )[0-9]+$/\1T2/' <<<"$seen")
    diff <(echo "$expected") <(echo "$seen")
}
# Each line of a worker is one that the judge knows.
worker() {
    local lines
    lines=$(timeout 120 node examples/worker.mjs "$1" 7 1) || return
    grep -q ' let [0-9]* OK$' <<<"$lines" || return
    ! grep -vE '^[0-9]+ (ask [0-9]+ (mutex|semaphore|counter) [12]|(got|adding|added|fenced|unsure) [0-9]+ [0-9]+|(still|lost|letting) [0-9]+|(not|let) [0-9]+ [A-Z_]+)$' <<<"$lines"
}
bench() { timeout 120 node examples/bench.mjs "$1" 0.1 | grep -E '^pairs_per_second [0-9]+$'; }
# A store in a folder of its own, for one of the two above.
embedded() {
    local folder status
    folder=$(mktemp -d) || return
    "$1" "file:$folder"
    status=$?
    rm -rf "$folder"
    return $status
}
# The program of the README, word by word but for its URL, in a project of its own.
quickstart() {
    mkdir -p "$out/quickstart/node_modules" && ln -sfn "$here" "$out/quickstart/node_modules/holdfast" || return
    awk '/^```js/ { on = 1; next } /^```/ && on { exit } on' README.md | sed "s|redis://localhost|$1|" >"$out/quickstart/program.mjs"
    timeout 120 node "$out/quickstart/program.mjs"
}
# A relative HOLDFAST_BUILD is not recorded as it is: the addon must find the library from every folder.
relative() {
    (cd "$HOLDFAST_BUILD" && rm -rf "$out/relative" && HOLDFAST_BUILD=. "$here/build.sh" "$out/relative") || return
    ldd "$out/relative/holdfast.node" | grep -F "$("$here/../../tools/version.sh" --soname) => $HOLDFAST_BUILD/lib/"
}
export expected
export -f example worker bench
redis() { "$HOLDFAST_BUILD/bin/test/with_server" redis bash -c "$1 \"\${HOLDFAST_TEST_URL/\\{id\\}/example-$1}\""; }

# tests NAME COMMAND...: all test files; the counts are those of Node's runner.
tests() {
    local name=$1 good bad cancelled status
    shift
    "$@" node --expose-gc --test test/*.test.mjs >"$out/$name.tap" 2>&1 </dev/null
    status=$?
    good=$(sed -nE 's/^(#|ℹ) pass ([0-9]+)/\2/p' "$out/$name.tap" | tail -n 1)
    bad=$(sed -nE 's/^(#|ℹ) fail ([0-9]+)/\2/p' "$out/$name.tap" | tail -n 1)
    cancelled=$(sed -nE 's/^(#|ℹ) cancelled ([0-9]+)/\2/p' "$out/$name.tap" | tail -n 1)
    bad=$((${bad:-0} + ${cancelled:-0}))
    if [ $status -ne 0 ] && [ $bad -eq 0 ]; then bad=1; fi
    if [ "${good:-0}" -eq 0 ]; then bad=$((bad + 1)); fi
    [ $bad -eq 0 ] || cat "$out/$name.tap"
    echo "$name: ${good:-0} passed, $bad failed"
    passed=$((passed + ${good:-0})) failed=$((failed + bad))
}

step build ./build.sh "$out"
if [ $failed -eq 0 ]; then
    step tools tools
    step lint tool eslint/bin/eslint.js .
    step types types
    step documentation doc
    step example example
    step 'quickstart of the README' embedded quickstart
    step 'a relative HOLDFAST_BUILD' relative
    step worker embedded worker
    step bench embedded bench
    step 'example on Redis' redis example
    step 'worker on Redis' redis worker
    step 'bench on Redis' redis bench
    tests embedded env -u HOLDFAST_TEST_URL
    tests redis "$HOLDFAST_BUILD/bin/test/with_server" redis
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
