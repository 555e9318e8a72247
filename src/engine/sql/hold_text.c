/* SPDX-License-Identifier: MIT */
/* Statements of mode=row and mode=session: a server's templates, filled in. Pure. */
#include "engine/sql/hold.h"

#include "util/hash.h"

#include <stdio.h>
#include <string.h>

/* Where our tables are, and the name: two stores in one database never share a key. */
static void hash_of(const struct hfi_conn *conn, const struct hfi_name *name, uint64_t hash[2])
{
    unsigned char text[SQL_SCHEMA_MAX + 1 + SQL_PREFIX_MAX + 1 + HF_NAME_MAX];
    size_t len = 0, part = strlen(conn->conf.schema) + 1;

    memcpy(text, conn->conf.schema, part);
    len += part;
    part = strlen(conn->conf.prefix) + 1;
    memcpy(text + len, conn->conf.prefix, part);
    len += part;
    memcpy(text + len, name->bytes, name->len);
    hfi_hash128(text, len + name->len, hash);
}

int64_t sql_hold_key(const struct sql_hold *hold, const struct hfi_name *name)
{
    uint64_t hash[2];

    hash_of(hold->conn, name, hash);
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

static bool put_word(struct sql_hold *hold, char word, const struct hfi_name *name, char *sql,
                     size_t room, size_t *at)
{
    char text[2 * HF_NAME_MAX + 64];
    struct sql_value value;
    uint64_t hash[2];

    switch (word) {
    case 'T':
        return put(sql, room, at, hold->names);
    case 'R':
        return put(sql, room, at, hold->rows);
    case 'W':
        return put(sql, room, at, hold->waits);
    case 'C':
        snprintf(text, sizeof text, "%lld", (long long)hold->conn->client);
        return put(sql, room, at, text);
    case 'M':
        snprintf(text, sizeof text, "%d", (int)hold->conn->conf.mode);
        return put(sql, room, at, text);
    case 'K':
        hash_of(hold->conn, name, hash);
        hold->words->key(hash, text);
        return put(sql, room, at, text);
    default:
        value = sql_bytes(name->bytes, name->len);
        return hold->conn->driver->literal(&value, text, sizeof text) && put(sql, room, at, text);
    }
}

bool sql_hold_fill(struct sql_hold *hold, const char *template, const struct hfi_name *name,
                   char *sql, size_t room)
{
    size_t at = 0;

    for (const char *c = template; *c; c++) {
        if (c[0] == '{' && strchr("TRKNWCM", c[1]) && c[2] == '}') {
            if (!put_word(hold, c[1], name, sql, room, &at))
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
