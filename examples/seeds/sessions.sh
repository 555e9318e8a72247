# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# sessions.sh: to be sourced by the examples of databases. Several sessions of psql or mariadb at once, to which statements are
# given one by one: the order in which things happen is the order in which they are written.
#
#   CLIENT          how to get into a database that may be written to: "psql -h HOST DATABASE", "mariadb -h HOST DATABASE"
#   HOLDFAST_STORE  a store of Holdfast, the same database for instance
#
#   session A       a new session
#   sql A STATEMENT      what it answers, errors too
#   changed A UPDATE     how many rows it has changed
#   start A STATEMENT    begin a statement that will wait ...
#   waits A              ... now it does; the server says so
#   answer A             ... and this is its answer
#   hang_up A            the session's process dies
set -u
: "${CLIENT:?how to reach a database: psql ... or mariadb ...}"
: "${HOLDFAST_STORE:?a store of Holdfast}"
read -ra client <<<"$CLIENT"
kind=$(basename "${client[0]}")
case $kind in
psql)
    client+=(-X -q -A -t)
    own_id='pg_backend_pid()'
    end_mark='\echo -- end --' # not a statement: those fail in a transaction that has failed
    waiting='SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = '"'Lock'"' AND pid ='
    ;;
mariadb)
    client+=(-N -B -n --force)
    own_id='connection_id()'
    end_mark="SELECT '-- end --';"
    waiting='SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = '"'LOCK WAIT'"' AND trx_mysql_thread_id ='
    ;;
*)
    echo "CLIENT is neither psql nor mariadb" >&2
    exit 1
    ;;
esac
work=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-seed.XXXXXX") || exit 1
declare -A pid in out id

tidy_up() {
    local name
    for name in "${!pid[@]}"; do kill "${pid[$name]}" 2>/dev/null; done
    wait
    rm -rf "$work"
}
trap tidy_up EXIT

fail() { echo "not as expected: $*" >&2; exit 1; }
part() { printf '\n%s\n' "$*"; }
note() { printf '  %s\n' "$*"; }
is() { [ "$1" = "$2" ] || fail "'$1' instead of '$2'"; }

session() {
    local to from
    mkfifo "$work/$1.in" "$work/$1.out"
    "${client[@]}" <"$work/$1.in" >"$work/$1.out" 2>&1 &
    pid[$1]=$!
    exec {to}>"$work/$1.in" {from}<"$work/$1.out"
    in[$1]=$to
    out[$1]=$from
    rm "$work/$1.in" "$work/$1.out"
    id[$1]=$(sql "$1" "SELECT $own_id")
}

start() { printf '%s;\n%s\n' "$2" "$end_mark" >&"${in[$1]}"; }

answer() {
    local line
    while IFS= read -r -t 120 -u "${out[$1]}" line; do
        [ "$line" = "-- end --" ] && return
        printf '%s\n' "$line"
    done
    fail "no answer to $1"
}

sql() { start "$1" "$2" && answer "$1"; }

changed() {
    if [ "$kind" = psql ]; then
        sql "$1" "WITH changed AS ($2 RETURNING 1) SELECT count(*) FROM changed"
    else
        sql "$1" "$2; SELECT row_count()"
    fi
}

# Another session, `watcher`, asks the server until it is so.
waits() {
    [ -n "${pid[watcher]:-}" ] || session watcher
    until [ "$(sql watcher "$waiting ${id[$1]}")" = 1 ]; do sleep 0.02; done
}

hang_up() {
    kill "${pid[$1]}"
    wait "${pid[$1]}" 2>/dev/null
    unset "pid[$1]"
}

# What the server says to a statement that must fail.
error_of() { sql "$1" "$2" | grep '^ERROR' || fail "no error: $2"; }
