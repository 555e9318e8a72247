/* SPDX-License-Identifier: MIT */
/*
 * memcached's text protocol, as much of it as we need: what the server says, one reply at a time.
 * Pure. Strict: what is not exactly of a form that we know is HFI_MC_BAD, and the connection that
 * it came from is of no use any more, for nobody knows where the next reply begins.
 */
#ifndef HFI_MC_PROTO_H
#define HFI_MC_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HFI_MC_LINE_MAX  2048       /* one line of a reply */
#define HFI_MC_VALUE_MAX (8u << 20) /* one value; the server's own limit is 1 MB unless told */

enum hfi_mc_kind {
    HFI_MC_HD,      /* done */
    HFI_MC_VA,      /* done, and a value */
    HFI_MC_EN,      /* get: no such key */
    HFI_MC_NS,      /* not stored: it is there */
    HFI_MC_EX,      /* the CAS number is another one */
    HFI_MC_NF,      /* no such key */
    HFI_MC_MN,      /* to mn */
    HFI_MC_ERROR,   /* SERVER_ERROR: this command was not done, and the next reply is the next's */
    HFI_MC_REFUSED, /* ERROR, CLIENT_ERROR: what we said was not understood, or not allowed */
    HFI_MC_STORED,  /* to set */
    HFI_MC_VERSION, /* text: the version */
    HFI_MC_STAT,    /* text: "name value" */
    HFI_MC_END,     /* after STATs, or after the lines of a dump */
    HFI_MC_DUMPED,  /* text: one line of lru_crawler metadump */
    HFI_MC_BUSY     /* to lru_crawler: another one is under way */
};

struct hfi_mc_reply {
    enum hfi_mc_kind kind;
    const char *text; /* what follows the first word; or the value. In the buffer */
    size_t len;
    bool has_cas, has_ttl, has_opaque;
    uint64_t cas;
    int64_t ttl_s; /* -1: never */
    uint64_t opaque;
};

enum hfi_mc_result { HFI_MC_MORE, HFI_MC_DONE, HFI_MC_BAD };

/* The first reply of `bytes`, and how many bytes it has. MORE: it is not whole yet. */
enum hfi_mc_result hfi_mc_parse(const char *bytes, size_t len, struct hfi_mc_reply *ret_reply,
                                size_t *ret_used);

/* Decimal digits and nothing else, up to `max`. */
bool hfi_mc_number(const char *text, size_t len, uint64_t max, uint64_t *ret_value);

#endif
