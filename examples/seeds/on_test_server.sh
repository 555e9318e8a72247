#!/bin/bash
# SPDX-License-Identifier: MIT
# on_test_server.sh LISTING [SHIM]: run it on the server that with_server has started (test/lib/with_server.c). SHIM: a library
# that sets a client's clock ahead (test/lib/clock_shim.c).
set -eu
here=$(dirname "$0")
export HOLDFAST_STORE=${HOLDFAST_TEST_URL/\{id\}/seed}
case $HOLDFAST_STORE in
redis:*)
    clock=$(mktemp)
    trap 'rm -f "$clock"' EXIT
    printf '\x00\x87\x93\x03\x00\x00\x00\x00' >"$clock" # 60,000,000 microseconds
    SKEW="env LD_PRELOAD=$2 HOLDFAST_TEST_CLOCK=$clock" "$here/$1" "redis://127.0.0.1:$HOLDFAST_TEST_PORT"
    ;;
postgres*) CLIENT="psql -h $HOLDFAST_TEST_SOCKET -p $HOLDFAST_TEST_PORT -U postgres postgres" "$here/$1" ;;
mariadb:*) CLIENT="mariadb -S $HOLDFAST_TEST_SOCKET -u root test" "$here/$1" ;;
esac
