/* SPDX-License-Identifier: MIT */
/*
 * One request under way. The library has a type of callback for each kind of answer; here they all
 * become one. Runs on the thread that drives, with the lock.
 */
#include "engine/zookeeper/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

struct zk_call *zk_call_new(struct zk_store *store, zk_answer_fn *answer,
                            struct zk_claim_node *node)
{
    struct zk_call *call = hfi_calloc(1, sizeof *call);

    if (!call)
        return NULL;
    call->store = store;
    call->answer = answer;
    call->node = node;
    if (node)
        node->calls++;
    return call;
}

bool zk_is_reply(int rc)
{
    return rc == ZOK || (rc < ZAPIERROR && rc != ZSESSIONEXPIRED && rc != ZCLOSING &&
                         rc != ZSESSIONMOVED && rc != ZTHROTTLEDOP);
}

hf_status zk_refusal(int rc, const char *what, hf_error *ret_err)
{
    hf_status status = rc == ZNOAUTH || rc == ZAUTHFAILED || rc == ZINVALIDACL ||
                               rc == ZSESSIONCLOSEDREQUIRESASLAUTH
                           ? HF_DENIED
                       : rc == ZUNIMPLEMENTED ? HF_VERSION
                       : zk_is_reply(rc)      ? HF_CORRUPT
                                              : HF_UNAVAILABLE;

    return hfi_error_set(ret_err, status, rc, "%s: %s", what, zerror(rc));
}

/* ---- answers --------------------------------------------------------------------------- */

static void settle_leader(struct zk_call *call, int rc)
{
    struct zk_store *store = call->store;

    if (!call->leader)
        return;
    if (store->asking > 0)
        store->asking--;
    store->asked_ms = store->asking > 0 ? hfi_now_ms() : HFI_NEVER;
    if (!zk_is_reply(rc))
        return;
    zk_validity_confirm(&store->validity, call->sent_ms);
    zk_renewals_confirmed(store, call->sent_ms);
}

static void answer(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_claim_node *node = call->node;

    if (!zk_is_reply(reply->rc) && reply->rc != ZCLOSING)
        call->store->connected = false; /* nothing more is sent until it is connected again */
    else
        call->store->heard_ms = hfi_now_ms();
    settle_leader(call, reply->rc);
    call->answer(call, reply);
    hfi_free(call);
    if (node && --node->calls == 0 && node->state == ZK_FREED && !node->doubted)
        hfi_free(node);
}

static struct zk_call *mine(const void *data)
{
    return (struct zk_call *)(uintptr_t)data; /* NOLINT: the library's const */
}

static void on_void(int rc, const void *data)
{
    answer(mine(data), &(struct zk_reply){ .rc = rc, .len = -1 });
}

static void on_string(int rc, const char *text, const void *data)
{
    answer(mine(data), &(struct zk_reply){ .rc = rc, .text = text, .len = -1 });
}

static void on_string_stat(int rc, const char *text, const struct Stat *stat, const void *data)
{
    answer(mine(data), &(struct zk_reply){ .rc = rc, .text = text, .len = -1, .stat = stat });
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    answer(mine(data), &(struct zk_reply){ .rc = rc, .len = -1, .stat = stat });
}

static void on_data(int rc, const char *bytes, int len, const struct Stat *stat, const void *data)
{
    answer(mine(data), &(struct zk_reply){ .rc = rc, .text = bytes, .len = len, .stat = stat });
}

static void on_list(int rc, const struct String_vector *list, const void *data)
{
    answer(mine(data), &(struct zk_reply){ .rc = rc, .len = -1, .list = list });
}

/* ---- requests ---------------------------------------------------------------------------- */

static void on_node(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)state, (void)path;
    if (type != ZOO_SESSION_EVENT) /* which all watchers get */
        zk_node_event((struct zk_store *)(uintptr_t)zoo_get_context(zh), type, (uintptr_t)context);
}

/* Every request is sent between this and sent(). */
static void sending(struct zk_call *call, bool leader)
{
    struct zk_store *store = call->store;

    zk_library_lock();
    call->sent_ms = hfi_now_ms();
    call->leader = leader;
    if (!leader)
        return;
    if (store->asking++ == 0)
        store->asked_ms = call->sent_ms;
    store->beat_ms = call->sent_ms + store->validity.timeout_ms / ZK_BEATS;
}

/* A request that could not even be queued is answered at the next tick, as if its connection had
 * been lost. */
static void sent(struct zk_call *call, int rc)
{
    zk_library_unlock();
    if (rc == ZOK) {
        hfi_host_sent(call->store->reactor.host);
        return;
    }
    call->rc = zk_is_reply(rc) ? ZSYSTEMERROR : rc;
    call->next = call->store->failed;
    call->store->failed = call;
}

void zk_failed_calls(struct zk_store *store)
{
    struct zk_call *call;

    while ((call = store->failed)) {
        store->failed = call->next;
        answer(call, &(struct zk_reply){ .rc = call->rc, .len = -1 });
    }
}

void zk_send_create(struct zk_call *call, const char *path, const char *data, int len, int flags)
{
    sending(call, true);
    sent(call, zoo_acreate2(call->store->zh, path, data, len, &call->store->acl, flags,
                            on_string_stat, call));
}

void zk_send_delete(struct zk_call *call, const char *path)
{
    sending(call, true);
    sent(call, zoo_adelete(call->store->zh, path, -1, on_void, call));
}

void zk_send_set(struct zk_call *call, const char *path, const char *data, int len)
{
    sending(call, true);
    sent(call, zoo_aset(call->store->zh, path, data, len, -1, on_stat, call));
}

void zk_send_multi(struct zk_call *call, const zoo_op_t *ops, int count, zoo_op_result_t *results)
{
    sending(call, true);
    sent(call, zoo_amulti(call->store->zh, count, ops, results, on_void, call));
}

void zk_send_sync(struct zk_call *call, const char *path)
{
    sending(call, true);
    sent(call, zoo_async(call->store->zh, path, on_string, call));
}

void zk_send_exists(struct zk_call *call, const char *path, uint64_t watch_id)
{
    sending(call, false);
    sent(call, zoo_awexists(call->store->zh, path, watch_id ? on_node : NULL,
                            (void *)(uintptr_t)watch_id, on_stat, call)); /* NOLINT: a number */
}

void zk_send_get(struct zk_call *call, const char *path, uint64_t watch_id)
{
    sending(call, false);
    sent(call, zoo_awget(call->store->zh, path, watch_id ? on_node : NULL,
                         (void *)(uintptr_t)watch_id, on_data, call)); /* NOLINT: a number */
}

void zk_send_children(struct zk_call *call, const char *path, uint64_t watch_id)
{
    sending(call, false);
    call->watches = watch_id != 0;
    sent(call, zoo_awget_children(call->store->zh, path, watch_id ? on_node : NULL,
                                  (void *)(uintptr_t)watch_id, on_list, call)); /* NOLINT */
}

bool zk_members(struct zk_store *store, const struct String_vector *list, size_t *ret_count)
{
    size_t count = 0;

    if (store->member_room < (size_t)list->count) {
        size_t room = (size_t)list->count * 2;
        struct zk_member *members = hfi_realloc(store->members, room * sizeof *members);

        if (!members)
            return false;
        store->members = members;
        store->member_room = room;
    }
    for (int32_t i = 0; i < list->count; i++)
        count += zk_node_parse(list->data[i], &store->members[count]);
    *ret_count = count;
    return true;
}
