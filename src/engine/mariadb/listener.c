/* SPDX-License-Identifier: MIT */
/*
 * The listener: a connection that sleeps in the server, in the procedure ~bell, until a client that granted or broke something of
 * this client ends its sleep (sql/ring.sql). The call stays under way while next_notice() returns
 * for other reasons, and is continued the next time. When it ends it returns all grants that are
 * not renewed. We remember which of them we have reported, and tell the server when we go to sleep
 * again.
 */
#include "engine/mariadb/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

#include <mysqld_error.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SLEEP_S      60
#define LOCK_GRACE_S 3 /* time for our former listener, whose connection is killed, to end */

enum stage { STAGE_NONE, STAGE_QUERY, STAGE_RESULT, STAGE_NEXT };

/* ---- open ----------------------------------------------------------------------------------------- */

static bool ask(struct sql_connection *listener, const char *sql, int64_t deadline_ms,
                int64_t *ret_number, hf_error *err)
{
    struct sql_trouble trouble;
    struct sql_rows rows;

    if (maria_text(listener, sql, deadline_ms, &rows, &trouble) != SQL_DONE) {
        if (err)
            *err = trouble.error;
        return false;
    }
    *ret_number = sql_int(&rows, 0, 0); /* KILL answers without rows */
    sql_rows_free(&rows);
    return true;
}

/* Take the user lock by which other clients find us. A lost listener of ours may still have it, if
 * the server has not noticed the loss yet. */
static hf_status be_found(struct sql_connection *listener, int64_t deadline_ms, hf_error *err)
{
    unsigned long long client = (unsigned long long)listener->store->client;
    int64_t got, holder;
    char sql[96];

    snprintf(sql, sizeof sql, "SELECT GET_LOCK('holdfast.%llx', 0)", client);
    if (!ask(listener, sql, deadline_ms, &got, err))
        return HF_UNAVAILABLE;
    if (got == 1)
        return HF_OK;
    snprintf(sql, sizeof sql, "SELECT IS_USED_LOCK('holdfast.%llx')", client);
    if (!ask(listener, sql, deadline_ms, &holder, err))
        return HF_UNAVAILABLE;
    if (holder > 0) {
        snprintf(sql, sizeof sql, "KILL %lld", (long long)holder);
        ask(listener, sql, deadline_ms, &got, NULL);
    }
    snprintf(sql, sizeof sql, "SELECT GET_LOCK('holdfast.%llx', %d)", client, LOCK_GRACE_S);
    if (listener->dead || !ask(listener, sql, deadline_ms, &got, err) || got != 1)
        return hfi_error_set(err, HF_UNAVAILABLE, 0,
                             "an earlier listener connection of this client does not end");
    return HF_OK;
}

hf_status maria_listen(struct sql_store *store, int64_t deadline_ms,
                       struct sql_connection **ret_connection, hf_error *err)
{
    struct sql_connection *listener;
    hf_status status = maria_open(store, deadline_ms, &listener, err);

    if (status != HF_OK)
        return status;
    status = be_found(listener, deadline_ms, err);
    if (status != HF_OK) {
        maria_close(listener);
        return status;
    }
    *ret_connection = listener;
    return HF_OK;
}

/* ---- what it hears --------------------------------------------------------------------------------- */

static bool is_known(const struct maria_connection *native, const unsigned char *owner)
{
    for (uint32_t i = 0; i < native->known_count; i++)
        if (memcmp(native->known[i], owner, HFI_OWNER_LEN) == 0)
            return true;
    return false;
}

static void hear_one(struct maria_connection *native, const struct sql_rows *rows, uint32_t row,
                     unsigned char *known)
{
    const struct sql_value *number = sql_at(rows, row, 1), *owner = sql_at(rows, row, 5);
    const struct sql_value *words = sql_at(rows, row, 6);
    struct sql_message *message = &native->queue[native->queued];
    char what = sql_letter(rows, row, 0);

    if (rows->columns == 5) /* ~bell: there are no letters */
        owner = number;
    memset(known, 0, HFI_OWNER_LEN);
    if (number->len != HFI_OWNER_LEN || owner->len != HFI_OWNER_LEN)
        return;
    memcpy(known, number->bytes, HFI_OWNER_LEN);
    if (is_known(native, number->bytes))
        return;
    *message = (struct sql_message){
        .kind = what == 'L'           ? SQL_NOTICE_LOST
                : strchr("WUA", what) ? SQL_NOTICE_WANTED
                                      : SQL_NOTICE_GRANT,
        .token = (uint64_t)sql_int(rows, row, 2),
        .tokens = (uint32_t)sql_int(rows, row, 3),
        .window_ms = sql_int(rows, row, 4),
        .others_wait = what == 'g',
        .wanted = what == 'W'   ? HFI_WANTED_YES
                  : what == 'U' ? HFI_WANTED_NO
                                : HFI_WANTED_ASKED,
    };
    memcpy(message->owner, owner->bytes, HFI_OWNER_LEN);
    if (what == 'A' && words->len <= HF_LABEL_MAX)
        memcpy(message->text, words->len ? words->bytes : "", words->len);
    native->queued++;
}

/* Take the list of grants and broken leases: new ones go into the queue, and all of them are known
 * from now on. */
static bool take_notice(struct maria_connection *native, MYSQL_RES *result)
{
    struct sql_rows rows = { 0 };
    unsigned char(*known)[HFI_OWNER_LEN];

    if (!maria_rows(result, &rows) ||
        (!sql_fits(&rows, "lbtcm", 0, UINT32_MAX) && !sql_fits(&rows, "lbtcmbb", 0, UINT32_MAX))) {
        sql_rows_free(&rows);
        return false;
    }
    hfi_free(native->queue);
    native->queued = native->told = 0;
    native->queue = hfi_calloc(rows.count + 1, sizeof *native->queue);
    known = hfi_calloc(rows.count + 1, sizeof *known);
    if (!native->queue || !known) {
        hfi_free(known);
        sql_rows_free(&rows);
        return false;
    }
    for (uint32_t i = 0; i < rows.count; i++)
        hear_one(native, &rows, i, known[i]);
    hfi_free(native->known);
    native->known = known;
    native->known_count = rows.count;
    sql_rows_free(&rows);
    return true;
}

/* ---- sleeping ---------------------------------------------------------------------------------------- */

/* Is this idle connection closed by the server? It may stay unnoticed for long, since the last one
 * used is taken first. With the lock. */
static bool is_idle_and_gone(struct sql_store *store, const struct sql_connection *connection)
{
    for (struct sql_connection *idle = store->idle; idle; idle = idle->next)
        if (idle == connection)
            return !maria_alive(idle);
    return false; /* it is in use: its own thread finds out */
}

/* Find another connection of ours, whose user lock the listener will wait for; returns its number,
 * 0: none. A connection that is gone has no lock: waiting for it would return at once. */
static int64_t find_anchor(struct sql_connection *listener)
{
    struct sql_store *store = listener->store;
    int64_t since = 0;

    pthread_mutex_lock(&store->lock);
    for (struct sql_connection *connection = store->all; connection;
         connection = connection->all_next)
        if (connection != listener && !is_idle_and_gone(store, connection))
            since = connection->since;
    pthread_mutex_unlock(&store->lock);
    return since;
}

static bool make_statement(struct sql_connection *listener, bool peek)
{
    struct maria_connection *native = listener->native;
    int64_t anchor = find_anchor(listener);
    char text[96], hex[2 * HFI_OWNER_LEN + 1];

    maria_begin(native);
    snprintf(text, sizeof text, "CALL `%s%s`(%lld,'", listener->store->conf.prefix,
             atomic_load(&listener->store->watches) ? "hear" : "bell",
             (long long)listener->store->client);
    maria_add(native, text, strlen(text));
    for (uint32_t i = 0; i < native->known_count; i++) {
        hfi_hex(native->known[i], HFI_OWNER_LEN, hex);
        maria_add(native, hex, strlen(hex));
        maria_add(native, ",", 1);
    }
    snprintf(text, sizeof text, "','holdfast.link.%llx',%d)", (unsigned long long)anchor,
             peek ? 0 : SLEEP_S);
    maria_add(native, text, strlen(text));
    return !native->full;
}

/* The sleep ended with an error: an interrupt is a notification. */
static bool was_notified(MYSQL *mysql)
{
    return mysql_errno(mysql) == ER_QUERY_INTERRUPTED;
}

enum step { STEP_WAIT, STEP_WOKEN, STEP_NOTIFIED, STEP_LOST };

/* Begin or continue the call, step by step, until one has to wait. `ready`: the event for which it
 * waited. */
static enum step go_on(struct sql_connection *listener, int ready)
{
    struct maria_connection *native = listener->native;
    MYSQL *mysql = &native->mysql;
    MYSQL_RES *result = NULL;
    int failed = 0;

    for (;; ready = 0) {
        switch (native->stage) {
        case STAGE_NONE:
            native->stage = STAGE_QUERY;
            native->asleep = true;
            native->waiting = mysql_real_query_start(&failed, mysql, native->text, native->len);
            break;
        case STAGE_QUERY:
            native->waiting = mysql_real_query_cont(&failed, mysql, ready);
            break;
        case STAGE_RESULT:
            native->waiting = ready ? mysql_store_result_cont(&result, mysql, ready)
                                    : mysql_store_result_start(&result, mysql);
            break;
        case STAGE_NEXT:
            native->waiting = ready ? mysql_next_result_cont(&failed, mysql, ready)
                                    : mysql_next_result_start(&failed, mysql);
            break;
        }
        if (native->waiting)
            return STEP_WAIT;
        if (native->stage == STAGE_RESULT && result) {
            bool heard = take_notice(native, result);

            mysql_free_result(result);
            result = NULL;
            if (!heard)
                return STEP_LOST; /* no memory: a new listener starts from the beginning */
        }
        if (failed > 0 || mysql_errno(mysql)) {
            native->stage = STAGE_NONE;
            native->asleep = false;
            return was_notified(mysql) ? STEP_NOTIFIED : STEP_LOST;
        }
        if (native->stage == STAGE_QUERY || native->stage == STAGE_NEXT) {
            native->stage = STAGE_RESULT;
            if (failed == 0)
                continue;
        }
        if (failed == 0 && mysql_more_results(mysql)) {
            native->stage = STAGE_NEXT;
            continue;
        }
        native->stage = STAGE_NONE;
        native->asleep = false;
        return STEP_WOKEN;
    }
}

static hf_status lost(struct sql_connection *listener, hf_error *err)
{
    struct maria_connection *native = listener->native;
    int number = (int)mysql_errno(&native->mysql);
    hf_status status =
        hfi_error_set(err, HF_UNAVAILABLE, number, "the listener's connection is lost: %s",
                      number ? mysql_error(&native->mysql) : "no memory");

    maria_cut(listener);
    return status;
}

hf_status maria_next_notice(struct sql_connection *listener, int kick, int64_t until_ms,
                            struct sql_message *ret_message, hf_error *err)
{
    struct maria_connection *native = listener->native;
    enum step step = STEP_WAIT;
    uint64_t count;
    int ready;

    *ret_message = (struct sql_message){ .kind = SQL_NOTICE_NONE };
    if (native->told < native->queued) {
        *ret_message = native->queue[native->told++];
        return HF_OK;
    }
    if (!native->asleep) {
        if (!make_statement(listener, false))
            return hfi_error_memory(err);
        step = go_on(listener, 0);
    }
again:
    while (step == STEP_WAIT) {
        ready = maria_poll(&native->mysql, native->waiting, kick, until_ms);
        if (!ready) {
            if (read(kick, &count, sizeof count) < 0)
                count = 0; /* it was the time */
            return HF_OK;
        }
        step = go_on(listener, ready);
    }
    if (step == STEP_NOTIFIED) { /* before it slept: nothing was told of why */
        if (!make_statement(listener, true))
            return hfi_error_memory(err);
        step = go_on(listener, 0);
        goto again;
    }
    if (step == STEP_LOST)
        return lost(listener, err);
    if (native->told < native->queued)
        *ret_message = native->queue[native->told++];
    else
        ret_message->kind = SQL_NOTICE_ANY;
    return HF_OK;
}
