/* SPDX-License-Identifier: MIT */
/*
 * mode=row and mode=session: shares waits between processes, so that circles between them are
 * found. A table has a row for each wait of a session that holds something (its label with the tag
 * of src/deadlock/session.h), from core's first examination on, when the wait is a second old; and
 * a row for each lease that is waited for. A wait that ends sooner costs nothing.
 *
 * Why there are no false positives: the row of a wait is removed before its caller can do anything
 * else; if that fails, all rows of the client are removed before its next lease is released or
 * granted. So while the row exists the session has released nothing, and holds all that its tag
 * names: all members of a circle that one statement has read exist at the same moment. The row of a
 * lease only gives the number of the lease: it counts if the tag of a wait names that lease. A
 * killed process cannot remove its rows. So a row counts only while a connection of its client
 * lives: that connection holds a lock of the server with the client's number, which is random and
 * never reused. Any process that reads rows removes those of dead clients.
 *
 * A lease that is lost while its session waits is reported until the next examination. A user
 * without rights to the table finds circles within its process only (lock_doctor.c reports that).
 */
#include "engine/sql/native_lock.h"

#include "util/alloc.h"
#include "util/clock.h"

#include <stdio.h>
#include <string.h>

#define MARK     0x1f  /* before a tag */
#define ROWS_MAX 10000 /* rows of other processes: further ones are not read */
#define VALUES   (2 * (HF_NAME_MAX + HF_LABEL_MAX + HFI_OWNER_LEN) + 160)

/* Deadlock detection may take only a short time. */
static int64_t patience_ms(const struct sql_locks *locks)
{
    return locks->store->conf.op_ms < SQL_CANCEL_MS ? locks->store->conf.op_ms : SQL_CANCEL_MS;
}

static bool run(struct sql_locks *locks, struct sql_connection *connection, const char *template,
                struct sql_rows *ret_rows)
{
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), patience_ms(locks));
    struct sql_rows rows = { 0 };
    struct sql_trouble trouble = { .status = HF_OK };
    char sql[SQL_SQL_ROOM];
    bool ok = sql_lock_fill(locks, template, NULL, sql, sizeof sql) &&
              sql_text(connection, sql, until_ms, ret_rows ? ret_rows : &rows, &trouble) == HF_OK;

    sql_rows_free(&rows);
    return ok || trouble.no_table; /* then there is nothing in it */
}

static struct sql_connection *take(struct sql_locks *locks)
{
    struct sql_connection *connection;
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), patience_ms(locks));

    return sql_take(locks->store, until_ms, &connection, &(hf_error){ .status = HF_OK }) == HF_OK
               ? connection
               : NULL;
}

/* ---- telling ------------------------------------------------------------------------------------------------ */

static bool is_told(const struct sql_line *line, bool waits)
{
    return line->here && line->waits == waits && (!waits || strchr(line->label, MARK));
}

static size_t put_value(const struct sql_locks *locks, struct sql_value value, char *to,
                        size_t room)
{
    return locks->store->driver->literal(&value, to, room) ? strlen(to) : 0;
}

static size_t put_line(const struct sql_locks *locks, const struct sql_line *line, char *to)
{
    size_t at = (size_t)sprintf(to, "(%lld,%d,", (long long)locks->store->client,
                                (int)locks->store->conf.mode);

    at += put_value(locks, sql_bytes(line->owner, sizeof line->owner), to + at, VALUES - at);
    to[at++] = ',';
    at += put_value(locks, sql_bytes(line->name, line->len), to + at, VALUES - at);
    at += (size_t)sprintf(to + at, ",'%lld',", (long long)line->number);
    at += put_value(locks, line->waits ? sql_bytes(line->label, strlen(line->label)) : sql_null(),
                    to + at, VALUES - at);
    to[at++] = ')';
    return at;
}

/* Replaces what was shared before. */
static bool tell(struct sql_locks *locks, struct sql_connection *connection,
                 const struct sql_lines *lines, bool waits)
{
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), patience_ms(locks));
    size_t count = 0, at;
    struct sql_rows rows = { 0 };
    struct sql_trouble trouble = { .status = HF_OK };
    hf_status status = HF_NO_MEMORY;
    bool ok, first = true;
    char *sql;

    for (size_t i = 0; i < lines->count; i++)
        count += is_told(&lines->all[i], waits);
    sql = hfi_malloc(SQL_SQL_ROOM + count * VALUES);
    if (!sql)
        return false;
    ok = sql_lock_fill(locks,
                       waits ? "DELETE FROM {W} WHERE client = {C} AND label IS NOT NULL"
                             : "DELETE FROM {W} WHERE client = {C} AND label IS NULL",
                       NULL, sql, SQL_SQL_ROOM);
    at = ok ? strlen(sql) : 0;
    if (ok && count > 0)
        at += (size_t)sprintf(sql + at,
                              ";INSERT INTO %s (client,mode,owner,name,number,label) VALUES ",
                              locks->waits_table);
    for (size_t i = 0; ok && i < lines->count; i++)
        if (is_told(&lines->all[i], waits)) {
            if (!first)
                sql[at++] = ',';
            first = false;
            at += put_line(locks, &lines->all[i], sql + at);
        }
    sql[at] = 0;
    if (ok)
        status = sql_text(connection, sql, until_ms, &rows, &trouble);
    if (status == HF_OK || status == HF_UNKNOWN)
        atomic_store(&locks->shares, true);
    sql_rows_free(&rows);
    hfi_free(sql);
    return status == HF_OK;
}

/* ---- hearing ------------------------------------------------------------------------------------------------- */

struct who {
    int64_t client;
    bool ours;
};

static void is_ours(struct sql_store *store, void *arg)
{
    struct who *who = arg;

    who->ours = who->ours || store->client == who->client;
}

static bool take_notice(struct sql_store *store, struct sql_rows *rows, struct sql_lines *lines)
{
    if (!sql_fits(rows, "iniB", 0, ROWS_MAX) || !sql_lines_room(lines, rows->count))
        return false;
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct sql_value *name = sql_at(rows, i, 1), *label = sql_at(rows, i, 3);
        struct who who = { .client = sql_int(rows, i, 0) };
        struct sql_line *line = &lines->all[lines->count];

        sql_each(store, is_ours, &who);
        if (who.ours || !name->bytes)
            continue; /* another handle of this process, whose waits are known directly */
        *line = (struct sql_line){ .waits = label->type != SQL_NULL,
                                   .number = (uint64_t)sql_int(rows, i, 2),
                                   .len = (uint32_t)name->len };
        memcpy(line->name, name->bytes, name->len);
        if (label->bytes)
            memcpy(line->label, label->bytes,
                   label->len < HF_LABEL_MAX ? label->len : HF_LABEL_MAX);
        lines->count++;
    }
    return true;
}

bool sql_share_waits(struct sql_store *store, struct sql_lines *lines)
{
    struct sql_locks *locks = store->locks;
    struct sql_rows rows = { 0 };
    struct sql_connection *connection = take(locks);
    bool ok;

    if (!connection)
        return false;
    ok = run(locks, connection, locks->sql->waits_live, NULL) &&
         tell(locks, connection, lines, true) &&
         run(locks, connection, locks->sql->waits_sweep, NULL) &&
         run(locks, connection,
             "SELECT client, name, number, label FROM {W} WHERE client <> {C} AND mode = {M}",
             &rows) &&
         take_notice(store, &rows, lines);
    sql_rows_free(&rows);
    sql_give(connection);
    return ok;
}

void sql_share_holders(struct sql_store *store, const struct sql_lines *lines)
{
    struct sql_connection *connection = take(store->locks);

    if (!connection)
        return;
    (void)tell(store->locks, connection, lines, false);
    sql_give(connection);
}

void sql_unshare_wait(struct sql_locks *locks, const struct sql_lock_wait *wait)
{
    bool told =
        wait && wait->told && wait->op->claim->label && strchr(wait->op->claim->label, MARK);
    char template[192] = "DELETE FROM {W} WHERE client = {C}", literal[2 * HFI_OWNER_LEN + 32];
    struct sql_connection *connection;
    struct sql_value owner;

    if (!atomic_load(&locks->shares) || (!told && !atomic_load(&locks->unshare_due)))
        return;
    pthread_mutex_lock(&locks->share_lock); /* a reader may be about to share it */
    if (!atomic_exchange(&locks->unshare_due, true) && told) {
        owner = sql_bytes(wait->op->claim->owner, HFI_OWNER_LEN);
        if (locks->store->driver->literal(&owner, literal, sizeof literal))
            snprintf(template, sizeof template,
                     "DELETE FROM {W} WHERE client = {C} AND owner = %s AND label IS NOT NULL",
                     literal);
    }
    connection = take(locks);
    if (connection && run(locks, connection, template, NULL))
        atomic_store(&locks->unshare_due, false);
    if (connection)
        sql_give(connection);
    pthread_mutex_unlock(&locks->share_lock);
}
