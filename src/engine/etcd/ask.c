/* SPDX-License-Identifier: MIT */
/*
 * The meaning of etcd's errors; and a request that blocks, on connections and a reactor of their own, which the asking
 * thread drives itself. So it disturbs nobody, and is not disturbed.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <string.h>

/* gRPC's codes */
enum {
    CODE_INVALID = 3,
    CODE_NOT_FOUND = 5,
    CODE_DENIED = 7,
    CODE_EXHAUSTED = 8,
    CODE_PRECONDITION = 9,
    CODE_RANGE = 11,
    CODE_UNIMPLEMENTED = 12
};

hf_status etcd_code_status(int code, const char *text)
{
    switch (code) {
    case CODE_DENIED:
    case ETCD_CODE_UNAUTHENTICATED:
        return HF_DENIED;
    case CODE_INVALID: /* etcd's answer to a wrong password, and to a missing user */
        return strstr(text, "auth") || strstr(text, "user name") ? HF_DENIED : HF_INTERNAL;
    case CODE_PRECONDITION:
        return strstr(text, "auth") ? HF_DENIED : HF_INTERNAL;
    case CODE_NOT_FOUND:
        return HF_NOT_FOUND;
    case CODE_EXHAUSTED:
        return HF_FULL;
    case CODE_RANGE:
        return HF_CORRUPT;
    case CODE_UNIMPLEMENTED:
        return HF_VERSION;
    default:
        return HF_UNAVAILABLE;
    }
}

void etcd_finish_odd(struct etcd_store *store, struct hfi_op *op)
{
    hf_error err;

    hfi_error_set(&err, HF_CORRUPT, 0, "an unexpected answer");
    etcd_finish(store, op, HF_CORRUPT, &err);
}

/* ---- blocking ------------------------------------------------------------------------------------------ */

struct asking {
    bool answered;
    hf_status status;
    struct etcd_text *reply;
    hf_error *err;
};

static void answered(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                     const hf_error *err)
{
    struct asking *asking = call->data;

    asking->answered = true;
    asking->status = HF_OK;
    if (outcome == HFI_ANSWERED) {
        etcd_add_bytes(asking->reply, reply.at, reply.len);
        if (asking->reply->failed)
            asking->status = hfi_error_memory(asking->err);
        return;
    }
    asking->status = hfi_outcome_read_status(outcome, err);
    hfi_error_set(asking->err, asking->status, err ? err->native : 0, "%s",
                  err ? err->text : "no answer");
}

struct etcd_store *etcd_aside_open(const struct etcd_store *store, hf_error *err)
{
    struct etcd_store *aside = hfi_calloc(1, sizeof *aside);
    hf_status status;

    if (!aside) {
        hfi_error_memory(err);
        return NULL;
    }
    aside->conf = store->conf;
    aside->tls = store->tls;
    aside->aside = true;
    status = hfi_reactor_init(&aside->reactor, NULL, NULL, err);
    if (status == HF_OK)
        status = etcd_drive_open(aside, err);
    if (status == HF_OK)
        return aside;
    etcd_aside_close(aside);
    return NULL;
}

void etcd_aside_close(struct etcd_store *aside)
{
    if (!aside)
        return;
    etcd_drive_close(aside);
    hfi_reactor_done(&aside->reactor);
    if (aside->token)
        explicit_bzero(aside->token, strlen(aside->token));
    hfi_free(aside->token);
    hfi_free(aside);
}

hf_status etcd_ask(struct etcd_store *aside, size_t host, const struct etcd_method *method,
                   int64_t number, struct etcd_text *ret_reply, hf_error *err)
{
    struct asking asking = { .reply = ret_reply, .err = err };
    struct etcd_call *call;

    hfi_reactor_enter(&aside->reactor);
    aside->at = host;
    call = etcd_call_new(aside, method, answered, NULL);
    if (call) {
        call->data = &asking;
        if (number)
            etcd_add_id(&call->body, number);
        etcd_call_send(call);
    }
    hfi_reactor_leave(&aside->reactor);
    if (!call)
        return hfi_error_memory(err);
    while (!asking.answered)
        hfi_reactor_turn(&aside->reactor, hfi_now_ms() + 1000);
    return asking.status;
}

struct etcd_message etcd_asked(const struct etcd_text *reply)
{
    return (struct etcd_message){ reply->bytes ? (const unsigned char *)reply->bytes
                                               : (const unsigned char *)"",
                                  reply->len };
}
