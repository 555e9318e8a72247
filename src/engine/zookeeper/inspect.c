/* SPDX-License-Identifier: MIT */
/*
 * LIST reads the children of the node that has all names: one page of bare names. LOOK and BREAK
 * read the children of a name, which give order, kinds and permits, and then each node, for its
 * number (the token), its age and its label; the nodes are requested all at once. ASK does the same, and then writes its text
 * into the nodes of the holders that are WATCHED, each of which watches its own. With the lock.
 *
 * Ages compare this machine's clock with the server's: they are only for people.
 */
#include "engine/zookeeper/internal.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The contents of one node. */
struct seen {
    struct zk_member member; /* its `node` is `name` */
    char name[ZK_NODE_MAX];
    struct zk_node_data data;
    uint64_t czxid;
    int64_t made_ms;
    bool there;
};

/* One LIST, LOOK, BREAK or ASK under way. */
struct view {
    struct zk_store *store;
    struct hfi_op *op;
    const struct hfi_name *name; /* LOOK, BREAK, ASK */
    char parent[ZK_PATH_MAX];
    struct seen *seen;
    size_t count, waiting;
    bool again; /* the connection was lost, and nothing has been changed */
    bool told;  /* ASK: a holder */
    hf_status status;
    hf_error err;
};

static zk_answer_fn names_listed, queue_read, node_read, node_broken, text_written;

static void view_end(struct view *view)
{
    if (view->again)
        zk_park(view->store, view->op);
    else
        zk_finish(view->store, view->op, view->status, view->err.text[0] ? &view->err : NULL);
    hfi_free(view->seen);
    hfi_free(view);
}

static void view_fail(struct view *view, hf_status status)
{
    if (view->status == HF_OK)
        view->status = status;
}

/* A request failed without an answer. Inspection changes nothing, so that is HF_UNAVAILABLE. */
static void view_fail_rc(struct view *view, int rc, const char *what)
{
    hf_error err;
    hf_status status = zk_refusal(rc, what, &err);

    if (view->status != HF_OK)
        return;
    view->status = status;
    view->err = err;
    view->again = !zk_is_reply(rc) && rc != ZCLOSING;
}

static struct view *view_new(struct zk_store *store, struct hfi_op *op)
{
    struct view *view = hfi_calloc(1, sizeof *view);

    if (!view) {
        zk_finish(store, op, HF_NO_MEMORY, NULL);
        return NULL;
    }
    view->store = store;
    view->op = op;
    return view;
}

static struct zk_call *view_call_new(struct view *view, zk_answer_fn *answer)
{
    struct zk_call *call = zk_call_new(view->store, answer, NULL);

    if (call)
        call->data = view;
    else
        view_fail(view, HF_NO_MEMORY);
    return call;
}

/* ---- LIST ------------------------------------------------------------------------------------ */

static void names_listed(struct zk_call *call, const struct zk_reply *reply)
{
    struct view *view = call->data;
    struct hfi_sink *sink = view->op->u.list.sink;
    unsigned char name[HF_NAME_MAX];

    if (reply->rc != ZOK && reply->rc != ZNONODE)
        view_fail_rc(view, reply->rc, "listing the names");
    for (int32_t i = 0; reply->rc == ZOK && i < reply->list->count; i++) {
        uint32_t len = zk_unescape(reply->list->data[i], name);

        if (len > 0 && !sink->name(sink, name, len))
            view_fail(view, HF_NO_MEMORY);
    }
    view_end(view);
}

void zk_list(struct zk_store *store, struct hfi_op *op)
{
    struct view *view = view_new(store, op);
    struct zk_call *call = view ? view_call_new(view, names_listed) : NULL;
    char path[ZK_PATH_MAX];

    if (call) {
        snprintf(path, sizeof path, "%s/locks", store->conf->root);
        zk_send_children(call, path, 0);
    } else if (view) {
        view_end(view);
    }
}

/* ---- one name -------------------------------------------------------------------------------- */

static void read_queue(struct zk_store *store, struct hfi_op *op, const struct hfi_name *name)
{
    struct view *view = view_new(store, op);
    struct zk_call *call = view ? view_call_new(view, queue_read) : NULL;

    if (call) {
        view->name = name;
        zk_parent_path(store, "locks", name, view->parent);
        zk_send_children(call, view->parent, 0);
    } else if (view) {
        view_end(view);
    }
}

void zk_look_at(struct zk_store *store, struct hfi_op *op)
{
    read_queue(store, op, &op->u.look.name);
}

void zk_break(struct zk_store *store, struct hfi_op *op)
{
    read_queue(store, op, &op->u.brk.name);
}

void zk_ask(struct zk_store *store, struct hfi_op *op)
{
    read_queue(store, op, &op->u.ask.name);
}

static bool take_members(struct view *view, const struct String_vector *list)
{
    size_t count = 0;

    if (!zk_members(view->store, list, &count))
        return false;
    view->seen = hfi_calloc(count + 1, sizeof *view->seen);
    if (!view->seen)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct seen *seen = &view->seen[i];

        snprintf(seen->name, sizeof seen->name, "%s", view->store->members[i].node);
        seen->member = view->store->members[i];
    }
    for (size_t i = 0; i < count; i++)
        view->seen[i].member.node = view->seen[i].name;
    view->count = count;
    return true;
}

static void all_nodes_read(struct view *view);

static void queue_read(struct zk_call *call, const struct zk_reply *reply)
{
    struct view *view = call->data;
    char path[ZK_PATH_MAX + ZK_NODE_MAX];

    if (reply->rc != ZOK && reply->rc != ZNONODE)
        view_fail_rc(view, reply->rc, "reading the queue");
    else if (reply->rc == ZOK && !take_members(view, reply->list))
        view_fail(view, HF_NO_MEMORY);
    view->waiting = 1; /* for this loop */
    for (size_t i = 0; view->status == HF_OK && i < view->count; i++) {
        struct zk_call *next = view_call_new(view, node_read);

        if (!next)
            break;
        view->waiting++;
        snprintf(path, sizeof path, "%s/%s", view->parent, view->seen[i].name);
        next->index = i;
        zk_send_get(next, path, 0);
    }
    if (--view->waiting == 0)
        all_nodes_read(view);
}

static void node_read(struct zk_call *call, const struct zk_reply *reply)
{
    struct view *view = call->data;
    struct seen *seen = &view->seen[call->index];

    if (reply->rc == ZOK) {
        seen->there = true;
        seen->czxid = (uint64_t)reply->stat->czxid;
        seen->made_ms = reply->stat->ctime;
        (void)zk_node_data_read(reply->text, reply->len, &seen->data);
    } else if (reply->rc != ZNONODE) {
        view_fail_rc(view, reply->rc, "looking at a node");
    }
    if (--view->waiting == 0)
        all_nodes_read(view);
}

/* ---- what was found -------------------------------------------------------------------------- */

static int64_t wall_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static const struct seen *seen_of(const struct view *view, const struct zk_member *member)
{
    size_t i = 0;

    while (view->seen[i].name != member->node)
        i++;
    return &view->seen[i];
}

static bool emit(const struct view *view, const struct zk_member *members, size_t count,
                 size_t holders)
{
    struct hfi_sink *sink = view->op->u.look.sink;
    int64_t now_ms = wall_ms();
    hf_entry entry = { .name = view->name->bytes,
                       .name_len = view->name->len,
                       .kind = hfi_shown_kind(members[0].demand.mode, 1),
                       .capacity = members[0].demand.capacity };
    bool ok;

    for (size_t i = 0; i < holders; i++)
        entry.taken += members[i].demand.permits;
    ok = sink->entry(sink, &entry);
    for (size_t i = 0; ok && i < count; i++) {
        const struct seen *seen = seen_of(view, &members[i]);
        int64_t age_ms =
            seen->made_ms >= 0 && now_ms > seen->made_ms ? hfi_told_ms(now_ms - seen->made_ms) : 0;
        hf_holder holder = { .token = seen->czxid,
                             .first = seen->czxid,
                             .permits = members[i].demand.permits,
                             .age_ms = age_ms,
                             .ttl_ms = seen->data.timeout_ms,
                             .watched = seen->data.watched,
                             .label = seen->data.label };
        hf_waiter waiter = { .position = (uint32_t)(i - holders + 1),
                             .permits = members[i].demand.permits,
                             .kind =
                                 hfi_shown_kind(members[i].demand.mode, members[i].demand.permits),
                             .age_ms = age_ms,
                             .label = seen->data.label };

        ok = i < holders ? sink->holder(sink, &holder) : sink->waiter(sink, &waiter);
    }
    return ok;
}

/* The holder with the token that was asked for, if there is one. */
static const struct seen *to_break(const struct view *view, const struct zk_member *members,
                                   size_t holders)
{
    for (size_t i = 0; i < holders; i++)
        if (seen_of(view, &members[i])->czxid == view->op->u.brk.token)
            return seen_of(view, &members[i]);
    return NULL;
}

static void break_it(struct view *view, const struct seen *seen)
{
    char path[ZK_PATH_MAX + ZK_NODE_MAX];
    struct zk_call *call = seen ? view_call_new(view, node_broken) : NULL;

    if (!seen)
        view_fail(view, HF_NOT_FOUND);
    if (!call) {
        view_end(view);
        return;
    }
    /* A node's name has its owner and is never used again: this deletes that lease or nothing. */
    snprintf(path, sizeof path, "%s/%s", view->parent, seen->name);
    zk_send_delete(call, path);
}

static void node_broken(struct zk_call *call, const struct zk_reply *reply)
{
    struct view *view = call->data;

    if (reply->rc == ZNONODE)
        view_fail(view, HF_NOT_FOUND);
    else if (reply->rc != ZOK && zk_is_reply(reply->rc))
        view_fail_rc(view, reply->rc, "deleting the node");
    else if (reply->rc != ZOK)
        view_fail(view, HF_UNKNOWN);
    view_end(view);
}

/* ---- ASK ------------------------------------------------------------------------------------- */

static void asked(struct view *view)
{
    if (view->told) {
        view->status = HF_OK;
        view->again = false;
    } else {
        view_fail(view, HF_NOT_FOUND); /* those that were there have gone */
    }
    view_end(view);
}

static void text_written(struct zk_call *call, const struct zk_reply *reply)
{
    struct view *view = call->data;

    if (reply->rc == ZOK)
        view->told = true;
    else if (reply->rc != ZNONODE)
        view_fail_rc(view, reply->rc, "writing to the holder's node");
    if (--view->waiting == 0)
        asked(view);
}

/* A node's name is never used again: this writes to that holder or to none. */
static void ask_one(struct view *view, struct seen *seen)
{
    struct zk_call *call = view_call_new(view, text_written);
    char path[ZK_PATH_MAX + ZK_NODE_MAX], bytes[ZK_DATA_MAX];

    if (!call)
        return;
    view->waiting++;
    seen->data.asked = true;
    snprintf(seen->data.text, sizeof seen->data.text, "%s", view->op->u.ask.text);
    snprintf(path, sizeof path, "%s/%s", view->parent, seen->name);
    zk_send_set(call, path, bytes, zk_node_data_write(&seen->data, bytes));
}

static void ask_holders(struct view *view, const struct zk_member *members, size_t holders)
{
    bool listens = false;

    view->waiting = 1; /* for this loop */
    for (size_t i = 0; i < holders; i++) {
        struct seen *seen = &view->seen[seen_of(view, &members[i]) - view->seen];

        listens = listens || seen->data.watched;
        if (seen->data.watched)
            ask_one(view, seen);
    }
    if (holders > 0 && !listens)
        view_fail(view, HF_BUSY);
    if (--view->waiting == 0)
        asked(view);
}

static void all_nodes_read(struct view *view)
{
    struct zk_member *members = view->store->members;
    size_t count = 0, holders = 0;

    for (size_t i = 0; i < view->count; i++)
        if (view->seen[i].there)
            members[count++] = view->seen[i].member;
    if (view->status == HF_OK && !zk_queue_sort(members, count, &holders))
        view_fail(view, HF_FULL);
    if (view->op->kind == HFI_OP_ASK && view->status == HF_OK) {
        ask_holders(view, members, holders);
        return;
    }
    if (view->op->kind == HFI_OP_BREAK) {
        if (view->status == HF_OK)
            break_it(view, to_break(view, members, holders));
        else
            view_end(view);
        return;
    }
    if (view->status == HF_OK && count > 0 && !emit(view, members, count, holders))
        view_fail(view, HF_NO_MEMORY);
    view_end(view);
}
