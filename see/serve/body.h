/* SPDX-License-Identifier: MIT */
/* The JSON bodies that clients send. Every refusal names the field. Pure; fuzzed. */
#ifndef SERVE_BODY_H
#define SERVE_BODY_H

#include "uri.h"

#define BODY_MAX       8192
#define WAIT_MAX_MS    60000 /* of a long poll: longer waits are repeated by the client */
#define TTL_DEFAULT_MS 30000
#define TTL_MAX_MS     3600000
#define BODY_TEXT_MAX  128

struct lease_body {
    struct bytes name;
    hf_kind kind;
    uint32_t capacity, permits;
    int64_t ttl_ms, wait_ms; /* set: defaults are filled in */
    char label[HF_LABEL_MAX + 1];
    bool with_connection;
};

struct break_body {
    uint64_t token;
    struct bytes name; /* typed by a person: it must be that of the URL */
};

/* NULL, or what is wrong, as a text in `why`. */
const char *body_lease(const char *text, size_t len, struct lease_body *ret_body,
                       char why[BODY_TEXT_MAX]);
const char *body_break(const char *text, size_t len, struct break_body *ret_body,
                       char why[BODY_TEXT_MAX]);
/* Do both ask for the same? */
bool body_same(const struct lease_body *a, const struct lease_body *b);
/* {} or {"ttl_ms": N}; no body at all is fine too. 0: as before. */
const char *body_renew(const char *text, size_t len, int64_t *ret_ttl_ms, char why[BODY_TEXT_MAX]);

#endif
