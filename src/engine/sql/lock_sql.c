/* SPDX-License-Identifier: MIT */
/* Statements of mode=row, mode=session and hf_sql_lock(): a server's templates, filled in. Any thread, without the lock. */
#include "engine/sql/native_lock.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>

/* Hashes the place of our tables and the name: two stores in one database never share a key. */
static void hash_of(const struct sql_store *store, const struct hfi_name *name, uint64_t hash[2])
{
    unsigned char text[SQL_SCHEMA_MAX + 1 + SQL_PREFIX_MAX + 1 + HF_NAME_MAX];
    size_t len = 0, part = strlen(store->conf.schema) + 1;

    memcpy(text, store->conf.schema, part);
    len += part;
    part = strlen(store->conf.prefix) + 1;
    memcpy(text + len, store->conf.prefix, part);
    len += part;
    memcpy(text + len, name->bytes, name->len);
    hfi_hash128(text, len + name->len, hash);
}

int64_t sql_lock_key(const struct sql_locks *locks, const struct hfi_name *name)
{
    uint64_t hash[2];

    hash_of(locks->store, name, hash);
    return (int64_t)hash[0];
}

static bool put(char *sql, size_t room, size_t *at, const char *text)
{
    size_t len = strlen(text);

    if (*at + len >= room)
        return false;
    memcpy(sql + *at, text, len);
    *at += len;
    return true;
}

/* The key of a name that was recorded, as a literal, if the server has told it: shorter than the expression for it. */
static bool known_key(struct sql_locks *locks, const struct hfi_name *name, char *ret_text,
                      size_t room)
{
    const struct sql_known *known = &locks->known[name->hash[0] % SQL_KNOWN];
    bool found;

    pthread_mutex_lock(&locks->lock);
    found = known->text[0] && known->hash[0] == name->hash[0] && known->hash[1] == name->hash[1];
    if (found)
        snprintf(ret_text, room, "'%s'", known->text);
    pthread_mutex_unlock(&locks->lock);
    return found;
}

static bool put_word(struct sql_locks *locks, char word, const struct hfi_name *name, char *sql,
                     size_t room, size_t *at)
{
    char text[2 * HF_NAME_MAX + 64];
    struct sql_value value;
    uint64_t hash[2];

    switch (word) {
    case 'T':
        return put(sql, room, at, locks->names_table);
    case 'R':
        return put(sql, room, at, locks->rows_table);
    case 'W':
        return put(sql, room, at, locks->waits_table);
    case 'C':
        snprintf(text, sizeof text, "%lld", (long long)locks->store->client);
        return put(sql, room, at, text);
    case 'M':
        snprintf(text, sizeof text, "%d", (int)locks->store->conf.mode);
        return put(sql, room, at, text);
    case 'K':
        if (!known_key(locks, name, text, sizeof text)) {
            hash_of(locks->store, name, hash);
            locks->sql->key(hash, text);
        }
        return put(sql, room, at, text);
    case 'H':
        hfi_hex(name->bytes, name->len, text);
        return put(sql, room, at, text);
    default:
        value = sql_bytes(name->bytes, name->len);
        return locks->store->driver->literal(&value, text, sizeof text) && put(sql, room, at, text);
    }
}

bool sql_lock_fill(struct sql_locks *locks, const char *template, const struct hfi_name *name,
                   char *sql, size_t room)
{
    size_t at = 0;

    for (const char *c = template; *c; c++) {
        if (c[0] == '{' && strchr("TRKNHWCM", c[1]) && c[2] == '}') {
            if (!put_word(locks, c[1], name, sql, room, &at))
                return false;
            c += 2;
        } else {
            if (at + 1 >= room)
                return false;
            sql[at++] = *c;
        }
    }
    sql[at] = 0;
    return true;
}

const char *sql_lock_free_words(const struct sql_locks *locks, const struct hfi_claim *claim)
{
    if (locks->store->conf.mode == SQL_MODE_ROW)
        return locks->sql->row_free;
    return sql_lock_is_shared(claim) ? locks->sql->shared_free : locks->sql->session_free;
}

/* ---- inside the caller's own transaction ------------------------------------------------------------ */

/* The lock of the URL's mode. mode=lease has none of the server's: then the one that needs no table, if there is one. */
static const char *template_of(const struct sql_lock_sql *words, enum sql_mode mode,
                               enum hfi_sql_statement which)
{
    bool row = mode == SQL_MODE_ROW || (mode == SQL_MODE_LEASE && !words->advisory[HFI_SQL_LOCK]);

    return row ? words->row[which] : words->advisory[which];
}

static hf_status write_lock(struct sql_store *store, const struct hfi_name *name,
                            enum hfi_sql_statement which, char **ret_sql, hf_error *err)
{
    const struct sql_lock_sql *words = store->driver->lock_sql;
    const char *template = template_of(words, store->conf.mode, which);
    struct sql_locks *locks;
    bool filled;
    char *sql;

    if (!template)
        return hfi_error_set(err, HF_UNSUPPORTED, 0,
                             "mode=session: a lock of a session of this server does not end with a "
                             "transaction; use mode=row");
    locks = hfi_calloc(1, sizeof *locks);
    sql = hfi_malloc(SQL_SQL_ROOM);
    if (locks) { /* one that holds nothing and knows no key: enough to fill a template */
        pthread_mutex_init(&locks->lock, NULL);
        locks->store = store;
        locks->sql = words;
        words->table(store->conf.schema, store->conf.prefix, words->rows, locks->rows_table);
    }
    filled = locks && sql && sql_lock_fill(locks, template, name, sql, SQL_SQL_ROOM);
    if (locks)
        pthread_mutex_destroy(&locks->lock);
    hfi_free(locks);
    if (!filled) {
        hfi_free(sql);
        return hfi_error_memory(err);
    }
    *ret_sql = sql;
    return HF_OK;
}

hf_status sql_get_lock(const struct sql_driver *driver, struct hfi_conf *conf,
                       const struct hfi_name *name, enum hfi_sql_statement which, char **ret_sql,
                       hf_error *err)
{
    struct sql_conf *sql = (struct sql_conf *)conf;
    struct sql_store *store = hfi_calloc(1, sizeof *store);
    hf_status status;

    if (!store)
        return hfi_error_memory(err);
    store->driver = driver;
    status = sql_conf_finish(sql, err);
    store->conf = *sql;
    if (status == HF_OK)
        status = driver->parse(store, sql, err);
    if (status == HF_OK)
        status = write_lock(store, name, which, ret_sql, err);
    driver->free_conf(store);
    hfi_free(store);
    return status;
}
