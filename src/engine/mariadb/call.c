/* SPDX-License-Identifier: MIT */
/*
 * The calls: one CALL each (two are plain SELECTs). We format numbers ourselves and write bytes as
 * X'..', so nothing needs escaping. Repeated items are sent as one packed list and answered as one
 * text, because a procedure has no arrays; here they become the rows of internal.h.
 */
#include "engine/mariadb/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parameters before the list, and the fields of each item: n name, o owner, i number, b bytes. */
static const struct shape {
    const char *name;
    unsigned before;
    const char *item, *answer;
} shapes[SQL_CALLS] = {
    [SQL_ACQUIRE] = { "acquire", 13, NULL, NULL },
    [SQL_CLAIM] = { "claim", 14, NULL, NULL },
    [SQL_SLOTS] = { "slots", 2, NULL, NULL },
    [SQL_RELEASE] = { "release", 2, NULL, NULL },
    [SQL_RENEW] = { "renew", 0, "noi", "1" },
    [SQL_REFILL] = { "refill", 0, "noii", "iii" },
    [SQL_CANCEL] = { "cancel", 2, NULL, NULL },
    [SQL_HEARTBEAT] = { "beat", 2, "no", "viii" },
    [SQL_RECHECK] = { "poke", 1, NULL, NULL },
    [SQL_ADOPT] = { "adopt", 4, NULL, NULL },
    [SQL_BREAK] = { "break", 2, NULL, NULL },
    [SQL_NOTE] = { "note", 0, "noii", NULL },
    [SQL_INSPECT] = { "look", 1, NULL, NULL },
    [SQL_SWEEP] = { "sweep", 1, NULL, NULL },
    [SQL_LEAVE] = { "leave", 1, NULL, NULL },
    [SQL_CELL_SWAP] = { "cell_swap", 4, NULL, NULL },
    [SQL_CELL_COMMIT] = { "cell_commit", 0, "niibi", "vi" },
    [SQL_CELL_WATCH] = { "cell_look", 2, "ni", "ii" },
    [SQL_TOKEN] = { "token", 2, NULL, NULL },
    [SQL_ASK] = { "ask", 2, NULL, NULL },
    [SQL_RESIZE] = { "resize", 2, NULL, NULL },
};

#define NOW "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"

/* The statement was executed, but its answer is lost (no memory) or invalid. */
static enum sql_outcome lose_answer(struct sql_connection *connection, bool memory,
                                    enum sql_call call, struct sql_rows *rows,
                                    struct sql_trouble *trouble)
{
    maria_cut(connection);
    if (memory)
        maria_no_memory(trouble);
    else
        trouble->status = sql_odd(connection, sql_call_name(call), rows, &trouble->error);
    return SQL_MAYBE;
}

/* ---- making a statement ------------------------------------------------------------------------ */

void maria_begin(struct maria_connection *native)
{
    native->len = 0;
    native->full = false;
}

/* Room for `more` bytes, or NULL. */
static char *room_for(struct maria_connection *native, size_t more)
{
    if (native->room - native->len < more) {
        size_t room = (native->len + more) * 2 + 256;
        char *text = hfi_realloc(native->text, room);

        if (!text) {
            native->full = true;
            return NULL;
        }
        native->text = text;
        native->room = room;
    }
    return native->text + native->len;
}

void maria_add(struct maria_connection *native, const char *text, size_t len)
{
    char *to = room_for(native, len);

    if (!to)
        return;
    memcpy(to, text, len);
    native->len += len;
}

static void add_text(struct maria_connection *native, const char *text)
{
    maria_add(native, text, strlen(text));
}

static void add_hex(struct maria_connection *native, const void *bytes, size_t len)
{
    static const char digits[] = "0123456789ABCDEF";
    const unsigned char *from = bytes;
    char *to = room_for(native, 2 * len);

    if (!to)
        return;
    for (size_t i = 0; i < len; i++) {
        *to++ = digits[from[i] >> 4];
        *to++ = digits[from[i] & 15];
    }
    native->len += 2 * len;
}

void maria_add_value(struct maria_connection *native, const struct sql_value *value)
{
    char number[32];

    switch (value->type) {
    case SQL_NULL:
        add_text(native, "NULL");
        break;
    case SQL_INT:
        snprintf(number, sizeof number, "%lld", (long long)value->number);
        add_text(native, number);
        break;
    case SQL_BYTES:
    case SQL_TEXT:
        add_text(native, "X'");
        add_hex(native, value->bytes, value->len);
        add_text(native, "'");
        break;
    }
}

bool maria_literal(const struct sql_value *value, char *ret_text, size_t room)
{
    struct maria_connection made = { .text = NULL };
    bool fits;

    maria_add_value(&made, value);
    fits = made.text && !made.full && made.len < room;
    if (fits) {
        memcpy(ret_text, made.text, made.len);
        ret_text[made.len] = 0;
    }
    hfi_free(made.text);
    return fits;
}

static void add_packed(struct maria_connection *native, const struct sql_value *value, char kind)
{
    unsigned char bytes[8];
    int size = kind == 'n' ? 2 : 8;
    uint64_t number = kind == 'n' || kind == 'b' ? value->len : (uint64_t)value->number;

    for (int i = size; i-- > 0; number >>= 8)
        bytes[i] = (unsigned char)number;
    if (kind != 'o')
        add_hex(native, bytes, (size_t)size);
    if (kind != 'i')
        add_hex(native, value->bytes, value->len);
}

static void make_call(struct sql_connection *connection, const struct shape *shape,
                      const struct sql_value *params, uint32_t count)
{
    struct maria_connection *native = connection->native;

    add_text(native, "CALL `");
    add_text(native, connection->store->conf.prefix);
    add_text(native, shape->name);
    add_text(native, "`(");
    for (unsigned i = 0; i < shape->before; i++) {
        if (i > 0)
            add_text(native, ",");
        maria_add_value(native, &params[i]);
    }
    if (shape->item) {
        add_text(native, shape->before > 0 ? ",X'" : "X'");
        for (uint32_t i = shape->before; i < count; i++)
            add_packed(native, &params[i], shape->item[(i - shape->before) % strlen(shape->item)]);
        add_text(native, "'");
    }
    add_text(native, ")");
}

static void make_statement(struct sql_connection *connection, enum sql_call call,
                           const struct sql_value *params, uint32_t count)
{
    struct maria_connection *native = connection->native;

    maria_begin(native);
    if (call == SQL_TIME) {
        add_text(native, "SELECT " NOW);
    } else if (call == SQL_CELL_READ) {
        add_text(native,
                 "SELECT version, bytes, IF(until = 0, -1, (until - " NOW ") DIV 1000) FROM `");
        add_text(native, connection->store->conf.prefix);
        add_text(native, "cells` WHERE name = ");
        maria_add_value(native, &params[0]);
        add_text(native, " AND (until = 0 OR until >= " NOW ")");
    } else {
        make_call(connection, &shapes[call], params, count);
    }
}

/* ---- the common case -------------------------------------------------------------------------------- */

#define TOKEN_LIMIT "9007199254740992"
/* As in sql/acquire_any.sql, which makes shorter blocks where this is not enough. */
#define AHEAD           "1000"
#define AHEAD_LINGERING "50000"

static void add_set(struct maria_connection *native, const char *column,
                    const struct sql_value *value)
{
    add_text(native, column);
    maria_add_value(native, value);
}

/*
 * The common cases: acquire everything when nobody holds or waits, and release when nobody waits.
 * One statement on one row does it, and without a procedure it costs a quarter less.
 * (sql/acquire.sql and sql/release.sql begin with the same statements.) Assignments are made from
 * left to right.
 */
static void make_direct(struct sql_connection *connection, enum sql_call call,
                        const struct sql_value *params)
{
    struct maria_connection *native = connection->native;

    maria_begin(native);
    add_text(native, "UPDATE `");
    add_text(native, connection->store->conf.prefix);
    if (call == SQL_RELEASE) {
        add_text(native,
                 "names` SET x_owner='',taken=0,holders=0 WHERE waiters=0 AND x_until>=" NOW);
        add_set(native, " AND x_owner=", &params[1]);
    } else {
        add_set(native, "names` SET x_since=" NOW ",x_owner=", &params[1]);
        add_set(native, ",mode=", &params[2]);
        add_set(native, ",capacity=", &params[3]);
        add_set(native, ",taken=", &params[4]);
        add_set(native, ",x_flags=", &params[5]);
        add_set(native, ",x_ttl=", &params[6]);
        add_text(native, ",x_until=x_since+x_ttl*1000");
        add_set(native, ",x_delay=", &params[7]);
        add_set(native, ",x_tokens=", &params[8]);
        add_set(native, ",x_client=", &params[11]);
        add_set(native, ",x_label=", &params[12]);
        add_text(native,
                 ",x_token=LAST_INSERT_ID(GREATEST(token+1,x_since)),token=x_token+x_tokens-1,"
                 "x_holds=x_token,x_tid=0,holders=1 WHERE holders=0 AND waiters=0 AND closed<" NOW
                 " AND token<" TOKEN_LIMIT);
        add_set(native, "-", &params[8]);
        add_text(native, params[5].number & SQL_FLAG_LINGERS ? " AND token<" NOW "+" AHEAD_LINGERING
                                                             : " AND token<" NOW "+" AHEAD);
        add_set(native, "-", &params[8]);
    }
    add_set(native, " AND name=", &params[0]);
}

/* Try the direct statement. ret_done: that was enough; else the call is needed. */
static enum sql_outcome call_direct(struct sql_connection *connection, enum sql_call call,
                                    const struct sql_value *params, int64_t deadline_ms,
                                    struct sql_rows *ret_rows, struct sql_trouble *trouble,
                                    bool *ret_done)
{
    struct maria_connection *native = connection->native;
    uint32_t columns = call == SQL_ACQUIRE ? 4 : 1;
    enum sql_outcome outcome;
    char *verdict;

    make_direct(connection, call, params);
    if (native->full)
        return maria_no_memory(trouble);
    outcome = maria_run(connection, native->text, native->len, deadline_ms, ret_rows, trouble);
    *ret_done = outcome != SQL_DONE || mysql_affected_rows(&native->mysql) == 1;
    if (outcome == SQL_DONE && call == SQL_ACQUIRE && mysql_insert_id(&native->mysql) == 0)
        *ret_done = false; /* a trigger has changed the insert id: the call finds what we have */
    if (outcome != SQL_DONE || !*ret_done)
        return outcome;
    if (!sql_rows_make(ret_rows, 1, columns, 1, &verdict))
        return lose_answer(connection, true, call, ret_rows, trouble);
    *verdict = call == SQL_ACQUIRE ? 'G' : 'R';
    ret_rows->values[0] = (struct sql_value){ .type = SQL_TEXT, .bytes = verdict, .len = 1 };
    if (call == SQL_ACQUIRE) {
        ret_rows->values[1] = sql_int_of((int64_t)mysql_insert_id(&native->mysql));
        ret_rows->values[2] = params[8];
        ret_rows->values[3] = params[6];
    }
    return SQL_DONE;
}

/* Try the direct statement? If the last one of this kind failed, the call is sent at once: one
 * round trip. */
static bool may_be_direct(const struct sql_connection *connection, enum sql_call call,
                          const struct sql_value *params)
{
    const struct maria_conf *conf = connection->store->native;

    if (connection->contended)
        return false;
    if (call == SQL_RELEASE)
        return !conf->release_contended;
    return call == SQL_ACQUIRE && params[3].number == params[4].number && !conf->acquire_contended;
}

/* Learn from the call: the last value of its row is 1 if the direct statement would have been
 * enough. */
static void learn(struct sql_connection *connection, enum sql_call call,
                  const struct sql_value *params, bool contended)
{
    struct maria_conf *conf = connection->store->native;

    if (call == SQL_RELEASE)
        conf->release_contended = contended;
    else if (call == SQL_ACQUIRE && params[3].number == params[4].number)
        conf->acquire_contended = contended;
}

/* ---- lists as rows ------------------------------------------------------------------------------ */

/* The fields of one item of "verdict,number,number;" into a row whose first value is the index. */
static bool unpack_item(const char **at, const char *kinds, struct sql_value *row)
{
    char *end;

    for (size_t i = 0; kinds[i]; i++) {
        if (i > 0 && *(*at)++ != ',')
            return false;
        if (kinds[i] == 'v') {
            row[1 + i] = (struct sql_value){ .type = SQL_TEXT, .bytes = *at, .len = 1 };
            (*at)++;
        } else if (kinds[i] == '1') {
            row[1 + i] = sql_int_of(*(*at)++ - '0');
        } else {
            row[1 + i] = sql_int_of(strtoll(*at, &end, 10));
            if (end == *at)
                return false;
            *at = end;
        }
    }
    if (kinds[0] != '1' && *(*at)++ != ';')
        return false;
    return true;
}

/* *ret_memory: it failed because there was no memory. */
static bool unpack(enum sql_call call, uint32_t count, struct sql_rows *rows, bool *ret_memory)
{
    const struct shape *shape = &shapes[call];
    uint32_t items = (count - shape->before) / (uint32_t)strlen(shape->item);
    uint32_t columns = 1 + (uint32_t)strlen(shape->answer);
    struct sql_value list;
    void *memory = rows->memory;
    const char *at;
    char *text;

    *ret_memory = false;
    if (!sql_fits(rows, "b", 1, 1))
        return false;
    list = *sql_at(rows, 0, 0);
    if (!sql_rows_make(rows, items, columns, list.len + 1, &text)) {
        hfi_free(memory);
        rows->memory = NULL;
        *ret_memory = true;
        return false;
    }
    if (list.bytes)
        memmove(text, list.bytes, list.len); /* both may be in `rows` itself */
    text[list.len] = 0;
    hfi_free(memory);
    at = text;
    for (uint32_t i = 0; i < items; i++) {
        struct sql_value *row = &rows->values[(size_t)i * columns];

        row[0] = sql_int_of(i);
        if (!*at || !unpack_item(&at, shape->answer, row)) {
            sql_rows_free(rows);
            return false;
        }
    }
    return true;
}

/* ---- a call -------------------------------------------------------------------------------------- */

enum sql_outcome maria_call(struct sql_connection *connection, enum sql_call call,
                            const struct sql_value *params, uint32_t count, int64_t deadline_ms,
                            struct sql_rows *ret_rows, struct sql_trouble *trouble)
{
    struct maria_connection *native = connection->native;
    enum sql_outcome outcome;
    bool done = false, memory;

    if (may_be_direct(connection, call, params)) {
        outcome = call_direct(connection, call, params, deadline_ms, ret_rows, trouble, &done);
        if (done || outcome != SQL_DONE)
            return outcome;
        sql_rows_free(ret_rows);
    }
    make_statement(connection, call, params, count);
    if (native->full)
        return maria_no_memory(trouble);
    outcome = maria_run(connection, native->text, native->len, deadline_ms, ret_rows, trouble);
    /* After an unknown error (no memory, a limit of the session) the procedure's handler may not
     * have run: an unfinished transaction must not be committed by the next call. */
    if (outcome == SQL_REFUSED && trouble->status == HF_UNAVAILABLE && !trouble->again)
        maria_cut(connection);
    if (outcome != SQL_DONE)
        return outcome;
    if (shapes[call].answer && !unpack(call, count, ret_rows, &memory))
        return lose_answer(connection, memory, call, ret_rows, trouble);
    if ((call == SQL_ACQUIRE || call == SQL_RELEASE) && ret_rows->count == 1 &&
        ret_rows->columns > 0) {
        ret_rows->columns--; /* the last one is ours alone */
        learn(connection, call, params, ret_rows->values[ret_rows->columns].number != 1);
    }
    if (call == SQL_CLAIM && ret_rows->count == 1 && ret_rows->columns == 5 &&
        ret_rows->values[4].type == SQL_INT) /* the same, of ~acquire_any */
        ret_rows->values[4] = sql_null();
    return SQL_DONE;
}
