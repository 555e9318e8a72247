/* SPDX-License-Identifier: MIT */
/*
 * The listener: a connection that listens on the channel of this client. Its advisory lock shows to
 * granting clients that we listen (sql/23_turn.sql). The lock is shared: so a former listener of
 * ours, whose loss the server has not noticed yet, does not block it. What the functions say on the
 * channel (sql/23_turn.sql, sql/37_break.sql, sql/40_cells.sql):
 *
 *   G <owner> <token> <tokens> <window ms>     granted
 *   L <owner> <token>                          broken
 *   C <name of a cell, in hex>                 the cell has changed
 */
#include "engine/postgres/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

hf_status postgres_listen(struct sql_store *store, int64_t deadline_ms,
                          struct sql_connection **ret_connection, hf_error *err)
{
    struct sql_trouble trouble;
    struct sql_rows rows = { 0 };
    char sql[192];
    hf_status status = postgres_open(store, deadline_ms, ret_connection, err);

    if (status != HF_OK)
        return status;
    snprintf(sql, sizeof sql, "SELECT pg_advisory_lock_shared(%lld)::text; LISTEN \"%s%lld\"",
             (long long)store->client, store->conf.prefix, (long long)store->client);
    if (postgres_text(*ret_connection, sql, deadline_ms, &rows, &trouble) != SQL_DONE) {
        hfi_error_set(err, trouble.status, trouble.error.native, "%s", trouble.error.text);
        postgres_close(*ret_connection);
        return trouble.status;
    }
    sql_rows_free(&rows);
    return HF_OK;
}

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
    ret_message->window_ms = (int64_t)window_ms;
    return *at == 0;
}

static bool parse(const char *text, struct sql_message *ret_message)
{
    unsigned char name[HF_NAME_MAX];
    size_t len = strlen(text);
    uint64_t hash[2];
    struct sql_message m = { .kind = SQL_NOTICE_NONE };

    if (text[0] == 'G' || text[0] == 'L') {
        if (!parse_claim(text, &m))
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

hf_status postgres_next_notice(struct sql_connection *listener, int kick, int64_t until_ms,
                               struct sql_message *ret_message, hf_error *err)
{
    PGconn *pg = listener->native;
    uint64_t count;
    PGnotify *notify;
    bool got;

    *ret_message = (struct sql_message){ .kind = SQL_NOTICE_NONE };
    for (;;) {
        while ((notify = PQnotifies(pg))) {
            got = parse(notify->extra, ret_message);
            PQfreemem(notify);
            if (got)
                return HF_OK;
        }
        if (!postgres_poll(pg, false, kick, until_ms))
            return HF_OK;
        if (read(kick, &count, sizeof count) == sizeof count)
            return HF_OK;
        if (!PQconsumeInput(pg) || PQstatus(pg) != CONNECTION_OK) {
            listener->dead = true;
            return hfi_error_set(err, HF_UNAVAILABLE, 0, "the listening connection is lost");
        }
    }
}
