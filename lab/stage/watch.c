/* SPDX-License-Identifier: MIT */
/* See watch.h. The observers run in processes of their own, which do nothing else: what they keep is static. */
#include "watch.h"

#include "ours.h"
#include "redis.h"

#include <string.h>

/* ---- places ------------------------------------------------------------------------------------------- */

static void note_owner(struct actor *me, int lane, int owner, const struct phrase *why)
{
    history_add(me->stage->history, (struct event){ .lane = (int16_t)lane,
                                                    .other = (int16_t)owner,
                                                    .kind = EV_OWNER,
                                                    .text = why });
}

static bool among(int lane, const int *lanes, int count)
{
    for (int i = 0; i < count; i++)
        if (lanes[i] == lane)
            return true;
    return false;
}

/* `now`: the clients that have a place. Who had one before keeps it; a new one gets a place that is free. */
static void assign(struct actor *me, const int *now, int count)
{
    static int owners[PLACES_MAX] = { -1, -1, -1, -1 };
    const struct places *places = me->arg;
    int before[PLACES_MAX];

    memcpy(before, owners, sizeof before);
    for (int i = 0; i < places->count; i++)
        if (!among(owners[i], now, count))
            owners[i] = -1;
    for (int k = 0; k < count; k++)
        for (int i = 0; i < places->count && !among(now[k], owners, places->count); i++)
            if (owners[i] == -1)
                owners[i] = now[k];
    for (int i = 0; i < places->count; i++)
        if (owners[i] != before[i])
            note_owner(me, places->first + i, owners[i], owners[i] >= 0 ? places->taken : NULL);
}

static int observe_ranks(struct actor *me, uint64_t *ret_token)
{
    const struct places *places = me->arg;
    redisReply *reply = redis_try(me, "ZRANGE {%s} 0 %d", places->name, places->count - 1);
    int now[PLACES_MAX], count = 0;

    (void)ret_token;
    if (reply && reply->type == REDIS_REPLY_ARRAY) {
        for (size_t i = 0; i < reply->elements && count < places->count; i++)
            now[count++] = lane_of_id(me->stage, reply->element[i]->str, reply->element[i]->len);
        assign(me, now, count);
    }
    if (reply)
        freeReplyObject(reply);
    return -2;
}

/* What the store says of a name; NULL: it did not answer. */
static hf_view *look(struct actor *me, const char *name)
{
    static hf_store *store;
    hf_view *view;

    if (!store && hf_open(me->stage->url, NULL, &store, NULL) != HF_OK)
        return NULL;
    return hf_store_inspect(store, name, HF_CSTRING, 0, &view, NULL) == HF_OK ? view : NULL;
}

static int observe_permits(struct actor *me, uint64_t *ret_token)
{
    const struct places *places = me->arg;
    hf_view *view = look(me, places->name);
    const hf_entry *entry = view ? hf_view_entry(view, 0) : NULL;
    int now[PLACES_MAX], count = 0;

    (void)ret_token;
    for (size_t i = 0; entry && i < entry->holder_count && count < places->count; i++) {
        const char *label = hf_entry_holder(entry, i)->label;

        now[count++] = lane_of_id(me->stage, label, strlen(label));
    }
    if (view)
        assign(me, now, count);
    hf_free(view);
    return -2;
}

void stage_observe_ranks(struct stage *stage, const struct places *places)
{
    stage_observe(stage, places->first, observe_ranks, (void *)(uintptr_t)places);
}

void stage_observe_permits(struct stage *stage, const struct places *places)
{
    stage_observe(stage, places->first, observe_permits, (void *)(uintptr_t)places);
}

/* ---- queues --------------------------------------------------------------------------------------------- */

/* Its lane is the client's. */
static int observe_queue(struct actor *me, uint64_t *ret_token)
{
    static bool told;
    hf_view *view = told ? NULL : look(me, me->arg);
    const hf_entry *entry = view ? hf_view_entry(view, 0) : NULL;
    bool answered = history_count(me->stage->history, me->lane, EV_GOT) > 0;

    (void)ret_token;
    for (size_t i = 0; entry && i < entry->waiter_count; i++)
        answered |= strcmp(hf_entry_waiter(entry, i)->label, me->id) == 0;
    hf_free(view);
    if (answered && !told)
        note_signal(me, SIGNAL_QUEUED + me->lane);
    told |= answered;
    return -2;
}

void stage_await_queued(struct stage *stage, int lane, const char *name)
{
    stage_observe(stage, lane, observe_queue, (void *)(uintptr_t)name);
    stage_await_signal(stage, SIGNAL_QUEUED + lane);
}
