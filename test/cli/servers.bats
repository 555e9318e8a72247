#!/usr/bin/env bats
# What is the same on every server: looking creates nothing, and what a command inherits. Each test runs as a whole inside
# of a program that has a server of its own: `within PROGRAM OPTION... -- FUNCTION`.
load helper

within() {
    local server=$1 options=()
    shift
    while [[ $1 != -- ]]; do options+=("$1"); shift; done
    export dir
    # shellcheck disable=SC2016 # for the inner shell
    "$HOLDFAST_BUILD/bin/test/with_$server" "${options[@]}" bash -c '
        source "$HOLDFAST_SOURCE/test/cli/helper.bash"
        source <(sed -n "/^# ---- inside/,/^# ---- tests/p" "$0")
        begun=()
        trap "kill -KILL \"\${begun[@]}\" 2>/dev/null || true" EXIT
        export HOLDFAST_STORE=${HOLDFAST_TEST_URL//"{id}"/x}
        set -e
        "$1"' "$BATS_TEST_FILENAME" "$2" 3>&-
}

# ---- inside

# Of a database: what is in it beyond what was there at first.
pg_things() {
    psql -h "$HOLDFAST_TEST_SOCKET" -p "$HOLDFAST_TEST_PORT" -U postgres -d "$(database)" -AtX -c \
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
         UNION ALL SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
         WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'"
}

maria_things() {
    mariadb -S "$HOLDFAST_TEST_SOCKET" -u root -N -e \
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '$(database)'
         UNION ALL SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = '$(database)'"
}

database() {
    local path=${HOLDFAST_STORE#*://*/}
    echo "${path%%\?*}"
}

# looks THINGS: each verb that looks, on a server with no store; THINGS prints what there is, which is nothing before and
# after. Then a lock makes it, and there is something to see.
looks() {
    local things=$1
    [[ -z $("$things") ]]
    for verb in "ls" "ls -1" "show job" "watch" "deadlocks"; do
        # shellcheck disable=SC2086 # words
        timeout 60 holdfast $verb >"$dir/looked" 2>"$dir/said" || { cat "$dir/said"; return 1; }
        nothing_yet "$verb" "$things"
        grep -qE "^holdfast: no store yet at (postgresql://|mariadb )" "$dir/said" || { echo "$verb:"; cat "$dir/said"; return 1; }
        [[ ! -s $dir/looked ]] || { echo "$verb:"; cat "$dir/looked"; return 1; }
    done
    holdfast ls --json 2>/dev/null | jq -e '.names == [] and (.store | length) > 0 and (.engine | length) > 0'
    holdfast show job --json 2>/dev/null | jq -e '.holders == [] and .kind == null'
    holdfast deadlocks --json 2>/dev/null | jq -e '. == []'
    doctor_looks "$things"
    exits 0 holdfast run job -- true
    [[ -n $("$things") ]]
    exits 0 holdfast show job
    says "job: free"
}

# It still reports on the server.
doctor_looks() {
    output=$(holdfast doctor) && return 1 # 1, or 2: a server for tests may be without fsync
    nothing_yet doctor "$1"
    says "not created yet"
    says "connections: "
}

nothing_yet() {
    [[ -z $("$2") ]] || { echo "$1 made: $("$2" | xargs)"; return 1; }
}

pg_looks() { looks pg_things; }
maria_looks() { looks maria_things; }

# Modes that cannot list anything: the doctor alone looks.
pg_doctor() { doctor_looks pg_things; }
maria_doctor() { doctor_looks maria_things; }

# ---- tests

@test "PostgreSQL: looking creates nothing" { within postgres -- pg_looks; }
@test "PostgreSQL: looking creates nothing, mode=session" { within postgres -m session -- pg_doctor; }
@test "MariaDB: looking creates nothing" { within mariadb -- maria_looks; }
@test "MariaDB: looking creates nothing, mode=row" { within mariadb -m row -- maria_doctor; }
