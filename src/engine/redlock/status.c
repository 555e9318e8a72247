/* SPDX-License-Identifier: MIT */
/* hf_redlock_get_status(): the state of each node, and the next step of healing. On the calling
 * thread, which may block. */
#include "engine/redlock/probe.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <string.h>

/* The texts of one node: three ids in hex, and its name and why it cannot be used. */
#define ID_ROOM (2 * HFI_EPOCH_ID + 1)

static size_t texts_room(const struct redlock_probe *probe, unsigned node)
{
    return 3 * ID_ROOM + strlen(redlock_probe_name(probe, node)) + 1 +
           strlen(redlock_probe_why(probe, node)) + 1;
}

/* A copy in `*room`, which is moved on. */
static const char *put_text(char **room, const char *text)
{
    size_t size = strlen(text) + 1;
    char *to = memcpy(*room, text, size);

    *room += size;
    return to;
}

static const char *put_id(char **room, const unsigned char *id)
{
    char hex[ID_ROOM];

    hfi_hex(id, HFI_EPOCH_ID, hex);
    return put_text(room, hex);
}

static void fill_node(hf_redlock_node *ret, const struct redlock_probe *probe, unsigned node,
                      char **room)
{
    const struct redlock_probed *at = &probe->nodes[node];
    const struct hfi_node_view *view = &at->told.view;

    *ret = (hf_redlock_node){ .name = put_text(room, redlock_probe_name(probe, node)),
                              .epoch_id = "",
                              .cluster = "",
                              .marker = "",
                              .why = "" };
    switch (view->state) {
    case HFI_NODE_READY:
        ret->state = HF_REDLOCK_STATE_READY;
        ret->epoch = view->epoch.number;
        ret->epoch_id = put_id(room, view->epoch.id);
        ret->cluster = put_id(room, view->cluster);
        ret->nodes = view->n;
        ret->max_ttl_ms = view->max_ttl_ms;
        ret->top = view->top;
        ret->floor = at->told.floor;
        ret->names = at->told.names;
        break;
    case HFI_NODE_EMPTY:
        ret->state = HF_REDLOCK_STATE_EMPTY;
        ret->age_ms = view->age_ms;
        if (view->marked)
            ret->marker = put_id(room, view->marker);
        break;
    case HFI_NODE_UNKNOWN:
        ret->state = at->ask ? HF_REDLOCK_STATE_UNFIT : HF_REDLOCK_STATE_UNREACHABLE;
        ret->why = put_text(room, redlock_probe_why(probe, node));
    }
}

/* Fill in which nodes vote, and how far the others are behind. */
static void fill_votes(struct hfi_redlock_status *ret, const struct redlock_probe *probe)
{
    struct hfi_epoch epoch;
    bool current = hfi_epoch_current(probe->views, probe->n, &epoch);
    uint64_t highest = 0;

    for (unsigned i = 0; i < probe->n; i++)
        if (ret->nodes[i].epoch > highest)
            highest = ret->nodes[i].epoch;
    for (unsigned i = 0; i < probe->n; i++) {
        const struct hfi_node_view *view = &probe->views[i];

        if (view->state != HFI_NODE_READY)
            continue;
        ret->nodes[i].lag = highest - view->epoch.number;
        ret->nodes[i].votes =
            current && view->n == probe->n && hfi_epoch_compare(&view->epoch, &epoch) == 0;
        ret->status.votes += ret->nodes[i].votes;
    }
}

static hf_redlock_step next_step(const struct hfi_heal *plan)
{
    switch (plan->step) {
    case HFI_HEAL_NOTHING:
        return HF_REDLOCK_STEP_NOTHING;
    case HFI_HEAL_START:
        return HF_REDLOCK_STEP_START;
    case HFI_HEAL_MARK:
        return HF_REDLOCK_STEP_MARK;
    case HFI_HEAL_AGE:
        return HF_REDLOCK_STEP_WAIT;
    case HFI_HEAL_SEAL:
        return HF_REDLOCK_STEP_SEAL;
    case HFI_HEAL_INSTALL:
        return HF_REDLOCK_STEP_INSTALL;
    case HFI_HEAL_LIFT:
        return HF_REDLOCK_STEP_LIFT;
    case HFI_HEAL_STUCK:
        break;
    }
    return plan->why == HFI_STUCK_FEW ? HF_REDLOCK_STEP_NODES : HF_REDLOCK_STEP_OPERATOR;
}

static hf_status get_status(struct redlock_probe *probe, struct hfi_redlock_status **ret_status,
                            hf_error *err)
{
    struct hfi_redlock_status *ret;
    struct hfi_heal plan;
    size_t size;
    char *room;

    redlock_probe_look(probe);
    size = sizeof *ret + probe->n * sizeof ret->nodes[0];
    for (unsigned i = 0; i < probe->n; i++)
        size += texts_room(probe, i);
    ret = hfi_calloc(1, size);
    if (!ret)
        return hfi_error_memory(err);
    ret->count = probe->n;
    room = (char *)(ret->nodes + probe->n);
    for (unsigned i = 0; i < probe->n; i++)
        fill_node(&ret->nodes[i], probe, i, &room);
    fill_votes(ret, probe);
    plan = hfi_heal_next(probe->views, probe->n);
    ret->status.needed = hfi_majority(probe->n);
    ret->status.nodes = probe->n;
    ret->status.next = next_step(&plan);
    ret->status.wait_ms = plan.step == HFI_HEAL_AGE ? plan.wait_ms : 0;
    *ret_status = ret;
    return plan.step == HFI_HEAL_STUCK ? redlock_probe_stuck(probe, plan.why, err) : HF_OK;
}

hf_status redlock_get_status(struct hfi_conf *conf, struct hfi_redlock_status **ret_status,
                             hf_error *err)
{
    struct redlock_conf *redlock = (struct redlock_conf *)conf;
    struct redlock_probe probe;
    hf_status result = redlock_conf_manage(redlock, err);

    *ret_status = NULL;
    if (result == HF_OK) {
        redlock_probe_init(&probe, &redlock->redis);
        result = get_status(&probe, ret_status, err);
        redlock_probe_done(&probe);
    }
    redis_conf_done(&redlock->redis);
    return result;
}
