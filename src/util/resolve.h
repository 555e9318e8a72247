/* SPDX-License-Identifier: MIT */
/*
 * Names to socket addresses, without blocking the caller. getaddrinfo(3) has no time limit, so for
 * names it runs on a thread of its own, which belongs to the lookup: the caller may drop the lookup
 * at any time.
 */
#ifndef HFI_RESOLVE_H
#define HFI_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define HFI_PLACES_MAX 16 /* addresses of one name that are tried */

struct hfi_place {
    struct sockaddr_storage address;
    socklen_t len;
};

struct hfi_places {
    size_t count;
    struct hfi_place at[HFI_PLACES_MAX];
};

struct hfi_lookup;

/* `host` as a numeric address, at once. false: it is a name. */
bool hfi_resolve_numeric(const char *host, uint16_t port, struct hfi_places *ret_places);

/* Begin to look up a name. NULL: no memory, thread or descriptor is left. */
struct hfi_lookup *hfi_lookup_new(const char *host, uint16_t port);
/* Readable once it is finished. */
int hfi_lookup_fd(const struct hfi_lookup *lookup);
/* Block until it is finished, or until_ms. */
void hfi_lookup_wait(const struct hfi_lookup *lookup, int64_t until_ms);
/* false: still busy. *ret_wrong: NULL, or a static text that says why there are no addresses. */
bool hfi_lookup_finished(const struct hfi_lookup *lookup, struct hfi_places *ret_places,
                         const char **ret_wrong);
/* Drop the lookup; its thread may still be busy, and ends by itself. NULL is fine. */
void hfi_lookup_drop(struct hfi_lookup *lookup);

#endif
