/* SPDX-License-Identifier: MIT */
/*
 * Stale statements: statements that may still run although their connection is gone.
 *
 * A server that was stopped, or is slow, has what we sent in its receive buffer and executes it
 * when it goes on, perhaps long after we have given up. An ACQUIRE that is executed after we were told
 * "no such owner" would grant to nobody, for a whole ttl. So before a release (or a failed acquire) of a
 * claim is believed, every connection on which an ACQUIRE of that claim was cut off must be gone from the
 * server: what it has done until then the release finds, and it does nothing any more.
 *
 * Memory for a stale statement is got before the statement leaves.
 */
#include "engine/sql/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

struct sql_stale_statement {
    struct sql_stale_statement *next;
    unsigned char owner[HFI_OWNER_LEN];
    int64_t server_id, since;
};

bool sql_stale_reserve(struct sql_connection *connection)
{
    if (!connection->stale)
        connection->stale = hfi_calloc(1, sizeof *connection->stale);
    return connection->stale != NULL;
}

void sql_stale_add(struct sql_connection *connection, const struct hfi_claim *claim)
{
    struct sql_store *store = connection->store;
    struct sql_stale_statement *stale = connection->stale;

    connection->stale = NULL;
    memcpy(stale->owner, claim->owner, HFI_OWNER_LEN);
    stale->server_id = connection->server_id;
    stale->since = connection->since;
    pthread_mutex_lock(&store->lock);
    stale->next = store->stale_statements;
    store->stale_statements = stale;
    pthread_mutex_unlock(&store->lock);
}

/* Take one stale statement of this owner out of the list; NULL: there is none. */
static struct sql_stale_statement *take(struct sql_store *store, const unsigned char *owner)
{
    struct sql_stale_statement **at, *stale;

    pthread_mutex_lock(&store->lock);
    for (at = &store->stale_statements; *at && memcmp((*at)->owner, owner, HFI_OWNER_LEN) != 0;)
        at = &(*at)->next;
    stale = *at;
    if (stale)
        *at = stale->next;
    pthread_mutex_unlock(&store->lock);
    return stale;
}

hf_status sql_stale_wait_until_gone(struct sql_store *store, const struct hfi_claim *claim,
                                    int64_t deadline_ms, hf_error *err)
{
    struct sql_stale_statement *stale;

    while ((stale = take(store, claim->owner))) {
        hf_status status =
            store->driver->wait_until_gone(store, stale->server_id, stale->since, deadline_ms, err);

        if (status != HF_OK) {
            pthread_mutex_lock(&store->lock);
            stale->next = store->stale_statements;
            store->stale_statements = stale;
            pthread_mutex_unlock(&store->lock);
            return hfi_error_wrap(err, "a statement that was cut off may still be executed");
        }
        hfi_free(stale);
    }
    return HF_OK;
}

void sql_stale_free(struct sql_store *store)
{
    struct sql_stale_statement *stale;

    while ((stale = store->stale_statements)) {
        store->stale_statements = stale->next;
        hfi_free(stale);
    }
}
