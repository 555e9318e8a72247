/* SPDX-License-Identifier: MIT */
/*
 * The part of memcached's text protocol that we need: parses replies, one at a time. Pure. Strict:
 * a reply that is not exactly of a known form is MEMCACHED_BAD, and then the connection cannot be
 * used any more, since the beginning of the next reply is not known.
 */
#ifndef MEMCACHED_PROTO_H
#define MEMCACHED_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMCACHED_LINE_MAX  2048       /* one line of a reply */
#define MEMCACHED_VALUE_MAX (8u << 20) /* one value; the server's own limit is 1 MB unless told */

enum memcached_kind {
    MEMCACHED_HD,      /* done */
    MEMCACHED_VA,      /* done, and a value */
    MEMCACHED_EN,      /* get: no such key */
    MEMCACHED_NS,      /* not stored: it is there */
    MEMCACHED_EX,      /* the CAS number is another one */
    MEMCACHED_NF,      /* no such key */
    MEMCACHED_MN,      /* to mn */
    MEMCACHED_ERROR,   /* SERVER_ERROR: this command was not executed; replies still match */
    MEMCACHED_REFUSED, /* ERROR, CLIENT_ERROR: the command was not understood, or not allowed */
    MEMCACHED_STORED,  /* to set */
    MEMCACHED_VERSION, /* text: the version */
    MEMCACHED_STAT,    /* text: "name value" */
    MEMCACHED_END,     /* after STATs, or after the lines of a dump */
    MEMCACHED_DUMPED,  /* text: one line of lru_crawler metadump */
    MEMCACHED_BUSY     /* to lru_crawler: another one is under way */
};

struct memcached_reply {
    enum memcached_kind kind;
    const char *text; /* what follows the first word; or the value. In the buffer */
    size_t len;
    bool has_cas, has_ttl, has_opaque;
    bool stale;     /* X: somebody has marked the item */
    uint32_t flags; /* the client flags, if asked for */
    uint64_t cas;
    int64_t ttl_s; /* -1: never */
    uint64_t opaque;
};

enum memcached_result { MEMCACHED_MORE, MEMCACHED_DONE, MEMCACHED_BAD };

/* The first reply of `bytes`, and how many bytes it has. MORE: it is not whole yet. */
enum memcached_result memcached_parse(const char *bytes, size_t len,
                                      struct memcached_reply *ret_reply, size_t *ret_used);

/* Decimal digits and nothing else, up to `max`. */
bool memcached_number(const char *text, size_t len, uint64_t max, uint64_t *ret_value);

#endif
