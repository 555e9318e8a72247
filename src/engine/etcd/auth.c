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

#define TOKEN_MAX 4096

static const struct etcd_message none = { NULL, 0 };

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
        call->answer(call, call->maybe ? HFI_MAYBE : outcome, none, err);
        etcd_call_free(call);
    }
}

/* A copy as text. NULL: there is none that can be sent in a header, or no memory. */
static char *copy_token(struct etcd_message token)
{
    char *copy = token.len > 0 && token.len <= TOKEN_MAX ? hfi_malloc(token.len + 1) : NULL;

    for (size_t i = 0; i < token.len && copy; i++)
        if (token.at[i] <= 0x20 || token.at[i] >= 0x7f) {
            hfi_free(copy);
            copy = NULL;
        } else {
            copy[i] = (char)token.at[i];
        }
    if (copy)
        copy[token.len] = 0;
    return copy;
}

static void authenticated(struct etcd_call *call, enum hfi_outcome outcome,
                          struct etcd_message reply, const hf_error *err)
{
    struct etcd_store *store = call->store;
    hf_error no_token;

    store->authenticating = false;
    store->tokens++;
    if (outcome == HFI_ANSWERED && (store->token = copy_token(etcd_part(reply, ETCD_AUTH_TOKEN)))) {
        etcd_calls_authenticated(store);
    } else if (outcome == HFI_ANSWERED) {
        hfi_error_set(&no_token, HF_DENIED, 0, "etcd gave no token");
        refuse_all(store, HFI_REFUSED, &no_token);
    } else {
        refuse_all(store, outcome == HFI_REFUSED ? HFI_REFUSED : HFI_UNSENT, err);
    }
}

void etcd_auth_begin(struct etcd_store *store)
{
    struct etcd_call *call;

    if (store->authenticating)
        return;
    call = etcd_call_new(store, &etcd_authenticate_method, authenticated, NULL);
    if (!call)
        return; /* parked calls time out, and the next one tries again */
    call->again = call->secret = true;
    etcd_add_login(&call->body, store->conf->url.user, store->conf->url.secret);
    store->authenticating = true;
    etcd_call_send(call);
}
