#!/usr/bin/env bats
# lock-sql: the statements, without a server. test/sql/txn_lock.c runs them.
load helper

@test "lock-sql: an advisory lock on PostgreSQL, a row on MariaDB and with mode=row" {
    exits 0 holdfast lock-sql "it's" -S postgresql://nowhere.invalid/db
    [[ $output =~ ^"SELECT 1 FROM pg_catalog.pg_advisory_xact_lock('"-?[0-9]+"'::int8);"$ ]]
    same=$(holdfast lock-sql "it's" -S 'postgresql://elsewhere.invalid/other?mode=session')
    [[ $same == "$output" ]] # the key is of the name, the schema and the prefix
    exits 0 holdfast lock-sql "it's" -n -s -S postgresql://nowhere.invalid/db
    says pg_try_advisory_xact_lock_shared
    exits 0 holdfast lock-sql "it's" -S 'postgresql://nowhere.invalid/db?mode=row'
    says "decode('69742773', 'hex') FOR UPDATE;"
    exits 0 holdfast lock-sql "it's" -S mysql://nowhere.invalid/db
    says "WHERE name = X'69742773' FOR UPDATE;"
    exits 0 holdfast lock-sql "it's" --json -S mysql://nowhere.invalid/db
    jq -e '.name == "it\u0027s" and (.sql | endswith(";\n"))' <<<"$output"
}

@test "lock-sql: what is refused is said, without the password" {
    exits 64 holdfast lock-sql -S postgresql://h/db
    exits 64 holdfast lock-sql x -s -x -S postgresql://h/db
    exits 78 holdfast lock-sql x
    exits 78 holdfast lock-sql x -S redis://h
    exits 78 holdfast lock-sql x -S 'mysql://u:sesame@h/db?mode=session'
    says "mode=row"
    [[ $output != *sesame* ]]
}
