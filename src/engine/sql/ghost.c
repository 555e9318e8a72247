/* SPDX-License-Identifier: MIT */
/*
 * Ghosts: statements that may still run although their link is gone.
 *
 * A server that was stopped, or is slow, has what we sent in its receive buffer and executes it
 * when it goes on, perhaps long after we have given up. An ACQUIRE that is executed after we were told
 * "no such owner" would grant to nobody, for a whole ttl. So before a release (or a failed acquire) of a
 * claim is believed, every connection on which an ACQUIRE of that claim was cut off must be gone from the
 * server: what it has done until then the release finds, and it does nothing any more.
 *
 * Memory for a ghost is got before the statement leaves.
 */
#include "engine/sql/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

struct sql_ghost {
    struct sql_ghost *next;
    unsigned char owner[HFI_OWNER_LEN];
    int64_t server_id, since;
};

bool sql_ghost_ready(struct sql_link *link)
{
    if (!link->ghost)
        link->ghost = hfi_calloc(1, sizeof *link->ghost);
    return link->ghost != NULL;
}

void sql_ghost_add(struct sql_link *link, const struct hfi_claim *claim)
{
    struct hfi_conn *conn = link->conn;
    struct sql_ghost *ghost = link->ghost;

    link->ghost = NULL;
    memcpy(ghost->owner, claim->owner, HFI_OWNER_LEN);
    ghost->server_id = link->server_id;
    ghost->since = link->since;
    pthread_mutex_lock(&conn->lock);
    ghost->next = conn->ghosts;
    conn->ghosts = ghost;
    pthread_mutex_unlock(&conn->lock);
}

/* Take one ghost of this owner out of the list; NULL: there is none. */
static struct sql_ghost *take(struct hfi_conn *conn, const unsigned char *owner)
{
    struct sql_ghost **at, *ghost;

    pthread_mutex_lock(&conn->lock);
    for (at = &conn->ghosts; *at && memcmp((*at)->owner, owner, HFI_OWNER_LEN) != 0;)
        at = &(*at)->next;
    ghost = *at;
    if (ghost)
        *at = ghost->next;
    pthread_mutex_unlock(&conn->lock);
    return ghost;
}

hf_status sql_ghosts_lay(struct hfi_conn *conn, const struct hfi_claim *claim, int64_t deadline_ms,
                         hf_error *err)
{
    struct sql_ghost *ghost;

    while ((ghost = take(conn, claim->owner))) {
        hf_status status =
            conn->driver->lay(conn, ghost->server_id, ghost->since, deadline_ms, err);

        if (status != HF_OK) {
            pthread_mutex_lock(&conn->lock);
            ghost->next = conn->ghosts;
            conn->ghosts = ghost;
            pthread_mutex_unlock(&conn->lock);
            return hfi_error_wrap(err, "a statement that was cut off may still be executed");
        }
        hfi_free(ghost);
    }
    return HF_OK;
}

void sql_ghosts_done(struct hfi_conn *conn)
{
    struct sql_ghost *ghost;

    while ((ghost = conn->ghosts)) {
        conn->ghosts = ghost->next;
        hfi_free(ghost);
    }
}
