/* SPDX-License-Identifier: MIT */
/*
 * Statements. A call is SELECT * FROM a function of ours, prepared once for each connection, with parameters and
 * answer in binary. Everything else is text.
 */
#include "engine/postgres/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS_MAX             14
#define POSTGRES_STATEMENT_MAX 4096

/* Types of the parameters, a letter each: i int8, b bytea; I and B: an array, of groups that come n times. */
static const struct {
    const char *name, *types;
    const char *sql; /* NULL: the function of that name */
} calls[SQL_CALLS] = {
    [SQL_ACQUIRE] = { "acquire", "bbiiiiiiiiiib", NULL },
    [SQL_CLAIM] = { "claim", "bbiiiiiiiiiibb", NULL },
    [SQL_SLOTS] = { "slots", "bb", NULL },
    [SQL_RELEASE] = { "release", "bb", NULL },
    [SQL_RENEW] = { "renew", "BBI", NULL },
    [SQL_REFILL] = { "refill", "BBII", NULL },
    [SQL_CANCEL] = { "cancel", "bb", NULL },
    [SQL_HEARTBEAT] = { "beat", "iiBB", NULL },
    [SQL_RECHECK] = { "poke", "b", NULL },
    [SQL_ADOPT] = { "adopt", "bbii", NULL },
    [SQL_BREAK] = { "break", "bi", NULL },
    [SQL_NOTE] = { "note", "BBII", NULL },
    [SQL_INSPECT] = { "look", "b", NULL },
    [SQL_SWEEP] = { "sweep", "i", NULL },
    [SQL_LEAVE] = { "leave", "i", NULL },
    [SQL_CELL_READ] = { "cell_read", "b", NULL },
    [SQL_CELL_SWAP] = { "cell_swap", "bibi", NULL },
    [SQL_CELL_COMMIT] = { "cell_commit", "BIIBI", NULL },
    [SQL_CELL_WATCH] = { "cell_look", "iiBI", NULL },
    [SQL_TIME] = { "time", "", NULL },
    [SQL_TOKEN] = { "token", "bi", NULL },
    [SQL_ASK] = { "ask", "bb", NULL },
    [SQL_RESIZE] = { "resize", "bi", NULL },
    [SQL_LOCK_TRY] = { "lock_try", "i", "SELECT pg_try_advisory_lock($1)::int::int8" },
    [SQL_LOCK_WAIT] = { "lock_wait", "i", "SELECT pg_advisory_lock($1)::text" },
    [SQL_LOCK_FREE] = { "lock_free", "i", "SELECT pg_advisory_unlock($1)::int::int8" },
};

/*
 * The common cases of acquire (nobody holds or waits) and release (we hold and nobody waits), decided as the functions do
 * (sql/30_acquire.sql, sql/31_release.sql). A plain UPDATE costs the server two thirds of what the function costs; one that
 * calls the function itself where it found no row (WITH ... UNION ALL) costs as much as the function. So where it finds no row
 * the function is called by a second statement, and is_common() sees to it that this is rare. The time is the start of the
 * statement, which is early if it had to wait for the row: then the lease ends early; we count from the send, which was
 * earlier still.
 */
#define NOW   "(date_part('epoch', statement_timestamp()) * 1000000)::int8"
#define FIRST "greatest(x.last + 1, " NOW ")"
#define BLOCK /* as sql/22_ahead.sql has it */                                                     \
    "least($9, greatest(1, " NOW " + CASE WHEN $6 & 32 = 32 THEN 50000 ELSE 1000 END - " FIRST ")" \
    ")"
#define ACQUIRE_COMMON                                                                       \
    "UPDATE %s x SET mode = $3, capacity = $4, taken = $4, holders = 1,"                     \
    " last = " FIRST " + " BLOCK " - 1, soon = " NOW " + $7 * 1000, owner = $2,"             \
    " client = $12, token = " FIRST ", tokens = " BLOCK ","                                  \
    " current = " FIRST ", tid = 0, ttl = $7, delay = $8, flags = $6,"                       \
    " since = " NOW ", label = $13"                                                          \
    " WHERE x.name = $1 AND $4 = $5 AND x.holders = 0 AND x.waiters = 0 AND x.closed < " NOW \
    " AND " FIRST " < 9007199254740992 - $9"                                                 \
    " RETURNING 'G'::text AS verdict, x.token, x.tokens, $7 AS ms"
#define RELEASE_COMMON                                                       \
    "UPDATE %s x SET owner = NULL, taken = 0, holders = 0 WHERE x.name = $1" \
    " AND x.owner = $2 AND x.waiters = 0 AND x.soon >= " NOW " RETURNING 'R'::text AS verdict"

static const char *const common_name[] = {
    [SQL_ACQUIRE] = "acquire_common", [SQL_RELEASE] = "release_common"
};

static enum sql_outcome finish(struct sql_connection *connection, int64_t deadline_ms, bool sent,
                               struct sql_rows *ret_rows, struct sql_trouble *trouble);
static enum sql_outcome lost(struct sql_connection *connection, bool sent, const char *words,
                             struct sql_trouble *trouble);

/* ---- parameters -------------------------------------------------------------------------------------- */

struct packed {
    Oid types[PARAMS_MAX];
    const char *values[PARAMS_MAX];
    int lengths[PARAMS_MAX], formats[PARAMS_MAX];
    int64_t numbers[PARAMS_MAX];
    char *arrays[PARAMS_MAX];
    int count;
};

static void put32(char **at, uint32_t value)
{
    value = htobe32(value);
    memcpy(*at, &value, 4);
    *at += 4;
}

static void put_value(char **at, const struct sql_value *value)
{
    uint64_t number = htobe64((uint64_t)value->number);

    if (value->type == SQL_NULL) {
        put32(at, UINT32_MAX);
    } else if (value->type == SQL_INT) {
        put32(at, 8);
        memcpy(*at, &number, 8);
        *at += 8;
    } else {
        put32(at, (uint32_t)value->len);
        memcpy(*at, value->bytes, value->len);
        *at += value->len;
    }
}

/* Pack every `stride`-th value of `from` as a binary array of PostgreSQL. */
static bool pack_array(struct packed *p, const struct sql_value *from, uint32_t count,
                       uint32_t stride, bool numbers)
{
    size_t size = 20;
    char *at;

    for (uint32_t i = 0; i < count; i++)
        size += 12 + (from[i * stride].type == SQL_INT ? 0 : from[i * stride].len);
    at = p->arrays[p->count] = hfi_malloc(size);
    if (!at)
        return false;
    put32(&at, count ? 1 : 0); /* dimensions */
    put32(&at, 0);
    put32(&at, numbers ? POSTGRES_INT8 : POSTGRES_BYTEA);
    if (count) {
        put32(&at, count);
        put32(&at, 1); /* indices begin with it */
    }
    for (uint32_t i = 0; i < count; i++)
        put_value(&at, &from[i * stride]);
    p->values[p->count] = p->arrays[p->count];
    p->lengths[p->count] = (int)(at - p->arrays[p->count]);
    p->types[p->count] = numbers ? POSTGRES_INT8S : POSTGRES_BYTEAS;
    p->formats[p->count++] = 1;
    return true;
}

static void pack_one(struct packed *p, const struct sql_value *value, bool number)
{
    p->types[p->count] = number ? POSTGRES_INT8 : POSTGRES_BYTEA;
    p->formats[p->count] = 1;
    if (value->type == SQL_INT) {
        p->numbers[p->count] = (int64_t)htobe64((uint64_t)value->number);
        p->values[p->count] = (const char *)&p->numbers[p->count];
        p->lengths[p->count] = 8;
    } else if (value->type != SQL_NULL) {
        p->values[p->count] = value->len ? value->bytes : "";
        p->lengths[p->count] = (int)value->len;
    }
    p->count++;
}

static bool pack(enum sql_call call, const struct sql_value *params, uint32_t count,
                 struct packed *p)
{
    const char *types = calls[call].types;
    uint32_t singles = (uint32_t)strcspn(types, "IB");
    uint32_t group = (uint32_t)strlen(types) - singles;

    memset(p, 0, sizeof *p);
    for (uint32_t i = 0; i < singles && i < count; i++)
        pack_one(p, &params[i], types[i] == 'i');
    for (uint32_t i = 0; i < group; i++)
        if (!pack_array(p, params + singles + i, (count - singles) / group, group,
                        types[singles + i] == 'I'))
            return false;
    return true;
}

static void unpack(struct packed *p)
{
    for (int i = 0; i < PARAMS_MAX; i++)
        hfi_free(p->arrays[i]);
}

/* ---- sending ------------------------------------------------------------------------------------------ */

/* Try the common case first? After it failed the function is called at once, the next time, then the next 3, 7 and 15 times: names
 * that are always new, and a lock for which others always come while it is held, cost a second round trip now and then only. A
 * connection calls the function first: a short-lived one would prepare both statements, which are two round trips more. */
static bool is_common(struct sql_connection *connection, enum sql_call call,
                      const struct sql_value *params)
{
    const struct postgres_conf *conf = connection->store->native;

    if (connection->contended || !(connection->prepared >> call & 1) ||
        (call == SQL_ACQUIRE && params[3].number != params[4].number))
        return false;
    return (call == SQL_ACQUIRE || call == SQL_RELEASE) &&
           atomic_load_explicit(&conf->acquire.skip, memory_order_relaxed) == 0 &&
           (call == SQL_ACQUIRE ||
            atomic_load_explicit(&conf->release.skip, memory_order_relaxed) == 0);
}

/* It was tried. */
static void learn_common(struct sql_connection *connection, enum sql_call call, bool found)
{
    struct postgres_conf *conf = connection->store->native;
    struct postgres_guess *guess = call == SQL_ACQUIRE ? &conf->acquire : &conf->release;
    unsigned misses = atomic_load_explicit(&guess->misses, memory_order_relaxed);

    misses = found ? 0 : misses < 4 ? misses + 1 : misses;
    atomic_store_explicit(&guess->misses, misses, memory_order_relaxed);
    atomic_store_explicit(&guess->skip, (1U << misses) - 1, memory_order_relaxed);
}

/* The function was called, and answered. An acquire that met others will meet them again. */
static void learn_called(struct sql_connection *connection, enum sql_call call,
                         const struct sql_rows *rows)
{
    struct postgres_conf *conf = connection->store->native;
    struct postgres_guess *guess = call == SQL_ACQUIRE ? &conf->acquire : &conf->release;
    unsigned skip = atomic_load_explicit(&guess->skip, memory_order_relaxed);

    if (call == SQL_ACQUIRE && sql_letter(rows, 0, 0) != 'G')
        skip = skip > 0 ? skip : 1;
    else
        skip = skip > 0 ? skip - 1 : 0;
    atomic_store_explicit(&guess->skip, skip, memory_order_relaxed);
}

/* The statement of a call, or of its common case. */
static void write_statement(const struct sql_store *store, enum sql_call call, bool common,
                            int params, char *ret_sql, size_t room)
{
    char name[POSTGRES_NAME_MAX], what[32];
    int len;

    if (common) {
        postgres_name(store, "names", name, sizeof name);
        if (call == SQL_ACQUIRE)
            snprintf(ret_sql, room, ACQUIRE_COMMON, name);
        else
            snprintf(ret_sql, room, RELEASE_COMMON, name);
        return;
    }
    if (calls[call].sql) {
        snprintf(ret_sql, room, "%s", calls[call].sql);
        return;
    }
    snprintf(what, sizeof what, "%s_1", calls[call].name);
    postgres_name(store, what, name, sizeof name);
    len = snprintf(ret_sql, room, "SELECT * FROM %s(", name);
    for (int i = 0; i < params; i++)
        len += snprintf(ret_sql + len, room - (size_t)len, "%s$%d", i ? "," : "", i + 1);
    snprintf(ret_sql + len, room - (size_t)len, ")");
}

static bool prepare(struct sql_connection *connection, enum sql_call call, bool common,
                    const struct packed *p, int64_t deadline_ms, enum sql_outcome *ret_outcome,
                    struct sql_trouble *trouble)
{
    unsigned bit = common ? SQL_CALLS + (unsigned)call : (unsigned)call;
    char sql[POSTGRES_STATEMENT_MAX];
    struct sql_rows rows = { 0 };

    if (connection->prepared >> bit & 1)
        return true;
    write_statement(connection->store, call, common, p->count, sql, sizeof sql);
    if (!PQsendPrepare(connection->native, common ? common_name[call] : calls[call].name, sql,
                       p->count, p->types))
        *ret_outcome = lost(connection, false, PQerrorMessage(connection->native), trouble);
    else
        *ret_outcome = finish(connection, deadline_ms, false, &rows, trouble);
    sql_rows_free(&rows);
    if (*ret_outcome != SQL_DONE)
        return false;
    connection->prepared |= UINT64_C(1) << bit;
    return true;
}

static enum sql_outcome run(struct sql_connection *connection, enum sql_call call, bool common,
                            const struct packed *p, int64_t deadline_ms, struct sql_rows *ret_rows,
                            struct sql_trouble *trouble)
{
    enum sql_outcome outcome = SQL_DONE;

    if (!prepare(connection, call, common, p, deadline_ms, &outcome, trouble))
        return outcome;
    if (!PQsendQueryPrepared(connection->native, common ? common_name[call] : calls[call].name,
                             p->count, p->values, p->lengths, p->formats, 1))
        return lost(connection, false, PQerrorMessage(connection->native), trouble);
    return finish(connection, deadline_ms, true, ret_rows, trouble);
}

enum sql_outcome postgres_call(struct sql_connection *connection, enum sql_call call,
                               const struct sql_value *params, uint32_t count, int64_t deadline_ms,
                               struct sql_rows *ret_rows, struct sql_trouble *trouble)
{
    bool common = is_common(connection, call, params), found = false;
    enum sql_outcome outcome = SQL_DONE;
    struct packed p;

    if (!pack(call, params, count, &p)) {
        unpack(&p);
        trouble->status = hfi_error_memory(&trouble->error);
        return SQL_REFUSED;
    }
    if (common) {
        outcome = run(connection, call, true, &p, deadline_ms, ret_rows, trouble);
        found = outcome == SQL_DONE && ret_rows->count > 0;
        if (outcome == SQL_DONE)
            learn_common(connection, call, found);
    }
    if (outcome == SQL_DONE && !found) {
        if (common)
            sql_rows_free(ret_rows); /* nothing was changed: now the function */
        outcome = run(connection, call, false, &p, deadline_ms, ret_rows, trouble);
        if (outcome == SQL_DONE && (call == SQL_ACQUIRE || call == SQL_RELEASE))
            learn_called(connection, call, ret_rows);
    }
    unpack(&p);
    return outcome;
}

enum sql_outcome postgres_text(struct sql_connection *connection, const char *sql,
                               int64_t deadline_ms, struct sql_rows *ret_rows,
                               struct sql_trouble *trouble)
{
    *trouble = (struct sql_trouble){ .status = HF_OK };
    if (connection->dead || !PQsendQuery(connection->native, sql))
        return lost(connection, false, PQerrorMessage(connection->native), trouble);
    return finish(connection, deadline_ms, true, ret_rows, trouble);
}

/* ---- what errors mean ----------------------------------------------------------------------------------- */

/* The connection cannot be used any more. */
static enum sql_outcome lost(struct sql_connection *connection, bool sent, const char *words,
                             struct sql_trouble *trouble)
{
    char text[HF_ERROR_TEXT_MAX];

    connection->dead = true;
    postgres_words(connection->store, words, text, sizeof text);
    trouble->status = HF_UNAVAILABLE;
    hfi_error_set(&trouble->error, HF_UNAVAILABLE, 0, "%s",
                  *text ? text : "the connection is lost");
    return sent ? SQL_MAYBE : SQL_UNSENT;
}

static bool is(const char *state, const char *begin)
{
    return strncmp(state, begin, strlen(begin)) == 0;
}

static hf_status meaning(const char *state, struct sql_trouble *trouble)
{
    if (is(state, "40001") || is(state, "40P01") || is(state, "55P03")) {
        trouble->again = true;
        return HF_UNAVAILABLE;
    }
    if (is(state, "42883") || is(state, "42P01") || is(state, "3F000")) {
        trouble->no_table = true;
        return HF_CONFIG;
    }
    if (is(state, "42501") || is(state, "28"))
        return HF_DENIED;
    if (is(state, "53100"))
        return HF_FULL;
    if (is(state, "26000") || is(state, "42P05"))
        return HF_CONFIG;
    if (is(state, "53") || is(state, "57") || is(state, "58") || is(state, "08") ||
        is(state, "25006") || is(state, "XX"))
        return HF_UNAVAILABLE;
    return HF_INTERNAL;
}

static enum sql_outcome refused(struct sql_connection *connection, const PGresult *result,
                                bool sent, struct sql_trouble *trouble)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    char text[HF_ERROR_TEXT_MAX];

    if (!state || (severity && strcmp(severity, "ERROR") != 0))
        return lost(connection, sent, primary ? primary : PQresultErrorMessage(result), trouble);
    trouble->status = meaning(state, trouble);
    postgres_words(connection->store, primary, text, sizeof text);
    if (is(state, "26000") || is(state, "42P05"))
        snprintf(text, sizeof text,
                 "statements are lost between transactions: a pooler in transaction mode?");
    hfi_error_set(&trouble->error, trouble->status, (int)strtol(state, NULL, 36), "%s (%s)", text,
                  state);
    if (is(state, "25006") || is(state, "26000") || is(state, "42P05"))
        connection->dead = true; /* the next one may be to another server */
    return SQL_REFUSED;
}

/* ---- answers ---------------------------------------------------------------------------------------------- */

/* NULL: it is none. */
static struct sql_value number(const char *bytes, int len, bool binary)
{
    uint64_t value = 0;
    char *end;

    if (!binary) {
        int64_t told = strtoll(bytes, &end, 10);

        return end > bytes && !*end ? sql_int_of(told) : sql_null();
    }
    for (int i = 0; i < len; i++)
        value = value << 8 | (unsigned char)bytes[i];
    if (len == 4)
        return sql_int_of((int32_t)(uint32_t)value);
    if (len == 2)
        return sql_int_of((int16_t)(uint16_t)value);
    return len == 8 ? sql_int_of((int64_t)value) : sql_null();
}

/* One value; bytes go to *data. */
static struct sql_value value_of(const PGresult *result, int row, int column, char **data)
{
    const char *bytes = PQgetvalue(result, row, column);
    int len = PQgetlength(result, row, column);
    bool binary = PQfformat(result, column) == 1;
    Oid type = PQftype(result, column);
    struct sql_value value = { .type = SQL_TEXT, .bytes = *data, .len = (size_t)len };

    if (PQgetisnull(result, row, column))
        return sql_null();
    if (type == POSTGRES_INT8 || type == POSTGRES_INT4 || type == POSTGRES_INT2)
        return number(bytes, len, binary);
    if (type == POSTGRES_BYTEA)
        value.type = SQL_BYTES;
    if (type == POSTGRES_BYTEA && !binary) { /* \x0011 */
        value.len = len >= 2 ? (size_t)(len - 2) / 2 : 0;
        if (!hfi_unhex(bytes + 2, 2 * value.len, *data, value.len))
            value.len = 0;
    } else {
        memcpy(*data, bytes, (size_t)len);
    }
    *data += value.len;
    return value;
}

static bool copy(const PGresult *result, struct sql_rows *ret_rows)
{
    int rows = PQntuples(result), columns = PQnfields(result);
    size_t size = 0;
    char *data;

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            size += (size_t)PQgetlength(result, i, j);
    if (!sql_rows_make(ret_rows, (uint32_t)rows, (uint32_t)columns, size, &data))
        return false;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            ret_rows->values[(size_t)i * (size_t)columns + (size_t)j] =
                value_of(result, i, j, &data);
    return true;
}

/* Send the rest of the output, and wait for one result. false: the connection was lost, or the time
 * is up. */
static bool next_result(struct sql_connection *connection, int64_t deadline_ms,
                        PGresult **ret_result)
{
    PGconn *pg = connection->native;
    int left = PQflush(pg);

    while (left > 0 || PQisBusy(pg)) {
        if (left < 0 || !postgres_poll(pg, left > 0, -1, deadline_ms))
            return false;
        if (!PQconsumeInput(pg))
            return false;
        if (left > 0)
            left = PQflush(pg);
    }
    if (left < 0)
        return false;
    *ret_result = PQgetResult(pg);
    return true;
}

/* All results, up to the end of the statement. The last one with rows is the answer. */
static enum sql_outcome finish(struct sql_connection *connection, int64_t deadline_ms, bool sent,
                               struct sql_rows *ret_rows, struct sql_trouble *trouble)
{
    PGconn *pg = connection->native;
    enum sql_outcome outcome = SQL_DONE;
    PGresult *result;

    for (;;) {
        ExecStatusType status;

        if (!next_result(connection, deadline_ms, &result)) {
            bool late = PQstatus(pg) == CONNECTION_OK;

            sql_rows_free(ret_rows);
            return lost(connection, sent, late ? "the server does not answer" : PQerrorMessage(pg),
                        trouble);
        }
        if (!result)
            break;
        status = PQresultStatus(result);
        if (status == PGRES_TUPLES_OK && outcome == SQL_DONE) {
            sql_rows_free(ret_rows);
            if (!copy(result, ret_rows)) {
                (void)lost(connection, sent, "", trouble); /* executed, but its answer is lost */
                trouble->status = hfi_error_memory(&trouble->error);
                PQclear(result);
                return sent ? SQL_MAYBE : SQL_UNSENT;
            }
        } else if (status == PGRES_FATAL_ERROR && outcome == SQL_DONE) {
            outcome = refused(connection, result, sent, trouble);
        }
        PQclear(result);
    }
    if (outcome != SQL_DONE)
        sql_rows_free(ret_rows);
    connection->in_txn =
        PQtransactionStatus(pg) == PQTRANS_INTRANS || PQtransactionStatus(pg) == PQTRANS_INERROR;
    return outcome;
}

/* ---- text ------------------------------------------------------------------------------------------------- */

bool postgres_literal(const struct sql_value *value, char *ret_text, size_t room)
{
    const char *bytes = value->bytes;
    size_t used = 0;

    if (value->type == SQL_NULL)
        return (size_t)snprintf(ret_text, room, "NULL") < room;
    if (value->type == SQL_INT)
        return (size_t)snprintf(ret_text, room, "%lld", (long long)value->number) < room;
    if (value->type == SQL_BYTES) {
        if (2 * value->len + sizeof "'\\x'::bytea" > room)
            return false;
        memcpy(ret_text, "'\\x", 3);
        hfi_hex(value->bytes, value->len, ret_text + 3);
        memcpy(ret_text + 3 + 2 * value->len, "'::bytea", sizeof "'::bytea");
        return true;
    }
    if (2 * value->len + 3 > room)
        return false;
    ret_text[used++] = '\'';
    for (size_t i = 0; i < value->len; i++) {
        if (bytes[i] == '\'')
            ret_text[used++] = '\'';
        ret_text[used++] = bytes[i];
    }
    ret_text[used++] = '\'';
    ret_text[used] = 0;
    return true;
}

/* PQcancel() has no time limit, so a statement on another connection is used. The session number
 * may have been reused: so the start time is compared too. */
void postgres_interrupt(struct sql_connection *connection, int64_t deadline_ms)
{
    struct sql_trouble trouble;
    struct sql_rows rows = { 0 };
    struct sql_connection *other;
    char sql[256];

    if (sql_take_raw(connection->store, deadline_ms, &other, NULL) != HF_OK)
        return;
    snprintf(sql, sizeof sql,
             "SELECT pg_cancel_backend(pid) FROM pg_stat_get_activity(%lld)"
             " WHERE (extract(epoch FROM backend_start) * 1000000)::int8 = %lld",
             (long long)connection->server_id, (long long)connection->since);
    (void)postgres_text(other, sql, deadline_ms, &rows, &trouble);
    sql_rows_free(&rows);
    sql_give(other);
}
