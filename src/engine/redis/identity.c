/* SPDX-License-Identifier: MIT */
/*
 * Who this client is. Its id, 64 random bits, goes with every acquire, and scripts make the name of its inbox of it. Its label is
 * sent once, and again while the store has leases: a string that expires. No script of a lock reads it: whoever
 * inspects a name asks for the labels of the ids that it finds (inspect.c), and shows the id of one that is not there.
 *
 * With the lock, by any thread.
 */
#include "engine/redis/internal.h"

#include "util/clock.h"
#include "util/random.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>

#define KEPT_MS  120000 /* the server keeps a label */
#define AGAIN_MS 40000  /* and is sent it again after */
#define SHORT_MS \
    60000 /* the record of a lease with a longer ttl may outlive the label of a dead client */

static void again_due(struct hfi_source *identity, int64_t now_ms);

bool redis_identity_init(struct redis_store *store)
{
    static const struct hfi_source_calls calls = { .due = again_due };

    hfi_random_bytes(store->client, sizeof store->client);
    redis_inbox_name_of(&store->inbox_name, store->conf->prefix, store->client);
    return hfi_source_add(&store->identity, &store->reactor, &calls);
}

/* ---- the label ----------------------------------------------------------------------------- */

size_t redis_client_key(const struct redis_store *store,
                        const unsigned char client[REDIS_CLIENT_LEN],
                        char ret_key[REDIS_CLIENT_KEY_MAX])
{
    char hex[2 * REDIS_CLIENT_LEN + 1];

    hfi_hex(client, REDIS_CLIENT_LEN, hex);
    return (size_t)snprintf(ret_key, REDIS_CLIENT_KEY_MAX, "%sclient:%s", store->conf->prefix, hex);
}

const char *redis_request_label(const struct redis_store *store, const struct hfi_claim *claim)
{
    if (claim->label)
        return claim->label;
    return claim->flags & HFI_CLAIM_DETACHED || claim->ttl_ms > SHORT_MS
               ? store->reactor.host->label
               : "";
}

/* A label that could not be written is missed by people only. */
static void label_kept(struct redis_call *call, enum hfi_outcome outcome,
                       const struct hfi_reply *reply, const hf_error *err)
{
    (void)reply;
    (void)err;
    if (outcome != HFI_ANSWERED && outcome != HFI_REFUSED)
        call->store->identified = false;
}

void redis_identify(struct redis_store *store)
{
    char key[REDIS_CLIENT_KEY_MAX];
    struct redis_call *call;
    size_t len;

    if (store->identified)
        return;
    call = redis_call_new(store, NULL, 0, label_kept, NULL);
    if (!call)
        return;
    store->identified = true;
    len = redis_client_key(store, store->client, key);
    call->command.slot = hfi_key_slot(key, len);
    hfi_command_add_text(&call->command, "SET");
    hfi_command_add(&call->command, key, len);
    hfi_command_add_text(&call->command, store->reactor.host->label);
    hfi_command_add_text(&call->command, "PX");
    hfi_command_add_number(&call->command, KEPT_MS);
    redis_call_send(call);
    hfi_source_at(&store->identity, hfi_now_ms() + AGAIN_MS);
}

static void again_due(struct hfi_source *identity, int64_t now_ms)
{
    struct redis_store *store = hfi_container(identity, struct redis_store, identity);

    (void)now_ms;
    hfi_source_at(identity, HFI_NEVER);
    store->identified = false;
    if (hfi_claims_any(&store->claims))
        redis_identify(store);
}

void redis_identity_up(struct redis_node *node)
{
    struct redis_store *store = node->store;

    if (store->wire != &redis_native || node == &store->sync)
        return;
    store->identified = false;
    if (hfi_claims_any(&store->claims))
        redis_identify(store);
}
