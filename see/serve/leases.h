/* SPDX-License-Identifier: MIT */
/*
 * Leases of clients without a binding: what is known of each, and what has been. leases.c has the
 * table, acquire.c the way to a grant, lease_api.c what holders ask.
 *
 *   GOING --granted--> HELD --released, lost--> (gone; its key is remembered)
 *     \--refused, or nobody waits for it any more--> (gone)
 *
 * A lease with a ttl is detached in the store: it lives for its ttl whatever becomes of this server, so
 * a client may rely on it; nobody renews it but its client. A lease with_connection is an ordinary
 * one, renewed by the library, and is released when its connection closes.
 */
#ifndef SERVE_LEASES_H
#define SERVE_LEASES_H

#include "body.h"
#include "serve.h"

#define KEY_LEN_MAX  64 /* Idempotency-Key */
#define PAST_KEEP_MS 600000
#define PAST_MAX     100000

enum lease_state { LEASE_GOING, LEASE_HELD, LEASE_ENDED };

struct lease {
    struct lease *next, *before; /* in its bucket */
    struct lease *all_next, *all_before;
    char id[LEASE_ID_LEN + 1];
    char client[CLIENT_NAME_MAX + 1];
    char key[KEY_LEN_MAX + 1]; /* "": none */
    enum lease_state state;
    struct store *store;
    struct lease_body ask;
    hf_lease *handle;
    hf_op *op;      /* GOING: the acquire */
    bool abandoned; /* GOING: all that waited for it are gone */
    bool told_lost;
    uint64_t token;
    int64_t ttl_ms;
    struct request *waiting; /* by ->next; GOING */
    /* with_connection */
    struct stream *stream;
    struct out lines; /* to be sent next */
    int64_t alive_ms; /* the last line */
};

/* A new one, in the table; NULL: no memory or no random numbers. */
struct lease *lease_new(const char *client);
/* Out of the table, and freed; if it has a key and was granted, the key is remembered. */
void lease_free(struct lease *lease);
struct lease *lease_find(const char *client, const char *id);
struct lease *lease_find_key(const char *client, const char *key);
/* Has the lease of this key ended? */
bool past_find(const char *client, const char *key);
size_t lease_count_of(const char *client);
struct lease *lease_first(void); /* then ->all_next */

/* Give back what is held, and free the lease when the store has answered. `ask`, if not NULL, gets the
 * answer. */
void lease_give_back(struct lease *lease, struct request *ask);
/* {"lease": ..., "token": ...}: members of an open object. */
void lease_put(struct out *out, const struct lease *lease);
/* A line for a lease with_connection. */
void lease_say(struct lease *lease, const char *event, const char *text);

#endif
