/* SPDX-License-Identifier: MIT */
/*
 * The authentication token of a user. It is requested before the first call, and again when etcd
 * does not accept it any more (it expires, and a restarted member forgets it); calls are parked
 * meanwhile.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

/* Authentication failed: refuse the calls that wait for the token. */
static void refuse_all(struct etcd_store *store, enum hfi_outcome outcome, const hf_error *err)
{
    struct hfi_request *request = store->requests.parked, *next;

    for (; request; request = next) {
        struct etcd_call *call = (struct etcd_call *)request;

        next = request->next;
        if (!call->waits_auth)
            continue;
        (void)hfi_request_unpark(&store->requests, request);
        call->answer(call, call->maybe ? HFI_MAYBE : outcome, NULL, err);
        etcd_call_free(call);
    }
}

static void authenticated(struct etcd_call *call, enum hfi_outcome outcome, json_t *reply,
                          const hf_error *err)
{
    struct etcd_store *store = call->store;
    const char *token = json_string_value(json_object_get(reply, "token"));
    hf_error none;

    store->authenticating = false;
    store->tokens++;
    if (outcome == HFI_ANSWERED && token && (store->token = hfi_strdup(token))) {
        etcd_calls_authenticated(store);
    } else if (outcome == HFI_ANSWERED) {
        hfi_error_set(&none, HF_DENIED, 0, "etcd gave no token");
        refuse_all(store, HFI_REFUSED, &none);
    } else {
        refuse_all(store, outcome == HFI_REFUSED ? HFI_REFUSED : HFI_UNSENT, err);
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
        return; /* parked calls time out, and the next one tries again */
    call->again = call->secret = true;
    etcd_add_login(&call->body, store->conf);
    store->authenticating = true;
    etcd_call_send(call);
}
