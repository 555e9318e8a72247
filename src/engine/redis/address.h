/* SPDX-License-Identifier: MIT */
/* Addresses that a server sent: made, compared and shown like those of the URL. */
#ifndef HFI_REDIS_ADDRESS_H
#define HFI_REDIS_ADDRESS_H

#include "engine/redis/conf.h"
#include "engine/redis/reply.h"

/* NULL: out of memory, or what a server sent is no host. */
struct hfi_address *hfi_address_new(const char *host, size_t len, uint16_t port);
struct hfi_address *hfi_address_copy(const struct hfi_address *address);
void hfi_address_free(struct hfi_address *address); /* NULL is fine */
bool hfi_address_is(const struct hfi_address *address, const char *host, size_t len, uint16_t port);
bool hfi_address_same(const struct hfi_address *a, const struct hfi_address *b);

/* A redirection by a node of a cluster: "MOVED 3999 10.0.0.4:6381". */
struct hfi_redirect {
    uint32_t slot;
    const char *host; /* in the reply; len 0: the host that said it */
    size_t len;
    uint16_t port;
};
/* false: it is not of that form. */
bool hfi_redirect_parse(const struct hfi_reply *reply, struct hfi_redirect *ret_redirect);

#endif
