#!/usr/bin/env bats
# What is the same on every server: inspection creates nothing, and what a command inherits. Each test runs inside a
# program that has a server of its own: `within PROGRAM OPTION... -- FUNCTION`.
load helper

within() {
    local server=$1 options=()
    shift
    while [[ $1 != -- ]]; do options+=("$1"); shift; done
    export dir
    # shellcheck disable=SC2016 # for the inner shell
    "$HOLDFAST_BUILD/bin/test/with_server" "$server" "${options[@]}" bash -c '
        source "$HOLDFAST_SOURCE/test/cli/helper.bash"
        source <(sed -n "/^# ---- inside/,/^# ---- tests/p" "$0")
        begun=()
        trap "kill -KILL \"\${begun[@]}\" 2>/dev/null || true" EXIT
        export HOLDFAST_STORE=${HOLDFAST_TEST_URL//"{id}"/x}
        set -e
        "$1"' "$BATS_TEST_FILENAME" "$2" 3>&-
}

# ---- inside

# The objects in a database that were added since the start.
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

# looks THINGS: each inspecting verb, on a server with no store; THINGS prints what exists, which is nothing before and
# after. Then a lock creates it, and there is something to see.
looks() {
    local things=$1
    [[ -z $("$things") ]]
    for verb in "ls" "ls -1" "show job" "watch" "deadlocks"; do
        # shellcheck disable=SC2086 # words
        timeout 60 holdfast $verb >"$dir/looked" 2>"$dir/said" || { cat "$dir/said"; return 1; }
        nothing_yet "$verb" "$things"
        grep -qE "^holdfast: no store yet at (postgresql|mariadb)://" "$dir/said" || { echo "$verb:"; cat "$dir/said"; return 1; }
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

# Key-value servers have nothing that represents an empty store, except the cluster key of Redlock's nodes.
redis_things() {
    local nodes=${HOLDFAST_STORE#*://} node
    nodes=${nodes%%[/?]*}
    for node in ${nodes//,/ }; do redis-cli -h "${node%:*}" -p "${node##*:}" --scan; done
}

redlock_looks() {
    nothing_yet redis redis_things
    exits 0 holdfast ls
    says "no store yet at redlock://"
    exits 1 holdfast doctor
    says "not created yet"
    holdfast doctor --json | jq -e '.level == "warning" and .engine == "redlock" and .findings[0].level == "warning"'
    nothing_yet "a look" redis_things
    exits 0 holdfast run job -- true
    exits 0 holdfast ls -1
    [[ -z $output ]]
}

redis_looks() {
    for verb in ls "show job" deadlocks doctor; do
        # shellcheck disable=SC2086 # words
        holdfast $verb >/dev/null || [[ $verb == doctor ]]
        nothing_yet "$verb" redis_things
    done
}

# A password from the environment is not passed on to the command, nor shown by /proc. $1: a URL's parameter.
env_is_clean() {
    local place=${HOLDFAST_STORE#*@}
    place=${place%%\?*}
    # shellcheck disable=SC2016 # for the inner shell
    PW=sesame HOLDFAST_STORE="redis://$place?$1" holdfast run job -- sh -c '
        echo "PW is ${PW-gone}"; tr "\0" "\n" </proc/$PPID/environ; env' >"$dir/environment"
    grep -qx "PW is gone" "$dir/environment" || { cat "$dir/environment"; return 1; }
    ! grep -a sesame "$dir/environment"
}

env_is_left_clean() {
    unset HOLDFAST_TEST_URL
    env_is_clean password_env=PW
    env_is_clean %70assword_env=PW
    env_is_clean '%70assword%5Fenv=P%57'
    # shellcheck disable=SC2016 # for the inner shell
    holdfast run job -- sh -c 'tr "\0" "\n" </proc/$PPID/environ; env' >"$dir/environment" # its URL has the password
    ! grep -a "^HOLDFAST_STORE=.*sesame" "$dir/environment"
}

# Descriptors that a command inherits: the same as without us, plus the one that HOLDFAST_RUN_FD names.
inherits() {
    # shellcheck disable=SC2016 # for the inner shell
    local script='
        i=0
        while [ $i -lt 200 ]; do
            [ ! -e /proc/$$/fd/$i ] || [ $i = "${HOLDFAST_RUN_FD%%[!0-9]*}" ] || echo "$i is $(readlink /proc/$$/fd/$i)"
            i=$((i + 1))
        done'
    sh -c "$script" >"$dir/without"
    cp "$dir/without" "$dir/before"
    holdfast run job -- sh -c "$script" >"$dir/without"
    diff "$dir/before" "$dir/without"
}

# Modes that cannot list anything: only the doctor inspects.
pg_doctor() { doctor_looks pg_things; }
maria_doctor() { doctor_looks maria_things; }

# Who could get the password? A server on this machine is the right one; one that the URL names elsewhere may not be, although its address
# is the same here.
pg_password() {
    output=$(holdfast doctor) && return 1
    grep -E "^fine +password: it goes to this server alone" <<<"$output"
    output=$(holdfast doctor "${HOLDFAST_STORE/127.0.0.1/db.example}&hostaddr=127.0.0.1") && return 1
    grep -E "^warning +password: any server at this address" <<<"$output"
    says "sslmode=verify-full"
}

pg_password_file() {
    local store="postgresql://app@127.0.0.1:$HOLDFAST_TEST_PORT/test?password_file=$dir/pw"
    echo sesame >"$dir/pw"
    chmod 600 "$dir/pw"
    output=$(holdfast doctor "$store") && return 1
    ! says "password_file: " >/dev/null
    chmod 640 "$dir/pw"
    output=$(holdfast doctor "$store") && return 1
    grep -E "^warning +password_file: .*$dir/pw" <<<"$output"
}

maria_password() {
    output=$(holdfast doctor) || true
    grep -E "^fine +password: only a challenge" <<<"$output"
}

# A role that may not create the tables: the doctor says what the first lock meets, and its remedy helps.
pg_admin() { psql -h "$HOLDFAST_TEST_SOCKET" -p "$HOLDFAST_TEST_PORT" -U postgres -d "$(database)" -qAtX -v ON_ERROR_STOP=1 "$@"; }
pg_no_create() {
    exits 77 holdfast run -n job -- true
    exits 2 holdfast doctor "$HOLDFAST_STORE"
    says "bad      tables: public.hfx_... are not created yet, and this user may not create them (no CREATE on the schema public): let"
    says "holdfast doctor --sql"
    says "verdict: bad."
    exits 2 holdfast doctor "$HOLDFAST_STORE&schema=nowhere"
    says "there is no schema nowhere"
    exits 2 holdfast doctor "$HOLDFAST_STORE&create=off"
    says "and create=off: run the SQL"
    holdfast doctor --sql "$HOLDFAST_STORE" | pg_admin
    exits 77 holdfast run -n job -- true
    exits 2 holdfast doctor "$HOLDFAST_STORE"
    says "fine     tables: public.hfx_... are there"
    says "bad      rights: this user may not do all that locks need: SELECT on public.hfx_names is missing"
    pg_admin -c "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO few; GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO few"
    exits 0 holdfast run -n job -- true
    holdfast doctor --json "$HOLDFAST_STORE" | jq -e '[.findings[] | select(.level == "bad" and (.topic | IN("tables", "rights")))] == []'
}
maria_no_create() {
    mariadb -S "$HOLDFAST_TEST_SOCKET" -u root -e "GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE, CREATE ROUTINE, ALTER ROUTINE ON test.* TO few"
    exits 77 holdfast run -n job -- true
    exits 2 holdfast doctor "$HOLDFAST_STORE"
    says "this user may not create them (no CREATE on the database test)"
    says "verdict: bad."
    mariadb -S "$HOLDFAST_TEST_SOCKET" -u root -e "GRANT CREATE ON test.* TO few"
    holdfast doctor --json "$HOLDFAST_STORE" | jq -e '[.findings[] | select(.topic == "tables") | .level] == ["warning"]'
    exits 0 holdfast run -n job -- true
}

# Which versions are which is in test/etcd/parts.c; here that it is asked, of a member that is in the warned range.
etcd_version() {
    [[ $(etcd --version) == *"etcd Version: 3.4.2"* ]] || return 0
    exits 1 holdfast doctor
    grep -E "^warning +version: .*: etcd 3\.4\.2[0-9]: .*use 3\.4\.31, 3\.5\.13 or later" <<<"$output"
    grep -E "^note +cluster: 1 member: " <<<"$output"
    exits 1 holdfast -q doctor
    ! grep -E "^(note|fine)" <<<"$output"
    holdfast doctor --json | jq -e '[.findings[] | select(.note) | .level] | unique == ["fine"]'
}

# ---- tests

@test "PostgreSQL: looking creates nothing" { within postgres -- pg_looks; }
@test "PostgreSQL: looking creates nothing, mode=session" { within postgres -m session -- pg_doctor; }
@test "MariaDB: looking creates nothing" { within mariadb -- maria_looks; }
@test "MariaDB: looking creates nothing, mode=row" { within mariadb -m row -- maria_doctor; }
@test "Redis: looking creates nothing" { within redis -- redis_looks; }
@test "Redlock: looking creates nothing" { within redis -R 3 -- redlock_looks; }
@test "PostgreSQL: doctor says that this user may not create the tables, or not use them" { within postgres -u - -- pg_no_create; }
@test "MariaDB: doctor says that this user may not create the tables" { within mariadb -u - -- maria_no_create; }
@test "etcd: doctor judges the version" { within etcd -- etcd_version; }
@test "PostgreSQL: doctor warns of a password that could be asked for" { within postgres -p -- pg_password; }
@test "MariaDB: doctor says that only a challenge is answered" { within mariadb -p -- maria_password; }
@test "a command inherits none of our descriptors" {
    # shellcheck disable=SC1090 # the part above
    source <(sed -n "/^# ---- inside/,/^# ---- tests/p" "$BATS_TEST_FILENAME")
    inherits 3>&-
    within redis -- inherits
    within redis -R 3 -- inherits
    within memcached -- inherits
    within etcd -- inherits
    within zookeeper -- inherits
    within postgres -- inherits
    within mariadb -- inherits
}
@test "a password_env is taken away, however its name is written" { within redis -p -- env_is_left_clean; }
@test "doctor warns of a password_file that others may read" { within postgres -p -- pg_password_file; }

@test "a fifo, a device or a directory as password_file is refused, and nobody waits" {
    mkfifo fifo
    for url in redis://127.0.0.1:1? etcd://u@127.0.0.1:1? memcached://u@127.0.0.1:1? postgresql://127.0.0.1:1/x? \
        mariadb://127.0.0.1:1/x? "redis+sentinel://127.0.0.1:1/m?sentinel_"; do
        for file in "$dir/fifo" /dev/zero "$dir"; do
            exits 77 timeout 20 holdfast -S "${url}password_file=$file" ls
            says "password_file' at byte"
            says "does not name a regular file"
        done
    done
}

# A fake etcd with arbitrary answers. Its port is in $port.
liar() {
    cat >liar.py <<'END'
import socket, threading

def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

def header(name, value):  # HPACK, a literal that is not indexed
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value

REFUSAL = (b"\x88" + header(b"content-type", b"application/grpc") + header(b"grpc-status", b"7") +
           header(b"grpc-message", b"x%0Aholdfast: FORGED LINE %C2%9B31m %E2%80%AE%1B[2J"))

def serve(client):
    stream = client.makefile("rb")
    stream.read(24)  # the preface
    client.sendall(frame(4, 0, 0))
    while head := stream.read(9):
        payload, number = stream.read(int.from_bytes(head[:3], "big")), int.from_bytes(head[5:], "big")
        if head[3] == 4 and not head[4] & 1:
            client.sendall(frame(4, 1, 0))  # SETTINGS: acknowledged
        elif head[3] == 6 and not head[4] & 1:
            client.sendall(frame(6, 1, 0, payload))  # PING
        elif head[3] == 1:
            client.sendall(frame(1, 5, number, REFUSAL))  # HEADERS: all that there is

server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
END
    begin python3 liar.py
    eventually test -s "$dir/out"
    port=$(cat "$dir/out")
}

@test "a server's words: one line, and nothing that a terminal obeys" {
    liar
    for verb in ls doctor "lock job"; do
        # shellcheck disable=SC2086 # words
        holdfast -S "etcd://127.0.0.1:$port" $verb 2>"$dir/said" || true
        grep -q FORGED "$dir/said" || { cat -v "$dir/said"; return 1; }
        [[ $(wc -l <"$dir/said") == 1 ]] || { cat -v "$dir/said"; return 1; }
        ! LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f-\xff]' "$dir/said" || { cat -v "$dir/said"; return 1; }
    done
}
