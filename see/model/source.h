/* SPDX-License-Identifier: MIT */
/*
 * A store that is looked at all the time: one thread opens it, waits for changes, inspects it and feeds a model. It never creates a
 * store. It inspects at most four times a second and spends at most a fifth of its time with that. If the store is away, the thread
 * tries again, with pauses that grow to 15 s.
 */
#ifndef SEE_SOURCE_H
#define SEE_SOURCE_H

#include "model.h"

struct see_source;

struct see_source_options {
    const char *name;  /* for people: the profile; NULL or "": made of the URL */
    const char *url;   /* NULL: as hf_open(NULL). Copied; wiped when the source is closed */
    const char *label; /* what `ask` tells a holder; NULL: the library's default */
    /* Called without a lock, on the source's thread, after the model may have changed. It must not block. NULL: none. */
    void (*changed)(void *arg);
    void *arg;
};

/* What never changes once the store has been opened for the first time; before that `opened` is false, and the engine is known by
 * the URL alone. Texts live as long as the source. */
struct see_source_info {
    const char *name, *location, *engine; /* no secret in them */
    bool opened;
    uint64_t caps; /* HF_CAP_* */
};

/* Starts the thread; nothing is opened yet. NULL: out of memory, or of threads. */
struct see_source *see_source_start(const struct see_source_options *options);
/* Ends the thread. It waits until a call to the store returns (a few seconds, if the store is away). */
void see_source_stop(struct see_source *source);
/* Try again now, and look now. */
void see_source_poke(struct see_source *source);

/* Under the lock the model stays as it is. Keep it short: copy what you need. */
struct see_model *see_source_lock(struct see_source *source);
void see_source_unlock(struct see_source *source);
/* Not under the lock. */
struct see_source_info see_source_info(struct see_source *source);
/* The handle, for calls of your own; NULL: not open. It stays until see_source_stop() (a handle that has ended is answered with
 * HF_INVALID, so a race does no harm). */
hf_store *see_source_store(struct see_source *source);

/* hf_lease_break() and hf_ask(), which block for a round trip; then it looks again. */
hf_status see_source_break(struct see_source *source, const void *name, size_t len, uint64_t token,
                           hf_error *err);
hf_status see_source_ask(struct see_source *source, const void *name, size_t len, const char *text,
                         hf_error *err);

int64_t see_now_ms(void); /* CLOCK_REALTIME */

/* ---- stores.c: what `holdfast` hands to holdfast-top and holdfast-serve ------------------------- */

/* In a file descriptor, so that no password is in an argument or in the environment: for each store a name and a URL, each with a
 * NUL behind it; either may be empty. The descriptor is closed. */
#define SEE_STORES_MAX 32
struct see_stores {
    size_t count;
    struct {
        const char *name, *url;
    } items[SEE_STORES_MAX];
    char *bytes;
    size_t size;
};
/* NULL, or what is wrong. */
const char *see_stores_read(int fd, struct see_stores *ret_stores);
void see_stores_done(struct see_stores *stores); /* wipes it */

#endif
