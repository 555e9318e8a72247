/* SPDX-License-Identifier: MIT */
/*
 * One statement, on a connection of the pool. A statement that the server asks to repeat (a
 * deadlock that it resolved, a serialization failure, a lock wait timeout) is repeated until the
 * deadline: that is never a failure of the lock. So is a statement whose connection was lost, if a
 * second copy does no harm.
 */
#include "engine/sql/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <time.h>

#define UNSENT_MAX \
    3 /* connections that were dead before anything was sent: more than a restart explains */

/* A short random pause: after a deadlock both sides would collide again. */
static void pause_a_little(unsigned tries)
{
    long most_us = tries < 6 ? 500L << tries : 32000;
    struct timespec t = { .tv_nsec = (long)(hfi_random_u64() % (uint64_t)most_us) * 1000 };

    nanosleep(&t, NULL);
}

static hf_status take(struct sql_store *store, struct sql_request *r,
                      struct sql_connection **ret_connection)
{
    hf_status status = sql_take(store, r->deadline_ms, ret_connection, &r->trouble.error);

    if (status == HF_OK && r->claim && !sql_stale_reserve(*ret_connection)) {
        sql_give(*ret_connection);
        status = hfi_error_memory(&r->trouble.error);
    }
    return status;
}

/* An earlier copy may have been executed: so the outcome is unknown, whatever this copy did. */
static hf_status judge(struct sql_request *r, hf_status status)
{
    if (r->copied && status != HF_OK) {
        r->trouble.error.status = HF_UNKNOWN;
        return HF_UNKNOWN;
    }
    return status;
}

/* The server refused. HF_OK: try again. */
static hf_status refused(struct sql_store *store, struct sql_request *r, unsigned tries)
{
    if (r->trouble.no_table && store->conf.create && tries == 0) {
        atomic_store(&store->ready, -1); /* a table or routine of ours has been removed */
        return HF_OK;
    }
    if (r->trouble.again && hfi_now_ms() < sql_until_ms(r->deadline_ms)) {
        pause_a_little(tries);
        return HF_OK;
    }
    return r->trouble.again ? HF_UNAVAILABLE : r->trouble.status;
}

enum sql_outcome sql_send(struct sql_connection *connection, enum sql_call call,
                          const struct sql_value *params, uint32_t count, int64_t deadline_ms,
                          struct sql_rows *ret_rows, struct sql_trouble *trouble)
{
    enum sql_outcome outcome = connection->store->driver->call(connection, call, params, count,
                                                               deadline_ms, ret_rows, trouble);

    if (outcome != SQL_DONE || sql_answer_fits(call, count, ret_rows))
        return outcome;
    trouble->status = sql_odd(connection, sql_call_name(call), ret_rows, &trouble->error);
    return SQL_MAYBE;
}

hf_status sql_call(struct sql_store *store, struct sql_request *r)
{
    int64_t limit_ms = hfi_after_ms(hfi_now_ms(), store->conf.op_ms);
    struct sql_connection *connection;
    unsigned unsent = 0;

    if (r->deadline_ms > limit_ms)
        r->deadline_ms = limit_ms;
    for (unsigned tries = 0;; tries++) {
        hf_status status;
        enum sql_outcome outcome;
        bool odd;

        r->trouble = (struct sql_trouble){ .status = HF_OK };
        status = take(store, r, &connection);
        if (status != HF_OK)
            return judge(r, status);
        r->sent_ms = hfi_now_ms();
        connection->contended = r->contended;
        outcome = sql_send(connection, r->call, r->params, r->count, r->deadline_ms, &r->rows,
                           &r->trouble);
        if (outcome == SQL_MAYBE && r->claim)
            sql_stale_add(connection, r->claim);
        switch (outcome) {
        case SQL_DONE:
            atomic_store_explicit(&store->answered_ms, r->sent_ms, memory_order_relaxed);
            sql_give(connection);
            return HF_OK;
        case SQL_REFUSED:
            status = refused(store, r, tries);
            sql_give(connection);
            if (status != HF_OK)
                return judge(r, status);
            break;
        case SQL_UNSENT:
            sql_give(connection);
            if (++unsent > UNSENT_MAX)
                return judge(r, r->trouble.status);
            break;
        case SQL_MAYBE:
            sql_give(connection);
            odd = r->trouble.status == HF_CORRUPT; /* repeating would give the same answer */
            if (odd && sql_only_reads(r->call))
                return HF_CORRUPT;
            r->copied = true;
            if (odd || !r->again || hfi_now_ms() >= sql_until_ms(r->deadline_ms))
                return judge(r, HF_UNKNOWN);
            break;
        }
    }
}

hf_status sql_text(struct sql_connection *connection, const char *sql, int64_t deadline_ms,
                   struct sql_rows *ret_rows, struct sql_trouble *trouble)
{
    for (unsigned tries = 0;; tries++) {
        enum sql_outcome outcome =
            connection->store->driver->text(connection, sql, deadline_ms, ret_rows, trouble);

        if (outcome == SQL_DONE)
            return HF_OK;
        if (outcome == SQL_MAYBE)
            return trouble->error.status = HF_UNKNOWN;
        if (outcome == SQL_UNSENT || !trouble->again || connection->in_txn ||
            hfi_now_ms() >= deadline_ms)
            return trouble->status;
        pause_a_little(tries);
    }
}
