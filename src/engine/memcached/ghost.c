/* SPDX-License-Identifier: MIT */
/*
 * Adds that may be executed late.
 *
 * When a connection breaks, what we had sent may still be in the server's receive buffer: a server
 * that was stopped reads and executes it when it goes on, perhaps long after we have given up, or
 * have released what an earlier copy got us. Such an item is a ghost: it has an owner that nobody is,
 * and keeps everybody out. It can do no other harm, as nobody believes to hold it.
 *
 * memcached has nothing that could refuse it (a tombstone under the key would keep everybody out as
 * well). What bounds it is its ttl, which begins when it is executed. And as long as this process
 * has the store open we look for it, less and less often, for MEMCACHED_GHOST_MS, and delete it by its CAS.
 */
#include "engine/memcached/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/hash.h"

#include <string.h>

#define PAUSE_FIRST_MS 50
#define PAUSE_LAST_MS  2000

struct memcached_ghost {
    struct memcached_ghost *next;
    struct hfi_name name; /* its bytes are our own, behind this */
    unsigned char owner[HFI_OWNER_LEN];
    int64_t until_ms, look_ms, pause_ms;
    bool asking;
};

static void looked(struct memcached_call *call, enum memcached_outcome outcome,
                   const struct memcached_reply *reply);

static void due(struct hfi_conn *conn, const struct memcached_ghost *ghost)
{
    if (!ghost->asking && ghost->look_ms < conn->ghost_ms)
        conn->ghost_ms = ghost->look_ms;
}

void memcached_ghost_add(struct hfi_conn *conn, const struct hfi_name *name,
                         const unsigned char owner[HFI_OWNER_LEN])
{
    struct memcached_ghost *ghost = conn->closing ? NULL : hfi_malloc(sizeof *ghost + name->len);
    int64_t now_ms = hfi_now_ms();

    if (!ghost)
        return;
    ghost->name = *name;
    ghost->name.bytes = memcpy(ghost + 1, name->bytes, name->len);
    memcpy(ghost->owner, owner, HFI_OWNER_LEN);
    ghost->until_ms = now_ms + MEMCACHED_GHOST_MS;
    ghost->look_ms = now_ms;
    ghost->pause_ms = PAUSE_FIRST_MS;
    ghost->asking = false;
    ghost->next = conn->ghosts;
    conn->ghosts = ghost;
    due(conn, ghost);
}

void memcached_ghosts_done(struct hfi_conn *conn)
{
    struct memcached_ghost *ghost;

    while ((ghost = conn->ghosts)) {
        conn->ghosts = ghost->next;
        hfi_free(ghost);
    }
}

static void begin(struct hfi_conn *conn, struct memcached_ghost *ghost)
{
    struct memcached_call *call = memcached_call_new(conn, 'l', &ghost->name, NULL);

    if (!call)
        return; /* at its next turn */
    call->data = ghost;
    ghost->asking = true;
    memcached_call_go(call, MEMCACHED_GET, looked);
}

void memcached_ghosts_tick(struct hfi_conn *conn, int64_t now_ms)
{
    struct memcached_ghost **at = &conn->ghosts, *ghost;

    conn->ghost_ms = HFI_NEVER;
    while ((ghost = *at)) {
        if (!ghost->asking && ghost->until_ms <= now_ms) {
            *at = ghost->next;
            hfi_free(ghost);
            continue;
        }
        if (!ghost->asking && ghost->look_ms <= now_ms) {
            ghost->look_ms = now_ms + ghost->pause_ms;
            if (ghost->pause_ms < PAUSE_LAST_MS)
                ghost->pause_ms *= 2;
            begin(conn, ghost);
        }
        due(conn, ghost);
        at = &ghost->next;
    }
}

static void rest(struct hfi_conn *conn, struct memcached_ghost *ghost)
{
    ghost->asking = false;
    due(conn, ghost);
}

/* Deleted, or it is not known, or it is another's: look again in any case, there may be more than
 * one late copy. */
static void deleted(struct memcached_call *call, enum memcached_outcome outcome,
                    const struct memcached_reply *reply)
{
    (void)outcome;
    (void)reply;
    rest(call->conn, call->data);
}

static void looked(struct memcached_call *call, enum memcached_outcome outcome,
                   const struct memcached_reply *reply)
{
    struct memcached_ghost *ghost = call->data;
    struct memcached_record record;
    hf_error err;

    if (outcome == MEMCACHED_ANSWERED && reply->kind == MEMCACHED_VA && reply->has_cas &&
        memcached_read(reply, &ghost->name, &record, &err) == HF_OK &&
        memcmp(record.owner, ghost->owner, HFI_OWNER_LEN) == 0) {
        call->cas = reply->cas;
        memcached_call_go(call, MEMCACHED_DELETE, deleted);
        return;
    }
    rest(call->conn, ghost);
}
