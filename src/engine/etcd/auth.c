/* SPDX-License-Identifier: MIT */
/*
 * The token of a user. It is asked for before the first call, and again when etcd does not know it
 * any more (it expires, and a restarted member has forgotten it); calls are parked meanwhile.
 */
#include "engine/etcd/ec.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

/* Nobody gets through: what waits for the token is refused. */
static void refuse_all(struct hfi_conn *conn, enum ec_outcome outcome, const hf_error *err)
{
    struct ec_call *call = conn->parked, *next;

    conn->parked = NULL;
    for (; call; call = next) {
        next = call->next;
        if (call->waits_auth) {
            call->answer(call, call->maybe ? EC_MAYBE : outcome, NULL, err);
            hfi_ec_call_free(call);
        } else {
            call->next = conn->parked;
            conn->parked = call;
        }
    }
}

static void authenticated(struct ec_call *call, enum ec_outcome outcome, json_t *reply,
                          const hf_error *err)
{
    struct hfi_conn *conn = call->conn;
    const char *token = json_string_value(json_object_get(reply, "token"));
    hf_error none;

    conn->authenticating = false;
    conn->tokens++;
    if (outcome == EC_ANSWERED && token && (conn->token = hfi_strdup(token)))
        return; /* the tick sends what is parked */
    if (outcome == EC_ANSWERED) {
        hfi_error_set(&none, HF_DENIED, 0, "etcd gave no token");
        refuse_all(conn, EC_REFUSED, &none);
    } else {
        refuse_all(conn, outcome == EC_REFUSED ? EC_REFUSED : EC_UNSENT, err);
    }
}

void hfi_ec_add_login(struct ec_text *body, const struct ec_conf *conf)
{
    hfi_ec_add(body, "{\"name\":");
    hfi_ec_add_quoted(body, conf->user);
    hfi_ec_add(body, ",\"password\":");
    hfi_ec_add_quoted(body, conf->password);
    hfi_ec_add(body, "}");
}

void hfi_ec_auth_begin(struct hfi_conn *conn)
{
    struct ec_call *call;

    if (conn->authenticating)
        return;
    call = hfi_ec_call_new(conn, "/v3/auth/authenticate", authenticated, NULL);
    if (!call)
        return; /* what is parked gives up in time, and begins it again */
    call->again = call->secret = true;
    hfi_ec_add_login(&call->body, conn->conf);
    conn->authenticating = true;
    hfi_ec_call_send(call);
}
