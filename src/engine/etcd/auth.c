/* SPDX-License-Identifier: MIT */
/*
 * The token of a user. It is asked for before the first call, and again when etcd does not know it
 * any more (it expires, and a restarted member has forgotten it); calls are parked meanwhile.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

/* Nobody gets through: what waits for the token is refused. */
static void refuse_all(struct etcd_store *store, enum etcd_outcome outcome, const hf_error *err)
{
    struct etcd_call *call = store->parked, *next;

    store->parked = NULL;
    for (; call; call = next) {
        next = call->next;
        if (call->waits_auth) {
            call->answer(call, call->maybe ? ETCD_MAYBE : outcome, NULL, err);
            etcd_call_free(call);
        } else {
            call->next = store->parked;
            store->parked = call;
        }
    }
}

static void authenticated(struct etcd_call *call, enum etcd_outcome outcome, json_t *reply,
                          const hf_error *err)
{
    struct etcd_store *store = call->store;
    const char *token = json_string_value(json_object_get(reply, "token"));
    hf_error none;

    store->authenticating = false;
    store->tokens++;
    if (outcome == ETCD_ANSWERED && token && (store->token = hfi_strdup(token)))
        return; /* the tick sends what is parked */
    if (outcome == ETCD_ANSWERED) {
        hfi_error_set(&none, HF_DENIED, 0, "etcd gave no token");
        refuse_all(store, ETCD_REFUSED, &none);
    } else {
        refuse_all(store, outcome == ETCD_REFUSED ? ETCD_REFUSED : ETCD_UNSENT, err);
    }
}

void etcd_add_login(struct etcd_text *body, const struct etcd_conf *conf)
{
    etcd_add(body, "{\"name\":");
    etcd_add_quoted(body, conf->url.user);
    etcd_add(body, ",\"password\":");
    etcd_add_quoted(body, conf->url.secret);
    etcd_add(body, "}");
}

void etcd_auth_begin(struct etcd_store *store)
{
    struct etcd_call *call;

    if (store->authenticating)
        return;
    call = etcd_call_new(store, "/v3/auth/authenticate", authenticated, NULL);
    if (!call)
        return; /* what is parked gives up in time, and begins it again */
    call->again = call->secret = true;
    etcd_add_login(&call->body, store->conf);
    store->authenticating = true;
    etcd_call_send(call);
}
