/* SPDX-License-Identifier: MIT */
/* A view comes in: what has changed since the last one? Linear in the view. */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

#define SINCE_NOISE_MS 2000 /* ages come with the time that an answer takes: less is no change */
#define HEIRS          64   /* waiters at the front of a queue that may have become holders */

/* ---- holders ---------------------------------------------------------------------------------- */

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

static void holder_of(const hf_holder *from, int64_t now_ms, struct see_holder *to)
{
    *to = (struct see_holder){
        .token = from->token,
        .first = from->first,
        .session = from->session,
        .since_ms = now_ms - from->age_ms,
        .until_ms = from->ttl_ms < 0 ? -1 : now_ms + from->ttl_ms,
        .ttl_ms = from->ttl_ms,
        .pid = from->pid,
        .permits = from->permits,
        .slot_count = from->slot_count,
        .detached = from->detached,
        .lingers = from->lingers,
        .idle = from->idle,
        .watched = from->watched,
    };
    memcpy(to->slots, from->slots, sizeof to->slots);
    if (from->label)
        strncpy(to->label, from->label, sizeof to->label - 1);
}

static int compare_holders(const void *a, const void *b)
{
    const struct see_holder *left = a, *right = b;

    if (left->first != right->first)
        return left->first < right->first ? -1 : 1;
    if (left->since_ms != right->since_ms)
        return left->since_ms < right->since_ms ? -1 : 1;
    return 0;
}

/* Engines without tokens: the same process, at the same time. */
static bool same_lease(const struct see_holder *a, const struct see_holder *b)
{
    if (a->first || b->first)
        return a->first == b->first;
    return a->pid == b->pid && strcmp(a->label, b->label) == 0 &&
           distance(a->since_ms, b->since_ms) < SINCE_NOISE_MS;
}

/* A renewal is due at a third of the ttl: with less than half of it left it is late. Nobody renews a detached lease. */
static bool is_at_risk(const struct see_holder *holder, int64_t now_ms)
{
    return holder->until_ms >= 0 && !holder->detached &&
           holder->until_ms - now_ms < holder->ttl_ms / 2;
}

/* The same lease in two views: keep what has not really changed. */
static void carry_over(const struct see_holder *was, struct see_holder *is, int64_t now_ms)
{
    if (was->token == is->token && distance(was->since_ms, is->since_ms) < SINCE_NOISE_MS)
        is->since_ms = was->since_ms;
    if (is->ttl_ms >= 0 && was->ttl_ms > is->ttl_ms)
        is->ttl_ms = was->ttl_ms;
    if (is->until_ms >= 0 && was->until_ms >= 0 &&
        distance(was->until_ms, is->until_ms) < is->ttl_ms / 5 &&
        distance(was->until_ms, is->until_ms) < SINCE_NOISE_MS)
        is->until_ms = was->until_ms;
    is->at_risk = is_at_risk(is, now_ms);
}

/* Is it the same to a list; *ret_detail: to details too? */
static bool same_holder(const struct see_holder *a, const struct see_holder *b, bool *ret_detail)
{
    if (a->until_ms != b->until_ms || a->ttl_ms != b->ttl_ms)
        *ret_detail = true;
    return a->token == b->token && a->since_ms == b->since_ms && a->permits == b->permits &&
           a->idle == b->idle && a->watched == b->watched && a->at_risk == b->at_risk &&
           a->session == b->session && a->pid == b->pid && strcmp(a->label, b->label) == 0;
}

/* When it ended is not told: at the latest when this view was read, and of a mutex when the next lease began. */
static void ended(struct see_model *model, struct see_row *row, const struct see_holder *was,
                  const struct see_holder *next, int64_t now_ms)
{
    int64_t end_ms =
        next && next->since_ms > was->since_ms && next->since_ms < now_ms ? next->since_ms : now_ms;

    see_history_hold(model, row, end_ms - was->since_ms);
    if (!was->at_risk || was->until_ms > now_ms)
        return;
    row->lost = *was;
    row->lost_at_ms = was->until_ms;
    model->total_lost++;
}

/* The one that became a holder may have been seen in the queue. */
static void begun(struct see_model *model, const struct see_row *row, const struct see_holder *is)
{
    for (size_t i = 0; i < row->waiter_count && i < HEIRS; i++) {
        const struct see_waiter *waiter = &row->waiters[i];

        if (waiter->pid != is->pid || waiter->session != is->session ||
            strncmp(waiter->label, is->label, 49) != 0)
            continue;
        see_history_wait(model, is->since_ms - waiter->since_ms);
        return;
    }
}

static bool spare_for(struct see_model *model, size_t count)
{
    struct see_holder *spare;

    if (count <= model->spare_size)
        return true;
    spare = realloc(model->spare, 2 * count * sizeof *spare);
    if (!spare)
        return false;
    model->spare = spare;
    model->spare_size = 2 * count;
    return true;
}

/* 0: as before, 1: in details, 2: in the list too; -1: out of memory. Both lists are sorted by the first token. */
static int take_holders(struct see_model *model, struct see_row *row, const hf_entry *entry,
                        int64_t now_ms)
{
    size_t count = entry ? entry->holder_count : 0, old = 0;
    struct see_holder *are = NULL;
    const struct see_holder *next = NULL;
    uint64_t handovers = 0;
    bool list = count != row->holder_count, detail = false;

    if (!spare_for(model, count))
        return -1;
    are = model->spare;
    for (size_t i = 0; i < count; i++)
        holder_of(hf_entry_holder(entry, i), now_ms, &are[i]);
    if (count == 1 && entry->kind == HF_KIND_MUTEX)
        next = are;
    if (count > 1)
        qsort(are, count, sizeof *are, compare_holders);
    for (size_t i = 0; i < count; i++) {
        while (old < row->holder_count && !same_lease(&row->holders[old], &are[i]) &&
               compare_holders(&row->holders[old], &are[i]) < 0)
            ended(model, row, &row->holders[old++], next, now_ms);
        if (old < row->holder_count && same_lease(&row->holders[old], &are[i])) {
            const struct see_holder *was = &row->holders[old++];

            carry_over(was, &are[i], now_ms);
            if (are[i].token > was->token) { /* passed on locally */
                handovers += are[i].token - was->token;
                see_history_hold(model, row, are[i].since_ms - was->since_ms);
            }
            if (!same_holder(was, &are[i], &detail))
                list = true;
        } else {
            are[i].at_risk = is_at_risk(&are[i], now_ms);
            begun(model, row, &are[i]);
            handovers += model->looked; /* the first view: what was there already */
            list = true;
        }
    }
    while (old < row->holder_count)
        ended(model, row, &row->holders[old++], next, now_ms);
    if (handovers)
        see_history_handovers(model, row, handovers, now_ms);
    if (count > row->holder_count) {
        struct see_holder *holders = realloc(row->holders, count * sizeof *holders);

        if (!holders)
            return -1;
        row->holders = holders;
    }
    if (count > 0 && (list || detail))
        memcpy(row->holders, are, count * sizeof *are);
    row->holder_count = count;
    return list ? 2 : detail;
}

/* ---- waiters ------------------------------------------------------------------------------------ */

static bool same_waiter(const struct see_waiter *was, const hf_waiter *is, int64_t now_ms)
{
    return was->pid == is->pid && was->session == is->session && was->kind == is->kind &&
           was->permits == is->permits &&
           distance(was->since_ms, now_ms - is->age_ms) < SINCE_NOISE_MS &&
           strncmp(was->label, is->label ? is->label : "", sizeof was->label - 1) == 0;
}

static int take_waiters(struct see_row *row, const hf_entry *entry, int64_t now_ms)
{
    size_t count = entry ? entry->waiter_count : 0, same = 0, old = 0,
           was_count = row->waiter_count;
    struct see_waiter *waiters;

    while (same < count && same < row->waiter_count &&
           same_waiter(&row->waiters[same], hf_entry_waiter(entry, same), now_ms))
        same++;
    if (same == count && same == row->waiter_count)
        return 0;
    waiters = calloc(count + 1, sizeof *waiters);
    if (!waiters)
        return -1;
    for (size_t i = 0; i < count; i++) {
        const hf_waiter *from = hf_entry_waiter(entry, i);
        struct see_waiter *to = &waiters[i];

        *to = (struct see_waiter){ from->position, from->permits, from->kind, now_ms - from->age_ms,
                                   from->pid,      from->session, "" };
        if (from->label)
            strncpy(to->label, from->label, sizeof to->label - 1);
        for (size_t at = old; at < row->waiter_count; at++) /* the front goes, the end comes */
            if (same_waiter(&row->waiters[at], from, now_ms)) {
                to->since_ms = row->waiters[at].since_ms;
                old = at + 1;
                break;
            } else if (row->waiters[at].since_ms > to->since_ms + SINCE_NOISE_MS) {
                break;
            }
    }
    free(row->waiters);
    row->waiters = waiters;
    row->waiter_count = count;
    return count == was_count ? 1 : 2;
}

/* ---- states ---------------------------------------------------------------------------------------- */

static enum see_state state_of(const struct see_row *row, int64_t now_ms)
{
    size_t idle = 0;

    for (size_t i = 0; i < row->holder_count; i++) {
        if (row->holders[i].at_risk)
            return SEE_AT_RISK;
        idle += row->holders[i].idle;
    }
    if (row->holder_count == 0 && row->lost_at_ms && now_ms - row->lost_at_ms < SEE_LOST_MS)
        return SEE_LOST;
    if (row->waiter_count > 0)
        return row->holder_count > 0 ? SEE_WANTED : SEE_WAITING;
    return row->holder_count > idle ? SEE_HELD : SEE_IDLE;
}

static bool is_overdue(const struct see_row *row, int64_t now_ms)
{
    const struct see_holder *holder = see_row_holder(row);

    return holder && !holder->idle && row->p99_ms >= 0 && now_ms - holder->since_ms > row->p99_ms &&
           now_ms - holder->since_ms > 1000;
}

/* The model's counts are of present rows. */
static void count_row(struct see_model *model, const struct see_row *row, bool add)
{
    if (!row->present)
        return;
    model->present += add ? 1 : (size_t)-1;
    model->by_state[row->state] += add ? 1 : (size_t)-1;
    model->waiters += add ? row->waiter_count : (size_t)0 - row->waiter_count;
}

static int take_entry(struct see_model *model, struct see_row *row, const hf_entry *entry,
                      int64_t now_ms)
{
    int64_t closed_ms = entry && entry->closed_ms > 0 ? now_ms + entry->closed_ms : 0;
    int holders = take_holders(model, row, entry, now_ms);
    int waiters = take_waiters(row, entry, now_ms);
    int change = holders > waiters ? holders : waiters;

    if (entry && (row->kind != entry->kind || row->capacity != entry->capacity ||
                  row->taken != entry->taken)) {
        row->kind = entry->kind;
        row->capacity = entry->capacity;
        change = 2;
    }
    row->taken = entry ? entry->taken : 0;
    if (!closed_ms != !row->closed_until_ms ||
        distance(closed_ms, row->closed_until_ms) >= SINCE_NOISE_MS) {
        row->closed_until_ms = closed_ms;
        change = 2;
    }
    return holders < 0 || waiters < 0 ? -1 : change;
}

/* entry NULL: the view has none. */
static bool take_row(struct see_model *model, struct see_row *row, const hf_entry *entry,
                     int64_t now_ms)
{
    bool present = entry, overdue;
    enum see_state state;
    int change;

    count_row(model, row, false);
    change = take_entry(model, row, entry, now_ms);
    state = state_of(row, now_ms);
    overdue = is_overdue(row, now_ms);
    present = entry || state == SEE_LOST;
    if (state != row->state || overdue != row->overdue || present != row->present)
        change = 2;
    model->present_change += present != row->present;
    row->state = state;
    row->overdue = overdue;
    row->present = present;
    row->round = model->round;
    if (entry)
        row->seen_ms = now_ms;
    count_row(model, row, true);
    if (change)
        see_row_touch(model, row, change != 1);
    return change >= 0;
}

static void mark_circles(struct see_model *model)
{
    for (size_t i = 0; i < model->circle_count; i++)
        for (size_t k = 0; k < model->circles[i].count; k++) {
            const struct see_link *link = &model->circles[i].links[k];
            struct see_row *row = see_model_find(model, link->name, link->name_len);

            if (!row || !row->present || row->state == SEE_DEADLOCK)
                continue;
            count_row(model, row, false);
            row->state = SEE_DEADLOCK;
            count_row(model, row, true);
        }
}

/* Rows of circles were judged as wanted, and are deadlocks again: only the others have changed. */
static bool take_circles(struct see_model *model, const hf_deadlocks *deadlocks, int64_t now_ms)
{
    struct see_circle *were = model->circles;
    size_t count = model->circle_count;
    bool done = see_circles_take(model, deadlocks, now_ms);

    mark_circles(model);
    if (done && were != model->circles) { /* other circles: say so of every row in both */
        struct see_circle *lists[] = { were, model->circles };
        size_t counts[] = { count, model->circle_count };

        for (size_t l = 0; l < 2; l++)
            for (size_t i = 0; i < counts[l]; i++)
                for (size_t k = 0; k < lists[l][i].count; k++) {
                    struct see_link *link = &lists[l][i].links[k];
                    struct see_row *row = see_model_find(model, link->name, link->name_len);

                    if (row)
                        see_row_touch(model, row, true);
                }
        see_circles_free(were, count);
    }
    return done;
}

/* Rows that the view does not have: lost ones stay for a minute, the past of the others for a while. */
static bool sweep(struct see_model *model, int64_t now_ms)
{
    bool done = true;

    for (struct see_row *row = model->oldest, *next; row; row = next) {
        next = row->newer;
        if (row->round == model->round)
            continue;
        if (row->present)
            done = take_row(model, row, NULL, now_ms) && done;
        else if (now_ms - row->seen_ms > SEE_REMEMBERED_MS || row->seen_ms > now_ms ||
                 model->known - model->present > SEE_REMEMBERED)
            see_row_forget(model, row);
    }
    return done;
}

static bool take_view(struct see_model *model, const hf_view *view, int64_t now_ms)
{
    bool done = true;

    model->round++;
    see_model_set_up(model, true, now_ms);
    see_history_turn(model, now_ms);
    for (size_t i = 0; i < hf_view_count(view); i++) {
        const hf_entry *entry = hf_view_entry(view, i);
        struct see_row *row = see_row_for(model, entry->name, entry->name_len);
        bool deadlock = row && row->state == SEE_DEADLOCK;

        if (deadlock) { /* judged again with the circles, which say so if it has changed */
            count_row(model, row, false);
            row->state = state_of(row, now_ms);
            count_row(model, row, true);
        }
        done = row && take_row(model, row, entry, now_ms) && done;
    }
    return sweep(model, now_ms) && done;
}

bool see_model_update(struct see_model *model, const hf_view *view, const hf_deadlocks *deadlocks,
                      int64_t now_ms)
{
    bool done = take_view(model, view, now_ms);

    done = take_circles(model, deadlocks, now_ms) && done;
    if (model->absent)
        model->state_change = ++model->change;
    model->absent = false;
    model->waiters_tracked = hf_view_waiters_tracked(view);
    model->looked = true;
    model->looked_ms = now_ms;
    model->asked_ms = 0;
    return done;
}

void see_model_absent(struct see_model *model, const char *where, int64_t now_ms)
{
    take_view(model, NULL, now_ms);
    take_circles(model, NULL, now_ms);
    if (!model->absent)
        model->state_change = ++model->change;
    model->absent = true;
    model->looked = true;
    model->looked_ms = now_ms;
    model->asked_ms = 0;
    strncpy(model->text, where, sizeof model->text - 1);
}
