#!/bin/bash
# SPDX-License-Identifier: MIT
# redlock_npm.sh BUILD [SECONDS]: sixteen processes on one name on five nodes, ours and node-redlock's, one after the
# other on servers of their own. npm fetches redlock and ioredis by name into a temporary directory.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?a build folder}" && pwd)
seconds=${2:-8}
place=$(mktemp -d "${TMPDIR:-/tmp}/redlock-npm.XXXXXX")
trap 'rm -rf "$place"' EXIT

(cd "$place" && npm install --no-save --no-package-lock --no-audit --no-fund --loglevel=error redlock@4 ioredis@5 >/dev/null)
export NODE_PATH=$place/node_modules

# theirs RETRY_MS JITTER_MS
theirs() {
    # shellcheck disable=SC2016 # for the inner shell
    "$build/bin/test/with_server" redis -R 5 sh -c '
        ports=$(echo "$HOLDFAST_TEST_URL" | grep -oE "127\.0\.0\.1:[0-9]+" | cut -d: -f2 | paste -sd,)
        exec node "$0" "$ports" "$@"' "$here/redlock_npm.js" "$seconds" "$@"
}

echo "node-redlock, as it comes (tries again after 200 ms, +- 100 ms):"
theirs 200 100
echo "node-redlock, impatient (5 ms, +- 5 ms):"
theirs 5 5
echo "holdfast:"
"$build/bin/holdfast" bench --json --seconds "$seconds" redlock-queue |
    jq -c '[.measurements[0].rows[].measured] | {acquisitions_per_second: (.[0] | round),
        hand_offs_per_second: (.[1] | round), jain: .[4], p50_ms: (.[2] / 1000), p99_ms: (.[3] / 1000), commands_each: .[6]}'
