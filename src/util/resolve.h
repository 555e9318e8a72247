/* SPDX-License-Identifier: MIT */
/*
 * Names to socket addresses, without making anybody wait: getaddrinfo(3) has no time limit of its
 * own, so for names it runs on a thread of its own, which belongs to the lookup and not to the thread that
 * asked: the asker may go away at any time.
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
/* false: still busy. *ret_wrong: NULL, or in words why there are no places (static). */
bool hfi_lookup_finished(const struct hfi_lookup *lookup, struct hfi_places *ret_places,
                         const char **ret_wrong);
/* Ask no more; its thread may still be busy, and ends by itself. NULL is fine. */
void hfi_lookup_drop(struct hfi_lookup *lookup);

#endif
