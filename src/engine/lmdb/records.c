/* SPDX-License-Identifier: MIT */
/*
 * Encodes and decodes the records of leases. Every record has a checksum: one that does not match
 * is LMDB_E_CORRUPT, which makes txn.c rebuild the file. Records are copied out, never used in
 * place: LMDB's pages move under a write.
 */
#include "engine/lmdb/internal.h"

#include "util/hash.h"

#include <stddef.h>
#include <string.h>

struct key {
    unsigned char bytes[LMDB_KEY_FULL];
};

static MDB_val name_key(const uint64_t hash[2])
{
    return (MDB_val){ .mv_size = LMDB_KEY_NAME, .mv_data = (void *)(uintptr_t)hash };
}

static MDB_val full_key(struct key *key, const uint64_t hash[2], char type, uint64_t number)
{
    memcpy(key->bytes, hash, LMDB_KEY_NAME);
    key->bytes[LMDB_KEY_NAME] = (unsigned char)type;
    for (int i = 0; i < 8; i++)
        key->bytes[LMDB_KEY_NAME + 1 + i] = (unsigned char)(number >> (56 - 8 * i));
    return (MDB_val){ .mv_size = LMDB_KEY_FULL, .mv_data = key->bytes };
}

/* The number of a full key of this name and type; false: another kind of key. */
static bool key_number(const MDB_val *key, const uint64_t hash[2], char type, uint64_t *ret_number)
{
    const unsigned char *bytes = key->mv_data;

    if (key->mv_size != LMDB_KEY_FULL || memcmp(bytes, hash, LMDB_KEY_NAME) != 0 ||
        bytes[LMDB_KEY_NAME] != (unsigned char)type)
        return false;
    *ret_number = 0;
    for (int i = 0; i < 8; i++)
        *ret_number = *ret_number << 8 | bytes[LMDB_KEY_NAME + 1 + i];
    return true;
}

/* ---- checksums --------------------------------------------------------------- */

/*
 * Covers the record and its key: with a damaged key the record would not be found, and a name that
 * is not found is free: see page_check.c.
 */
static uint32_t checksum(const void *key, size_t key_len, const void *record, size_t len)
{
    const unsigned char *bytes = key;
    uint64_t words[2], number = 0;
    uint32_t sum = hfi_checksum((const char *)record + sizeof(uint32_t), len - sizeof(uint32_t));

    memcpy(words, bytes, sizeof words);
    if (key_len == LMDB_KEY_FULL) {
        memcpy(&number, bytes + LMDB_KEY_NAME + 1, sizeof number);
        number ^= (uint64_t)bytes[LMDB_KEY_NAME] << 56;
    }
    number ^= words[0] ^ words[1];
    return sum ^ (uint32_t)number ^ (uint32_t)(number >> 32);
}

/* All records begin with their checksum. */
bool lmdb_record_sound(const void *key, size_t key_len, const void *record, size_t len)
{
    uint32_t sum;

    if (key_len == LMDB_KEY_ANCHOR)
        return len == 1;
    if ((key_len != LMDB_KEY_NAME && key_len != LMDB_KEY_FULL) || len <= sizeof sum)
        return false;
    memcpy(&sum, record, sizeof sum);
    return sum == checksum(key, key_len, record, len);
}

/* ---- the name record --------------------------------------------------------- */

void lmdb_name_init(struct lmdb_name *rec, const struct hfi_name *name)
{
    memset(rec, 0, LMDB_NAME_FIXED);
    rec->name_len = (uint16_t)name->len;
    memcpy(rec->text, name->bytes, name->len);
}

static size_t name_size(const struct lmdb_name *rec)
{
    return LMDB_NAME_FIXED + rec->name_len + rec->label_len;
}

size_t lmdb_name_seal(struct lmdb_name *rec, const uint64_t hash[2])
{
    size_t size = name_size(rec);

    rec->checksum = checksum(hash, LMDB_KEY_NAME, rec, size);
    return size;
}

int lmdb_name_parse(const void *key, const MDB_val *value, struct lmdb_name *ret)
{
    if (value->mv_size < LMDB_NAME_FIXED || value->mv_size > sizeof *ret)
        return LMDB_E_CORRUPT;
    memcpy(ret, value->mv_data, value->mv_size);
    if (name_size(ret) != value->mv_size || ret->name_len == 0 || ret->name_len > HF_NAME_MAX ||
        ret->label_len > HF_LABEL_MAX || !lmdb_numbers_whole(&ret->first, ret->label_len) ||
        ret->checksum != checksum(key, LMDB_KEY_NAME, ret, value->mv_size))
        return LMDB_E_CORRUPT;
    return 0;
}

int lmdb_name_get_by_hash(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *ret)
{
    MDB_val key = name_key(hash), value;
    int rc = mdb_get(t->mdb, t->directory->dbi, &key, &value);

    return rc != 0 ? rc : lmdb_name_parse(hash, &value, ret);
}

int lmdb_name_get(struct lmdb_txn *t, const struct hfi_name *name, struct lmdb_name *ret)
{
    int rc = lmdb_name_get_by_hash(t, name->hash, ret);

    if (rc == 0 && (ret->name_len != name->len || memcmp(ret->text, name->bytes, name->len) != 0))
        return LMDB_E_COLLISION;
    return rc;
}

/*
 * Read a name's record and, in the same search of the tree, delete it if it contains only this
 * owner: nobody else holds or waits, and it has no deadline, lock delay or size that was set. *ret_deleted says so.
 */
int lmdb_name_take(struct lmdb_txn *t, const struct hfi_name *name,
                   const unsigned char owner[HFI_OWNER_LEN], struct lmdb_name *ret,
                   bool *ret_deleted)
{
    MDB_val key = name_key(name->hash), value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(t->mdb, t->directory->dbi, &cursor);

    *ret_deleted = false;
    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_KEY);
    if (rc == 0)
        rc = lmdb_name_parse(name->hash, &value, ret);
    if (rc == 0 && (ret->name_len != name->len || memcmp(ret->text, name->bytes, name->len) != 0))
        rc = LMDB_E_COLLISION;
    if (rc == 0 && ret->further == 0 && ret->waiters == 0 && ret->closed_ms == 0 &&
        !(ret->mode & LMDB_MODE_SET) && ret->first.token && ret->first.deadline_ms == HFI_NEVER &&
        memcmp(ret->first.owner, owner, HFI_OWNER_LEN) == 0) {
        rc = mdb_cursor_del(cursor, 0);
        *ret_deleted = rc == 0;
    }
    mdb_cursor_close(cursor);
    return rc;
}

int lmdb_name_put(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec)
{
    MDB_val key = name_key(hash), value;

    /* A lock_delay keeps a record without holders and waiters; expire() drops it later. So does a size that was set. */
    if (rec->first.token == 0 && rec->further == 0 && rec->waiters == 0 &&
        !(rec->mode & LMDB_MODE_SET) && lmdb_past(t, rec->closed_ms)) {
        int rc = mdb_del(t->mdb, t->directory->dbi, &key, NULL);

        return rc == MDB_NOTFOUND ? 0 : rc;
    }
    value.mv_size = lmdb_name_seal(rec, hash);
    value.mv_data = rec;
    return mdb_put(t->mdb, t->directory->dbi, &key, &value, 0);
}

void lmdb_first_set(struct lmdb_name *rec, const struct lmdb_holder *h, const char *label,
                    size_t len)
{
    rec->first = *h;
    rec->label_len = (uint8_t)len;
    if (len)
        memcpy(rec->text + rec->name_len, label, len);
}

/* ---- further holders ------------------------------------------------------------ */

static int further_parse(const struct key *key, const MDB_val *value, struct lmdb_further *ret)
{
    if (value->mv_size < LMDB_FURTHER_FIXED || value->mv_size > sizeof *ret)
        return LMDB_E_CORRUPT;
    memcpy(ret, value->mv_data, value->mv_size);
    if (LMDB_FURTHER_FIXED + (size_t)ret->label_len != value->mv_size ||
        ret->label_len > HF_LABEL_MAX || !lmdb_numbers_whole(&ret->holder, ret->label_len) ||
        ret->checksum != checksum(key->bytes, LMDB_KEY_FULL, ret, value->mv_size))
        return LMDB_E_CORRUPT;
    return 0;
}

int lmdb_further_put(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_holder *h,
                     const char *label, size_t label_len)
{
    struct lmdb_further further = { .holder = *h, .label_len = (uint32_t)label_len };
    struct key buffer;
    MDB_val key = full_key(&buffer, hash, 'h', h->token), value;

    if (label_len)
        memcpy(further.label, label, label_len);
    value.mv_size = LMDB_FURTHER_FIXED + label_len;
    value.mv_data = &further;
    further.checksum = checksum(buffer.bytes, LMDB_KEY_FULL, &further, value.mv_size);
    return mdb_put(t->mdb, t->directory->dbi, &key, &value, 0);
}

int lmdb_further_get(struct lmdb_txn *t, const uint64_t hash[2], uint64_t token,
                     struct lmdb_further *ret)
{
    struct key buffer;
    MDB_val key = full_key(&buffer, hash, 'h', token), value;
    int rc = mdb_get(t->mdb, t->directory->dbi, &key, &value);

    return rc != 0 ? rc : further_parse(&buffer, &value, ret);
}

int lmdb_further_del(struct lmdb_txn *t, const uint64_t hash[2], uint64_t token)
{
    struct key buffer;
    MDB_val key = full_key(&buffer, hash, 'h', token);

    return mdb_del(t->mdb, t->directory->dbi, &key, NULL);
}

/* The first record of this name and type at or after `number`; its key is in *ret_key. */
static int seek(struct lmdb_txn *t, const uint64_t hash[2], char type, uint64_t *number,
                struct key *ret_key, MDB_val *ret_value)
{
    MDB_val key = full_key(ret_key, hash, type, *number);
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(t->mdb, t->directory->dbi, &cursor);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, ret_value, MDB_SET_RANGE);
    if (rc == 0 && !key_number(&key, hash, type, number))
        rc = MDB_NOTFOUND;
    if (rc == 0)
        memcpy(ret_key->bytes, key.mv_data, LMDB_KEY_FULL);
    mdb_cursor_close(cursor);
    return rc;
}

int lmdb_further_next(struct lmdb_txn *t, const uint64_t hash[2], uint64_t *token,
                      struct lmdb_further *ret)
{
    struct key key;
    MDB_val value;
    int rc = seek(t, hash, 'h', token, &key, &value);

    return rc != 0 ? rc : further_parse(&key, &value, ret);
}

/* ---- waiters ----------------------------------------------------------------------- */

static int waiter_parse(const struct key *key, const MDB_val *value, struct lmdb_waiter *ret)
{
    if (value->mv_size < LMDB_WAITER_FIXED || value->mv_size > sizeof *ret)
        return LMDB_E_CORRUPT;
    memcpy(ret, value->mv_data, value->mv_size);
    if (LMDB_WAITER_FIXED + (size_t)ret->label_len != value->mv_size ||
        ret->label_len > HF_LABEL_MAX ||
        ret->checksum != checksum(key->bytes, LMDB_KEY_FULL, ret, value->mv_size))
        return LMDB_E_CORRUPT;
    return 0;
}

int lmdb_waiter_put(struct lmdb_txn *t, const uint64_t hash[2], uint64_t ticket,
                    struct lmdb_waiter *w)
{
    struct key buffer;
    MDB_val key = full_key(&buffer, hash, 'w', ticket), value;

    value.mv_size = LMDB_WAITER_FIXED + w->label_len;
    value.mv_data = w;
    w->checksum = checksum(buffer.bytes, LMDB_KEY_FULL, w, value.mv_size);
    return mdb_put(t->mdb, t->directory->dbi, &key, &value, 0);
}

int lmdb_waiter_get(struct lmdb_txn *t, const uint64_t hash[2], uint64_t ticket,
                    struct lmdb_waiter *ret)
{
    struct key buffer;
    MDB_val key = full_key(&buffer, hash, 'w', ticket), value;
    int rc = mdb_get(t->mdb, t->directory->dbi, &key, &value);

    return rc != 0 ? rc : waiter_parse(&buffer, &value, ret);
}

int lmdb_waiter_del(struct lmdb_txn *t, const uint64_t hash[2], uint64_t ticket)
{
    struct key buffer;
    MDB_val key = full_key(&buffer, hash, 'w', ticket);

    return mdb_del(t->mdb, t->directory->dbi, &key, NULL);
}

int lmdb_waiter_next(struct lmdb_txn *t, const uint64_t hash[2], uint64_t *ticket,
                     struct lmdb_waiter *ret)
{
    struct key key;
    MDB_val value;
    int rc = seek(t, hash, 'w', ticket, &key, &value);

    return rc != 0 ? rc : waiter_parse(&key, &value, ret);
}

/* The last waiter before *ticket, or MDB_NOTFOUND. */
int lmdb_waiter_before(struct lmdb_txn *t, const uint64_t hash[2], uint64_t *ticket,
                       struct lmdb_waiter *ret)
{
    struct key buffer;
    MDB_val key = full_key(&buffer, hash, 'w', *ticket), value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(t->mdb, t->directory->dbi, &cursor);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    rc = mdb_cursor_get(cursor, &key, &value, rc == MDB_NOTFOUND ? MDB_LAST : MDB_PREV);
    if (rc == 0 && !key_number(&key, hash, 'w', ticket))
        rc = MDB_NOTFOUND;
    if (rc == 0) {
        memcpy(buffer.bytes, key.mv_data, LMDB_KEY_FULL);
        rc = waiter_parse(&buffer, &value, ret);
    }
    mdb_cursor_close(cursor);
    return rc;
}

/* ---- holders, wherever they are ------------------------------------------------------- */

int lmdb_holder_find(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                     const unsigned char owner[HFI_OWNER_LEN], uint64_t token,
                     struct lmdb_holder *ret)
{
    struct lmdb_further further;
    uint64_t at = token;
    int rc;

    if (rec->first.token && memcmp(rec->first.owner, owner, HFI_OWNER_LEN) == 0) {
        *ret = rec->first;
        return 0;
    }
    if (rec->further == 0)
        return MDB_NOTFOUND;
    if (token) {
        rc = lmdb_further_get(t, hash, token, &further);
        if (rc == 0 && memcmp(further.holder.owner, owner, HFI_OWNER_LEN) != 0)
            rc = MDB_NOTFOUND;
        if (rc == 0)
            *ret = further.holder;
        return rc;
    }
    while ((rc = lmdb_further_next(t, hash, &at, &further)) == 0) {
        if (memcmp(further.holder.owner, owner, HFI_OWNER_LEN) == 0) {
            *ret = further.holder;
            return 0;
        }
        at++;
    }
    return rc;
}

int lmdb_holder_update(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
                       const struct lmdb_holder *h)
{
    struct lmdb_further further;
    int rc;

    if (rec->first.token == h->token) {
        rec->first = *h;
        return 0;
    }
    rc = lmdb_further_get(t, hash, h->token, &further);
    if (rc != 0)
        return rc;
    return lmdb_further_put(t, hash, h, further.label, further.label_len);
}
