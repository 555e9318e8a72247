/* SPDX-License-Identifier: MIT */
/*
 * A lock inside one's own transaction, on PostgreSQL: it is taken on the program's own connection, and ends with the transaction.
 * There is no lease to renew and none to give back, and what the transaction has written and the lock end together. Programs that
 * lock the same name by a store with mode=session are kept out meanwhile.
 *
 *   transaction CONNECTION STORE      postgresql://app@db/shop 'postgresql://app@db/shop?mode=session'
 */
#include <holdfast/primitives.h>

#include "../example.h"

#include <libpq-fe.h>

#define NAME "example/goods"

static PGconn *dial(const char *where)
{
    PGconn *db = PQconnectdb(where);

    if (PQstatus(db) != CONNECTION_OK)
        fprintf(stderr, "%s", PQerrorMessage(db));
    expect(PQstatus(db) == CONNECTION_OK, "a connection of our own");
    return db;
}

/* One statement, for hf_sql_lock() and for ourselves. 0: it was done. */
static int run(const char *sql, int64_t *ret_number, void *arg)
{
    PGresult *result = PQexec(arg, sql);
    ExecStatusType status = PQresultStatus(result);

    if (status == PGRES_TUPLES_OK && PQntuples(result) > 0 && ret_number)
        *ret_number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK;
}

static void sql(PGconn *db, const char *text)
{
    int failed = run(text, NULL, db);

    if (failed)
        fprintf(stderr, "%s", PQerrorMessage(db));
    expect(!failed, text);
}

/* Lock the name for the rest of the transaction, and before it reads anything. HF_BUSY: others have it. */
static hf_status lock(PGconn *db, const char *url, int64_t wait_ms)
{
    hf_sql_lock_request request = HF_SQL_LOCK_REQUEST_INIT;
    hf_status status;
    hf_error err;

    request.url = url; /* says which names these are; no store is opened */
    request.name = NAME;
    request.name_len = HF_CSTRING;
    request.wait_ms = wait_ms;
    request.run = run;
    request.run_arg = db;
    status = hf_sql_lock(&request, &err);
    if (status != HF_BUSY)
        must(status, &err);
    return status;
}

/* Does a lease of a store get in? */
static int lease_gets_in(hf_store *store)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease;
    hf_error err;
    hf_status status;

    request.name = NAME;
    request.name_len = HF_CSTRING;
    status = hf_acquire(store, &request, &lease, &err);
    if (status == HF_BUSY)
        return 0;
    must(status, &err);
    must(hf_release(lease, &err), &err);
    return 1;
}

int main(int argc, char **argv)
{
    PGconn *one, *other;
    hf_store *store;
    hf_error err;

    if (argc != 3)
        return fprintf(stderr, "usage: %s CONNECTION STORE\n", argv[0]), 64;
    one = dial(argv[1]);
    other = dial(argv[1]);
    must(hf_open(argv[2], NULL, &store, &err), &err);

    sql(one, "BEGIN");
    expect(lock(one, argv[2], HF_FOREVER) == HF_OK, "our transaction has it");
    sql(one, "SELECT 1"); /* ... what is to be done alone */

    sql(other, "BEGIN");
    expect(lock(other, argv[2], 0) == HF_BUSY, "another transaction is kept out, and may go on");
    expect(!lease_gets_in(store), "and so is a lease");
    printf("while the transaction is open, nobody else has the name\n");

    sql(one, "COMMIT"); /* nothing else is to be done */
    expect(lock(other, argv[2], 0) == HF_OK, "the next one");
    sql(other, "ROLLBACK");
    expect(lease_gets_in(store), "a lease, now that no transaction has it");
    printf("it was freed by COMMIT, and by ROLLBACK\n");

    must(hf_close(store, 0), &err);
    PQfinish(one);
    PQfinish(other);
    return 0;
}
