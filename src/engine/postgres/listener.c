/* SPDX-License-Identifier: MIT */
/*
 * The listener: a connection that listens on the channel of this client, and naps while something is waited for
 * (sql/22_ring.sql): then whoever grants wakes it alone. Its advisory locks show to granting clients that we listen
 * (sql/23_turn.sql). They are shared: so a former listener of ours, whose loss the server has not noticed yet, does not block them.
 * What the functions say on the channel, or to one that naps (sql/23_turn.sql, sql/37_break.sql, sql/40_cells.sql):
 *
 *   G <owner> <token> <tokens> <window ms>     granted
 *   g <owner> <token> <tokens> <window ms>     granted, and others wait (WATCHED)
 *   L <owner> <token>                          broken
 *   W <owner>, U <owner>                       somebody waits for what it holds (WATCHED), nobody does any more
 *   A <owner> <text, in hex>                   somebody asks for it
 *   C <name of a cell, in hex>                 the cell has changed
 *
 * A nap is one statement; what it tells comes as INFO while it lasts. It may be cancelled at any place, and is then repeated.
 * Notifications come between naps. If a grant comes as one although we nap, its sender may not cancel our statements: from then on we
 * do not ask to be woken that way, until the next connection.
 */
#include "engine/postgres/internal.h"

#include "engine/sql/listener.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/random.h"
#include "util/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAP_MS    "500" /* it holds a snapshot: dead rows stay for that long */
#define NOTICE_MS 5     /* after a ring without a letter: a notification is about to come */
#define GONE_MS   "50"  /* how soon the server notices that a client is gone whose bell naps */

static void hear(void *arg, const PGresult *notice);

/* ---- open ---------------------------------------------------------------------------------------- */

/* The client's row gets this connection's pid: twice, because behind a pooler of transactions they differ. */
static hf_status become_bell(struct postgres_connection *c, int64_t deadline_ms,
                             struct sql_trouble *trouble)
{
    struct sql_store *store = c->base.store;
    int64_t bell = (int64_t)(hfi_random_u64() >> 2 | 1), pids[2] = { 0 };
    char sql[768], name[POSTGRES_NAME_MAX], nap[POSTGRES_NAME_MAX];
    struct sql_rows rows = { 0 };
    hf_status status = HF_OK;

    postgres_name(store, "bell_1", name, sizeof name);
    postgres_name(store, "nap_1", nap, sizeof nap);
    snprintf(sql, sizeof sql,
             "SET client_connection_check_interval = " GONE_MS ";"
             "PREPARE nap(int8) AS SELECT rings FROM %s(%" PRId64 ", $1, " NAP_MS ");"
             "SELECT pg_advisory_lock_shared(%" PRId64 ")::text, pg_advisory_lock_shared(%" PRId64
             ")::text; LISTEN \"%s%" PRId64 "\"",
             nap, store->client, store->client, bell, store->conf.prefix, store->client);
    status = sql_text(&c->base, sql, deadline_ms, &rows, trouble);
    sql_rows_free(&rows);
    snprintf(sql, sizeof sql, "SELECT %s(%" PRId64 ", %" PRId64 ")::int8", name, store->client,
             bell);
    for (int i = 0; i < 2 && status == HF_OK; i++) {
        status = sql_text(&c->base, sql, deadline_ms, &rows, trouble);
        if (status == HF_OK && !sql_fits(&rows, "i", 1, 1))
            status = trouble->status = sql_odd(&c->base, "bell", &rows, &trouble->error);
        pids[i] = sql_int(&rows, 0, 0);
        sql_rows_free(&rows);
    }
    c->naps = status == HF_OK && pids[0] == pids[1];
    return status;
}

hf_status postgres_listen(struct sql_store *store, int64_t deadline_ms,
                          struct sql_connection **ret_connection, hf_error *err)
{
    struct sql_trouble trouble = { .status = HF_OK };
    hf_status status = postgres_open(store, deadline_ms, ret_connection, err);
    struct postgres_connection *c;

    if (status != HF_OK)
        return status;
    c = (struct postgres_connection *)*ret_connection;
    status = become_bell(c, deadline_ms, &trouble);
    if (status != HF_OK) {
        if (trouble.no_table && store->conf.create) {
            atomic_store(&store->ready, -1); /* the next call makes it */
            status = HF_UNAVAILABLE;
        }
        hfi_error_set(err, status, trouble.error.native, "%s", trouble.error.text);
        postgres_close(*ret_connection);
        return status;
    }
    PQsetNoticeReceiver(c->base.native, hear, c);
    sql_listener_naps(store, c->naps);
    sql_listener_napping(store, false);
    return HF_OK;
}

/* ---- what it hears ---------------------------------------------------------------------------------- */

/* " 17", at most `max`. */
static bool take_number(const char **at, uint64_t max, uint64_t *ret_number)
{
    char *end;

    if ((*at)[0] != ' ' || (*at)[1] < '0' || (*at)[1] > '9')
        return false;
    errno = 0;
    *ret_number = strtoull(*at + 1, &end, 10);
    *at = end;
    return errno == 0 && *ret_number <= max;
}

/* "W owner", "U owner", "A owner text" */
static bool parse_wanted(const char *text, struct sql_message *ret_message)
{
    const char *at = text + 2 + 2 * (size_t)HFI_OWNER_LEN;
    size_t len;

    if (strlen(text) < 2 + 2 * (size_t)HFI_OWNER_LEN || text[1] != ' ' ||
        !hfi_unhex(text + 2, 2 * (size_t)HFI_OWNER_LEN, ret_message->owner, HFI_OWNER_LEN))
        return false;
    ret_message->kind = SQL_NOTICE_WANTED;
    ret_message->wanted = text[0] == 'W'   ? HFI_WANTED_YES
                          : text[0] == 'U' ? HFI_WANTED_NO
                                           : HFI_WANTED_ASKED;
    if (text[0] != 'A')
        return *at == 0;
    len = strlen(at) / 2;
    if (*at != ' ' || strlen(at) != 2 * len + 1 || len > HF_LABEL_MAX)
        return false;
    ret_message->text[len] = 0;
    return hfi_unhex(at + 1, 2 * len, ret_message->text, len);
}

/* "G owner token tokens window" or "L owner token" */
static bool parse_claim(const char *text, struct sql_message *ret_message)
{
    const char *at = text + 2 + 2 * (size_t)HFI_OWNER_LEN;
    uint64_t tokens, window_ms;

    if (strlen(text) < 2 + 2 * (size_t)HFI_OWNER_LEN || text[1] != ' ' ||
        !hfi_unhex(text + 2, 2 * (size_t)HFI_OWNER_LEN, ret_message->owner, HFI_OWNER_LEN) ||
        !take_number(&at, HFI_TOKEN_LIMIT, &ret_message->token))
        return false;
    ret_message->kind = SQL_NOTICE_LOST;
    if (text[0] == 'L')
        return *at == 0;
    ret_message->kind = SQL_NOTICE_GRANT;
    if (!take_number(&at, UINT32_MAX, &tokens) || !take_number(&at, HF_DURATION_MAX_MS, &window_ms))
        return false;
    ret_message->tokens = (uint32_t)tokens;
    ret_message->others_wait = text[0] == 'g';
    ret_message->window_ms = (int64_t)window_ms;
    return *at == 0;
}

static bool parse(const char *text, struct sql_message *ret_message)
{
    unsigned char name[HF_NAME_MAX];
    size_t len = strlen(text);
    uint64_t hash[2];
    struct sql_message m = { .kind = SQL_NOTICE_NONE };

    if (strchr("GgL", text[0])) {
        if (!parse_claim(text, &m))
            return false;
    } else if (strchr("WUA", text[0])) {
        if (!parse_wanted(text, &m))
            return false;
    } else if (strncmp(text, "C ", 2) == 0 && len % 2 == 0 && len / 2 - 1 <= sizeof name &&
               hfi_unhex(text + 2, len - 2, name, len / 2 - 1)) {
        m.kind = SQL_NOTICE_CELL;
        hfi_hash128(name, len / 2 - 1, hash);
        m.cell = hash[0];
    }
    *ret_message = m;
    return m.kind != SQL_NOTICE_NONE;
}

/* INFO "<number> <words>", while a nap lasts. */
static void hear(void *arg, const PGresult *notice)
{
    struct postgres_connection *c = arg;
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *text = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
    int64_t number;
    char *end;

    if (!c->napping || !severity || strcmp(severity, "INFO") != 0 || !text)
        return;
    number = strtoll(text, &end, 10);
    if (end == text || *end != ' ' || number <= c->told)
        return;
    c->told = number;
    c->unforgotten++;
    if (c->count == POSTGRES_LETTERS || !parse(end + 1, &c->letters[c->count]))
        c->missed = true;
    else
        c->count++;
}

/* A letter. ANY: some were missed, and a heartbeat finds out. */
static bool next_letter(struct postgres_connection *c, struct sql_message *ret_message)
{
    if (c->next < c->count) {
        *ret_message = c->letters[c->next++];
        return true;
    }
    c->next = c->count = 0;
    if (c->missed)
        ret_message->kind = SQL_NOTICE_ANY;
    c->missed = false;
    return ret_message->kind != SQL_NOTICE_NONE;
}

static bool next_notification(struct postgres_connection *c, struct sql_message *ret_message)
{
    PGnotify *notify;
    bool got = false;

    while (!got && (notify = PQnotifies(c->base.native))) {
        got = parse(notify->extra, ret_message);
        PQfreemem(notify);
    }
    if (got && ret_message->kind == SQL_NOTICE_GRANT && c->naps) {
        c->naps = false;
        sql_listener_naps(c->base.store, false);
    }
    return got;
}

/* ---- naps ------------------------------------------------------------------------------------------- */

static hf_status nap_lost(struct postgres_connection *c, const char *words, hf_error *err)
{
    char text[HF_ERROR_TEXT_MAX];

    c->base.dead = true;
    postgres_words(c->base.store, words, text, sizeof text);
    return hfi_error_set(err, HF_UNAVAILABLE, 0, "the listening connection is lost%s%s",
                         *text ? ": " : "", text);
}

/* Letters that we have are deleted now and then. If that is cancelled, or fails, the next time does it. */
static void forget_letters(struct postgres_connection *c)
{
    struct sql_store *store = c->base.store;
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_rows rows = { 0 };
    char sql[320], mail[POSTGRES_NAME_MAX];

    if (c->unforgotten < POSTGRES_LETTERS)
        return;
    postgres_name(store, "mail", mail, sizeof mail);
    snprintf(sql, sizeof sql, "DELETE FROM %s WHERE client = %" PRId64 " AND seq <= %" PRId64, mail,
             store->client, c->told);
    c->unforgotten = 0;
    (void)postgres_text(&c->base, sql, hfi_now_ms() + store->conf.op_ms, &rows, &trouble);
    sql_rows_free(&rows);
}

static hf_status begin_nap(struct postgres_connection *c, hf_error *err)
{
    PGconn *pg = c->base.native;
    char told[24];
    const char *const values[] = { told };
    int rc = -1;

    forget_letters(c);
    snprintf(told, sizeof told, "%" PRId64, c->told);
    if (!c->base.dead && PQsendQueryPrepared(pg, "nap", 1, values, NULL, NULL, 0))
        while ((rc = PQflush(pg)) == 1 && postgres_poll(pg, true, -1, hfi_now_ms() + 1000))
            ;
    if (rc != 0)
        return nap_lost(c, PQerrorMessage(pg), err);
    c->napping = c->looked = true;
    sql_listener_napping(c->base.store, true);
    return HF_OK;
}

/* Its answer is there. */
static hf_status end_nap(struct postgres_connection *c, hf_error *err)
{
    PGconn *pg = c->base.native;
    hf_status status = HF_OK;
    PGresult *result;

    while ((result = PQgetResult(pg))) {
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

        if (PQresultStatus(result) == PGRES_TUPLES_OK) {
            if (PQntuples(result) == 1 && strcmp(PQgetvalue(result, 0, 0), "0") != 0)
                c->rest_ms = hfi_now_ms() + NOTICE_MS;
        } else if (!state || strcmp(state, "57014") != 0) { /* it was not cancelled, ... */
            status = nap_lost(c, PQresultErrorMessage(result), err);
        }
        PQclear(result);
    }
    c->napping = false;
    sql_listener_napping(c->base.store, false);
    return status;
}

hf_status postgres_next_notice(struct sql_connection *listener, int kick, int64_t until_ms,
                               struct sql_message *ret_message, hf_error *err)
{
    struct postgres_connection *c = (struct postgres_connection *)listener;
    PGconn *pg = listener->native;
    hf_status status = HF_OK;
    uint64_t count;

    *ret_message = (struct sql_message){ .kind = SQL_NOTICE_NONE };
    while (status == HF_OK) {
        int64_t wake_ms = until_ms;

        if (next_letter(c, ret_message) || next_notification(c, ret_message))
            return HF_OK;
        if (!c->napping && ((c->naps && !c->looked) || sql_waits_need_nap(listener->store))) {
            if (hfi_now_ms() >= c->rest_ms) {
                status = begin_nap(c, err);
                continue;
            }
            wake_ms = c->rest_ms < until_ms ? c->rest_ms : until_ms;
        }
        if (!postgres_poll(pg, false, kick, wake_ms)) {
            if (wake_ms == until_ms)
                return HF_OK;
            continue;
        }
        if (read(kick, &count, sizeof count) == sizeof count)
            return HF_OK;
        if (!PQconsumeInput(pg) || PQstatus(pg) != CONNECTION_OK)
            return nap_lost(c, "", err);
        if (c->napping && !PQisBusy(pg))
            status = end_nap(c, err);
    }
    return status;
}
