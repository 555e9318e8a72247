/* SPDX-License-Identifier: MIT */
/*
 * What we write into etcd and read from it, as bytes: keys and values. Pure: no I/O, no clock.
 *
 * Keys, below the store's prefix P (etcd's keys are bytes; a name is escaped so that no name's keys
 * lie within another's):
 *
 *   P/locks/NAME/KIND/PLACE   one claim: it holds or waits; its create revision is its token
 *   P/cells/NAME              a cell; its mod revision is its version
 *   P/told/STORE/OWNER        "your claim was broken", for the process that opened STORE
 *
 *   NAME   the name, with '%', '/', bytes below 0x21 and above 0x7e as %XX
 *   KIND   m: a mutex, r: a read-write lock, sN: a semaphore of capacity N
 *   PLACE  32 hexadecimal digits: the id of a store, and a number that none of its other claims has
 *          now. A store uses its places again and again: etcd looks at every key that ever was in
 *          a range until its history is compacted, so a new key for every acquisition would make each
 *          a little slower than the last.
 *   OWNER  32 hexadecimal digits, new for every acquisition
 *
 * A claim's value: "1 PERMITS TTL SINCE STORE FLAGS OWNER LABEL": decimal numbers, TTL in seconds,
 * SINCE the wall clock of the client, in ms; STORE (the store that is told of a break) 16
 * hexadecimal digits; FLAGS "d" (detached), "w" (watched: its holder is told that others wait) or
 * "-"; LABEL all bytes that are left.
 */
#ifndef HFI_ETCD_TEXT_H
#define HFI_ETCD_TEXT_H

#include "engine/engine.h"
#include "engine/etcd/conf.h"
#include "engine/etcd/proto.h"
#include "util/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETCD_OWNER_HEX (2 * HFI_OWNER_LEN)
#define ETCD_STORE_HEX 16
#define ETCD_KIND_MAX  12
#define ETCD_KEY_MAX \
    (ETCD_PREFIX_MAX + 8 + 3 * HF_NAME_MAX + 1 + ETCD_KIND_MAX + 1 + ETCD_OWNER_HEX + 1)

#define ETCD_VALUE_MAX (HF_LABEL_MAX + 160)

/* A key, or the beginning or end of a range of keys. */
struct etcd_key {
    size_t len;
    char bytes[ETCD_KEY_MAX];
};

/* In claim->room. */
struct etcd_claim {
    struct hfi_list listed;   /* in store->claims, while it is held */
    struct etcd_lease *lease; /* a reference; NULL: none */
    uint64_t store,
        slot; /* of its key: the id of the store that made it, and a number of that store */
    struct etcd_want *want; /* NULL: it is not watched */
    bool held;
    bool lapsed; /* expired by our clock: its key is being deleted */
};

static inline struct etcd_claim *etcd_claim(struct hfi_claim *claim)
{
    return (struct etcd_claim *)(void *)claim->room;
}

static inline const struct etcd_claim *etcd_claim_const(const struct hfi_claim *claim)
{
    return (const struct etcd_claim *)(const void *)claim->room;
}

enum etcd_area { ETCD_LOCKS, ETCD_CELLS, ETCD_TOLD };

/* P/locks/NAME/KIND/PLACE */
void etcd_claim_key(const char *prefix, const struct hfi_claim *claim, struct etcd_key *ret_key);
/* The first key of a range, and the one after its last: all keys of a name; ... */
void etcd_name_range(const char *prefix, const unsigned char *name, uint32_t len,
                     struct etcd_key *ret_from, struct etcd_key *ret_to);
/* ... of the name's claims of this claim's kind; ... */
void etcd_kind_range(const char *prefix, const struct hfi_claim *claim, struct etcd_key *ret_from,
                     struct etcd_key *ret_to);
/* ... all names, or the notes for a store. */
void etcd_area_range(const char *prefix, enum etcd_area area, const char *store,
                     struct etcd_key *ret_from, struct etcd_key *ret_to);
void etcd_cell_key(const char *prefix, const struct hfi_name *name, struct etcd_key *ret_key);
void etcd_told_key(const char *prefix, const char *store, const char *owner_hex,
                   struct etcd_key *ret_key);

/* What a key and a value say. */
struct etcd_record {
    uint32_t name_len;
    unsigned char name[HF_NAME_MAX];
    enum hfi_mode mode;
    uint32_t capacity, permits;
    unsigned char place[HFI_OWNER_LEN]; /* of the key */
    unsigned char owner[HFI_OWNER_LEN]; /* of the value */
    int64_t ttl_s, since_ms;
    char store[ETCD_STORE_HEX + 1];
    bool detached, watched;
    char label[HF_LABEL_MAX + 1];
    uint64_t revision; /* create revision */
    int64_t lease;
};

/* false: not one of ours. */
bool etcd_read_key(const char *prefix, const char *key, size_t len, struct etcd_record *ret_record);
bool etcd_read_value(const char *value, size_t len, struct etcd_record *ret_record);
/* Returns its length. */
size_t etcd_write_value(const struct hfi_claim *claim, int64_t ttl_s, int64_t since_ms,
                        const char *store, const char *label, char ret_value[ETCD_VALUE_MAX]);
/* The 32 digits at the end of a key; false: there are none. */
bool etcd_key_place(const char *key, size_t len, unsigned char ret_place[HFI_OWNER_LEN]);

#endif
