/* SPDX-License-Identifier: MIT */
/*
 * Our keys and values in memcached. Pure.
 *
 * A lease is one item. Its key is the prefix, "l:" and the name; or, if that would be longer than
 * memcached's 250 bytes or has a byte that is not allowed in a key, the prefix, "L:" and the name's
 * 128-bit hash. Its value is a line for people and programs, then the name, then the label:
 *
 *   holdfast1 <owner, 32 hex> <- or d: detached> <ttl ms> <since, unix ms> <name len> <label len>\n
 *
 * The name is always in it and always compared: two names with one hash get an error, never one lock.
 *
 * Its client flags are the ticket that its holder waited with (pace.h), or 0. The counter of the tickets has "t:" or "T:", and
 * its value is a decimal number.
 *
 * A cell's key has "c:" or "C:"; its value is "holdfastc1 <version> <name len>\n", the name, the bytes.
 */
#ifndef MEMCACHED_RECORD_H
#define MEMCACHED_RECORD_H

#include "engine/engine.h"

#define MEMCACHED_KEY_MAX    250
#define MEMCACHED_PREFIX_MAX 100
#define MEMCACHED_HEAD_MAX   160 /* the first line of a value */
#define MEMCACHED_RECORD_MAX (MEMCACHED_HEAD_MAX + HF_NAME_MAX + HF_LABEL_MAX)

struct memcached_key {
    unsigned len;
    char text[MEMCACHED_KEY_MAX];
};

/* `kind`: 'l' or 'c'. `prefix` has at most MEMCACHED_PREFIX_MAX bytes, all fit for a key. */
void memcached_key(const char *prefix, char kind, const struct hfi_name *name,
                   struct memcached_key *ret_key);
/* From the key of a lease that of its counter. */
void memcached_ticket_key(const char *prefix, const struct memcached_key *lease,
                          struct memcached_key *ret_key);
bool memcached_key_byte(unsigned char byte); /* can it be in a key? */

struct memcached_record {
    unsigned char owner[HFI_OWNER_LEN];
    bool detached;
    int64_t ttl_ms, since_ms;
    const unsigned char *name;
    uint32_t name_len;
    const char *label; /* not terminated */
    uint32_t label_len;
};

/* Its length. */
size_t memcached_record_write(const struct memcached_record *record,
                              char ret_text[MEMCACHED_RECORD_MAX]);
/* false: it is not one of ours. Points into `text`. */
bool memcached_record_read(const char *text, size_t len, struct memcached_record *ret_record);

struct memcached_cell {
    uint64_t version;
    const unsigned char *name;
    uint32_t name_len;
    const void *bytes;
    size_t len;
};

/* The first line and the name, before the bytes; its length. */
size_t memcached_cell_head(const struct memcached_cell *cell,
                           char ret_text[MEMCACHED_HEAD_MAX + HF_NAME_MAX]);
bool memcached_cell_read(const char *text, size_t len, struct memcached_cell *ret_cell);

#endif
