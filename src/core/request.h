/* SPDX-License-Identifier: MIT */
/* Requests, checked against what callers may ask for and what the engine can do. */
#ifndef HFI_REQUEST_H
#define HFI_REQUEST_H

#include "engine/engine.h"

struct hfi_tag;

#define HFI_STRUCT_MAX 4096 /* no option struct is larger, in any version */

/* The lease whose place a new one takes: convert.c. */
struct hfi_replaced {
    hf_lease *handle;
    unsigned char owner[HFI_OWNER_LEN];
    /* as of struct hfi_lease: its callback comes from there, whichever form converts it */
    bool in_loop;
};

/* A valid request. Points into the caller's memory. */
struct hfi_checked_request {
    const hf_acquire_request *request; /* in full size */
    const unsigned char *name;
    uint32_t name_len;
    enum hfi_mode mode;
    uint32_t capacity, permits;
    int64_t ttl_ms;  /* to ask the store for; 0: none */
    bool renew;      /* renewed by itself */
    bool pass;       /* takes part in the local queue */
    bool may_linger; /* one of those that may; and for how long, 0: it does not: */
    int64_t linger_ms;
    const struct hfi_tag *tag;           /* to put behind the label; NULL: none (session.h) */
    const struct hfi_replaced *replaced; /* the lease that it converts; NULL: none */
    /* one of several requests of which one is enough: the tag of them all; NULL: it is not */
    struct hfi_tag *any;
};

/*
 * Check it for an engine; `queue`: is there a local queue for it? `whole` is where
 * a request of another size is copied to. HF_INVALID and HF_UNSUPPORTED name the field.
 */
hf_status hfi_request_check(const struct hfi_promises *promises, bool queue,
                            const hf_acquire_request *request, hf_acquire_request *whole,
                            struct hfi_checked_request *ret_checked, hf_error *err);

/* Check a name. HF_CSTRING as name_len: it ends with NUL; 0 is refused, and nothing is read. */
hf_status hfi_name_check(const void *name, size_t name_len, uint32_t *ret_len, hf_error *err);

static inline int64_t hfi_ttl_least(const struct hfi_promises *promises)
{
    return promises->min_ttl_ms > HF_TTL_MIN_MS ? promises->min_ttl_ms : HF_TTL_MIN_MS;
}

/* Is a ttl one that the engine takes? `field` names it in the error. */
hf_status hfi_ttl_check(const struct hfi_promises *promises, const char *field, int64_t ttl_ms,
                        hf_error *err);

/* The length of the label that is kept: at most `most` bytes, and no partial character. */
size_t hfi_label_len(const char *label, size_t most);

/* Copy an option struct that the caller says is `size` bytes into `whole` of `whole_size`, the rest
 * zero. false: the size is not valid (`least` is the smallest), or the caller set a field that we
 * do not know. */
bool hfi_struct_copy(void *whole, size_t whole_size, const void *given, size_t size, size_t least);
/* The same for a struct that a call cannot do without, with a text for its refusal; `init` is the name of its HF_*_INIT. */
hf_status hfi_request_copy(void *whole, size_t whole_size, const void *given, size_t least,
                           const char *init, hf_error *err);

#endif
