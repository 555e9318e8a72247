/* SPDX-License-Identifier: MIT */
/*
 * The bell: a link that listens on the channel of this client. What the functions say on it (sql/turn.sql,
 * sql/break.sql, sql/cell_swap.sql):
 *
 *   G <owner> <token> <tokens> <window ms>     granted
 *   L <owner> <token>                          broken
 *   C <name of a cell, in hex>                 the cell has changed
 */
#include "engine/postgres/pg.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

hf_status hfi_pg_bell_open(struct hfi_conn *conn, int64_t deadline_ms, struct sq_link **ret_bell,
                           hf_error *err)
{
    struct sq_trouble trouble;
    struct sq_rows rows = { 0 };
    char sql[128];
    hf_status status = hfi_pg_open(conn, deadline_ms, ret_bell, err);

    if (status != HF_OK)
        return status;
    snprintf(sql, sizeof sql, "LISTEN \"%s%lld\"", conn->conf.prefix, (long long)conn->client);
    if (hfi_pg_text(*ret_bell, sql, deadline_ms, &rows, &trouble) != SQ_DONE) {
        hfi_error_set(err, trouble.status, trouble.error.native, "%s", trouble.error.text);
        hfi_pg_close(*ret_bell);
        return trouble.status;
    }
    hfi_sq_rows_free(&rows);
    return HF_OK;
}

static bool parse(const char *text, struct sq_message *ret_message)
{
    char hex[2 * HFI_OWNER_LEN + 1];
    unsigned char name[HF_NAME_MAX];
    size_t len = strlen(text);
    uint64_t hash[2];
    struct sq_message m = { .kind = SQ_BELL_QUIET };

    if (sscanf(text, "G %32[0-9a-f] %" SCNu64 " %" SCNu32 " %" SCNd64, hex, &m.token, &m.tokens,
               &m.window_ms) == 4)
        m.kind = SQ_BELL_GRANT;
    else if (sscanf(text, "L %32[0-9a-f] %" SCNu64, hex, &m.token) == 2)
        m.kind = SQ_BELL_LOST;
    else if (strncmp(text, "C ", 2) == 0 && len % 2 == 0 && len / 2 - 1 <= sizeof name &&
             hfi_unhex(text + 2, len - 2, name, len / 2 - 1)) {
        m.kind = SQ_BELL_CELL;
        hfi_hash128(name, len / 2 - 1, hash);
        m.cell = hash[0];
    }
    if ((m.kind == SQ_BELL_GRANT || m.kind == SQ_BELL_LOST) &&
        !hfi_unhex(hex, strlen(hex), m.owner, HFI_OWNER_LEN))
        return false;
    *ret_message = m;
    return m.kind != SQ_BELL_QUIET;
}

hf_status hfi_pg_bell_wait(struct sq_link *bell, int kick, int64_t until_ms,
                           struct sq_message *ret_message, hf_error *err)
{
    PGconn *pg = bell->native;
    uint64_t count;
    PGnotify *notify;
    bool got;

    *ret_message = (struct sq_message){ .kind = SQ_BELL_QUIET };
    for (;;) {
        while ((notify = PQnotifies(pg))) {
            got = parse(notify->extra, ret_message);
            PQfreemem(notify);
            if (got)
                return HF_OK;
        }
        if (!hfi_pg_poll(pg, false, kick, until_ms))
            return HF_OK;
        if (read(kick, &count, sizeof count) == sizeof count)
            return HF_OK;
        if (!PQconsumeInput(pg) || PQstatus(pg) != CONNECTION_OK) {
            bell->dead = true;
            return hfi_error_set(err, HF_UNAVAILABLE, 0, "the listening connection is lost");
        }
    }
}
