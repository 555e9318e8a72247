/* SPDX-License-Identifier: MIT */
/* Statements of mode=row and mode=session: a server's templates, filled in. Any thread, without the lock. */
#include "engine/sql/native_lock.h"

#include "util/hash.h"

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
        if (c[0] == '{' && strchr("TRKNWCM", c[1]) && c[2] == '}') {
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
