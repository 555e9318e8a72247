/* SPDX-License-Identifier: MIT */
/* Keys and values, written and read. See text.h for what they look like. */
#include "engine/etcd/text.h"

#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const areas[] = { "/locks/", "/cells/", "/told/" };

/* ---- writing -------------------------------------------------------------------------------- */

static void put(struct etcd_key *key, const char *text)
{
    size_t len = strlen(text);

    memcpy(key->bytes + key->len, text, len);
    key->len += len;
}

static void put_name(struct etcd_key *key, const unsigned char *name, uint32_t len)
{
    static const char digits[] = "0123456789ABCDEF";

    for (uint32_t i = 0; i < len; i++) {
        if (name[i] > 0x20 && name[i] < 0x7f && name[i] != '%' && name[i] != '/') {
            key->bytes[key->len++] = (char)name[i];
            continue;
        }
        key->bytes[key->len++] = '%';
        key->bytes[key->len++] = digits[name[i] >> 4];
        key->bytes[key->len++] = digits[name[i] & 15];
    }
}

/* P/locks/NAME/ */
static void put_place(struct etcd_key *key, const char *prefix, enum etcd_area area,
                      const unsigned char *name, uint32_t len)
{
    key->len = 0;
    put(key, prefix);
    put(key, areas[area]);
    put_name(key, name, len);
}

static void put_kind(struct etcd_key *key, const struct hfi_claim *claim)
{
    char kind[ETCD_KIND_MAX + 1];

    if (claim->mode == HFI_MODE_SEMAPHORE)
        snprintf(kind, sizeof kind, "/s%u", (unsigned)claim->capacity);
    else
        snprintf(kind, sizeof kind, "/%c", claim->mode == HFI_MODE_RW ? 'r' : 'm');
    put(key, kind);
}

void etcd_claim_key(const char *prefix, const struct hfi_claim *claim, struct etcd_key *ret_key)
{
    char place[ETCD_OWNER_HEX + 1];

    put_place(ret_key, prefix, ETCD_LOCKS, claim->name.bytes, claim->name.len);
    put_kind(ret_key, claim);
    put(ret_key, "/");
    snprintf(place, sizeof place, "%016llx%016llx",
             (unsigned long long)etcd_claim_const(claim)->store,
             (unsigned long long)etcd_claim_const(claim)->slot);
    put(ret_key, place);
}

/* '0' follows '/': from "x/" to "x0" lies all that begins with "x/". */
static void make_range(struct etcd_key *from, struct etcd_key *to)
{
    *to = *from;
    put(from, "/");
    put(to, "0");
}

void etcd_name_range(const char *prefix, const unsigned char *name, uint32_t len,
                     struct etcd_key *ret_from, struct etcd_key *ret_to)
{
    put_place(ret_from, prefix, ETCD_LOCKS, name, len);
    make_range(ret_from, ret_to);
}

void etcd_kind_range(const char *prefix, const struct hfi_claim *claim, struct etcd_key *ret_from,
                     struct etcd_key *ret_to)
{
    put_place(ret_from, prefix, ETCD_LOCKS, claim->name.bytes, claim->name.len);
    put_kind(ret_from, claim);
    make_range(ret_from, ret_to);
}

void etcd_area_range(const char *prefix, enum etcd_area area, const char *store,
                     struct etcd_key *ret_from, struct etcd_key *ret_to)
{
    ret_from->len = 0;
    put(ret_from, prefix);
    put(ret_from, areas[area]);
    if (store)
        put(ret_from, store);
    else
        ret_from->len--; /* make_range() adds the slash */
    make_range(ret_from, ret_to);
}

void etcd_cell_key(const char *prefix, const struct hfi_name *name, struct etcd_key *ret_key)
{
    put_place(ret_key, prefix, ETCD_CELLS, name->bytes, name->len);
}

void etcd_told_key(const char *prefix, const char *store, const char *owner_hex,
                   struct etcd_key *ret_key)
{
    ret_key->len = 0;
    put(ret_key, prefix);
    put(ret_key, areas[ETCD_TOLD]);
    put(ret_key, store);
    put(ret_key, "/");
    put(ret_key, owner_hex);
}

size_t etcd_write_value(const struct hfi_claim *claim, int64_t ttl_s, int64_t since_ms,
                        const char *store, const char *label, char ret_value[ETCD_VALUE_MAX])
{
    char owner[ETCD_OWNER_HEX + 1];

    hfi_hex(claim->owner, HFI_OWNER_LEN, owner);
    return (size_t)snprintf(ret_value, ETCD_VALUE_MAX, "1 %u %lld %lld %s %s %s %.*s",
                            (unsigned)claim->permits, (long long)ttl_s, (long long)since_ms, store,
                            claim->flags & HFI_CLAIM_DETACHED  ? "d"
                            : claim->flags & HFI_CLAIM_WATCHED ? "w"
                                                               : "-",
                            owner, HF_LABEL_MAX, label);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static bool read_name(const char *from, const char *to, struct etcd_record *record)
{
    record->name_len = 0;
    while (from < to) {
        unsigned char byte = (unsigned char)*from++;

        if (byte == '%' && (to - from < 2 || !hfi_unhex(from, 2, &byte, 1)))
            return false;
        if (from[-1] == '%')
            from += 2;
        if (record->name_len == HF_NAME_MAX)
            return false;
        record->name[record->name_len++] = byte;
    }
    return record->name_len > 0;
}

static bool read_kind(const char *from, size_t len, struct etcd_record *record)
{
    char digits[ETCD_KIND_MAX] = { 0 };
    uint64_t capacity = 0;

    if (len == 1 && *from == 'm') {
        record->mode = HFI_MODE_MUTEX;
        record->capacity = 1;
        return true;
    }
    if (len == 1 && *from == 'r') {
        record->mode = HFI_MODE_RW;
        record->capacity = HFI_RW_MAX;
        return true;
    }
    if (len < 2 || len >= sizeof digits || *from != 's')
        return false;
    memcpy(digits, from + 1, len - 1);
    if (hfi_parse_u64(digits, 1, HF_CAPACITY_MAX, &capacity))
        return false;
    record->mode = HFI_MODE_SEMAPHORE;
    record->capacity = (uint32_t)capacity;
    return true;
}

bool etcd_key_place(const char *key, size_t len, unsigned char ret_place[HFI_OWNER_LEN])
{
    return len > ETCD_OWNER_HEX && key[len - ETCD_OWNER_HEX - 1] == '/' &&
           hfi_unhex(key + len - ETCD_OWNER_HEX, ETCD_OWNER_HEX, ret_place, HFI_OWNER_LEN);
}

bool etcd_read_key(const char *prefix, const char *key, size_t len, struct etcd_record *ret_record)
{
    size_t skip = strlen(prefix), area = strlen(areas[ETCD_LOCKS]);
    const char *end = key + len - ETCD_OWNER_HEX - 1, *name_end, *from;

    if (len <= skip + area + ETCD_OWNER_HEX + 1 || memcmp(key, prefix, skip) != 0 ||
        memcmp(key + skip, areas[ETCD_LOCKS], area) != 0 ||
        !etcd_key_place(key, len, ret_record->place))
        return false;
    from = key + skip + area;
    name_end = memchr(from, '/', (size_t)(end - from));
    return name_end && read_name(from, name_end, ret_record) &&
           read_kind(name_end + 1, (size_t)(end - name_end - 1), ret_record);
}

/* The next word; NULL: there is none. */
static const char *word(const char **at, const char *end, char *ret_word, size_t room)
{
    const char *space = memchr(*at, ' ', (size_t)(end - *at));
    size_t len = space ? (size_t)(space - *at) : 0;

    if (!space || len >= room)
        return NULL;
    memcpy(ret_word, *at, len);
    ret_word[len] = 0;
    *at = space + 1;
    return ret_word;
}

bool etcd_read_value(const char *value, size_t len, struct etcd_record *ret_record)
{
    const char *at = value, *end = value + len;
    char text[32], store[32], flags[32], owner[ETCD_OWNER_HEX + 1];
    uint64_t numbers[4];
    size_t label_len;

    for (size_t i = 0; i < 4; i++)
        if (!word(&at, end, text, sizeof text) || hfi_parse_u64(text, 0, INT64_MAX, &numbers[i]))
            return false;
    if (numbers[0] != 1 || numbers[1] == 0 || numbers[1] > HFI_RW_MAX)
        return false;
    if (!word(&at, end, store, sizeof store) || strlen(store) != ETCD_STORE_HEX ||
        strspn(store, "0123456789abcdef") != ETCD_STORE_HEX)
        return false;
    if (!word(&at, end, flags, sizeof flags) || !word(&at, end, owner, sizeof owner) ||
        !hfi_unhex(owner, strlen(owner), ret_record->owner, HFI_OWNER_LEN) ||
        (size_t)(end - at) > HF_LABEL_MAX)
        return false;
    ret_record->permits = (uint32_t)numbers[1];
    ret_record->ttl_s = (int64_t)numbers[2];
    ret_record->since_ms = (int64_t)numbers[3];
    memcpy(ret_record->store, store, sizeof ret_record->store);
    ret_record->detached = strcmp(flags, "d") == 0;
    ret_record->watched = strcmp(flags, "w") == 0;
    label_len = (size_t)(end - at);
    memcpy(ret_record->label, at, label_len);
    ret_record->label[label_len] = 0;
    return true;
}
