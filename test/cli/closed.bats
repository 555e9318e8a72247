#!/usr/bin/env bats
# What Holdfast starts is closed to the other users of the machine: servers of the lab and of tests.
load helper

need_root() { ((EUID == 0)) || skip "needs root, to become another user"; }
need_networks() { [[ -z $("$HOLDFAST_BUILD/bin/test/closed" 2>&1 env -u HOLDFAST_CLOSED "$HOLDFAST_BUILD/bin/test/closed" true) ]] || skip "network namespaces are not permitted here"; }

# Any user who is not the one that runs the servers.
another=(setpriv --reuid=daemon --regid=daemon --clear-groups)
# As on a machine that permits no network namespaces.
without_networks=(setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin)

# server PATTERN: the process of the lab's that the pattern describes; $server.
server() {
    server=$(pgrep -P "${begun[0]}" -f "$1" | head -n 1)
    [[ -n $server ]]
}

# argument WORD: what stands behind it in the arguments of $server.
argument() { tr '\0' '\n' <"/proc/$server/cmdline" | grep -A1 -x -e "$1" | tail -n 1; }

@test "the lab's servers are in a network of their own" {
    need_networks
    begin holdfast lab database-index
    eventually server '/postgres -D'
    [[ $(readlink "/proc/$server/ns/net") != "$(readlink /proc/self/ns/net)" ]]
}

@test "a user without rights has one, too" {
    need_root
    need_networks
    "${another[@]}" test -x "$HOLDFAST_BIN" || skip "another user cannot read the build"
    begin "${another[@]}" env TMPDIR=/tmp HOME=/nonexistent "$HOLDFAST_BIN" lab slow
    eventually server 'redis-server'
    [[ $(readlink "/proc/$server/ns/net") != "$(readlink /proc/self/ns/net)" ]]
}

@test "without one, another user cannot come into the lab's PostgreSQL" {
    need_root
    begin "${without_networks[@]}" holdfast lab database-index
    eventually server '/postgres -D'
    [[ $(readlink "/proc/$server/ns/net") == "$(readlink /proc/self/ns/net)" ]]
    local data port directory
    data=$(argument -D)
    port=$(argument -p)
    directory=$(dirname "$data")
    eventually psql -h "$directory" -p "$port" -U postgres -c 'SELECT 1'
    run "${another[@]}" psql -h 127.0.0.1 -p "$port" -U postgres -c 'SELECT 1'
    says "Connection refused"
    run "${another[@]}" psql -h "$directory" -p "$port" -U postgres -c 'SELECT 1'
    says "Permission denied"
}

@test "without one, another user cannot come into the lab's Redis" {
    need_root
    begin "${without_networks[@]}" env TMPDIR="$dir" holdfast lab slow
    eventually eval "compgen -G '$dir/holdfast-redis-*/socket'"
    server redis-server
    local port
    port=$(redis-cli -s "$dir"/holdfast-redis-*/socket --user default -a "$(sed -n 's/^requirepass //p' "$dir"/holdfast-redis-*/secret)" \
        --no-auth-warning config get port | tail -n 1)
    run "${another[@]}" redis-cli -p "$port" ping
    says "NOAUTH"
    run "${another[@]}" redis-cli -p "$port" debug object lock
    says "NOAUTH"
    run "${another[@]}" redis-cli -s "$dir"/holdfast-redis-*/socket ping
    says "Permission denied"
    # Nor is the password where everybody can read it.
    run tr '\0' ' ' <"/proc/$server/cmdline"
    [[ $output != *"$(sed -n 's/^requirepass //p' "$dir"/holdfast-redis-*/secret)"* ]]
}

@test "the servers of tests are in a network of their own" {
    need_networks
    # shellcheck disable=SC2016 # for the shell that has a server
    env -u HOLDFAST_CLOSED "$HOLDFAST_BUILD/bin/test/with_server" redis sh -c 'readlink /proc/self/ns/net' >inside
    [[ -s inside && $(<inside) != "$(readlink /proc/self/ns/net)" ]]
}

@test "who may run commands comes into a database of the tests through its directory only" {
    # shellcheck disable=SC2016 # for the shells that have a server
    "$HOLDFAST_BUILD/bin/test/with_server" postgres sh -c '
        psql -h "$HOLDFAST_TEST_SOCKET" -p "$HOLDFAST_TEST_PORT" -U postgres -Atc "SELECT 42" test
        psql -h 127.0.0.1 -p "$HOLDFAST_TEST_PORT" -U postgres -Atc "SELECT 43" test' >out 2>&1 || true
    run cat out
    says 42
    says "pg_hba.conf rejects"
    # shellcheck disable=SC2016
    "$HOLDFAST_BUILD/bin/test/with_server" mariadb sh -c '
        mariadb -S "$HOLDFAST_TEST_SOCKET" -u root -NBe "SELECT 42" test
        mariadb -h 127.0.0.1 -P "$HOLDFAST_TEST_PORT" -u root -NBe "SELECT 43" test' >out 2>&1 || true
    run cat out
    says 42
    says "Access denied for user 'root'"
}
