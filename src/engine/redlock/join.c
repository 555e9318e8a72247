/* SPDX-License-Identifier: MIT */
/*
 * hf_redlock_join(): healing by hand. The steps are those of heal.c, planned by the same function. Here they are taken one
 * after the other over connections of their own (probe.h), because a store that needs this cannot
 * always be opened. Only `force` does what no client does by itself: see force(). A step blocks for
 * some round trips, on the caller's thread or on a worker; between two steps the caller waits.
 */
#include "engine/redlock/probe.h"

#include "engine/kit/report.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define TURN_MS   1000 /* how often the nodes are probed while we wait */
#define STEPS_MAX 1000
#define FORCED_AHEAD \
    61000000 /* microseconds: nodes ignore clocks of clients that are further ahead */

struct hfi_redlock_join {
    struct redlock_conf *conf;
    struct redlock_probe probe;
    const struct hfi_node_view *views; /* the probe's */
    struct hfi_report report;
    bool force;
    int node;      /* the one to be healed; -1: all */
    uint32_t told; /* nodes for which the wait was reported */
    bool told_given_up;
    int steps;
    int64_t rest_ms; /* after this step, before the next one */
};

static const char *name_of(const struct hfi_redlock_join *m, unsigned node)
{
    return redlock_probe_name(&m->probe, node);
}

/* ---- the steps ------------------------------------------------------------------------------------------ */

static hf_status node_error(const struct hfi_redlock_join *m, unsigned node, const hf_error *inner,
                            hf_error *err)
{
    return hfi_error_set(err, inner->status, inner->native, "%s: %s", name_of(m, node),
                         inner->text);
}

static hf_status mark(struct hfi_redlock_join *m, unsigned node, const unsigned char *marker,
                      int64_t overwrite_ms, hf_error *err)
{
    struct hfi_command command;
    hf_error inner;

    redlock_probe_begin(&m->probe, &command, &redlock_script_mark);
    redlock_say_mark(&command, marker, overwrite_ms);
    if (!redlock_probe_send(&m->probe, node, &command, &inner))
        return node_error(m, node, &inner, err);
    hfi_report(&m->report, HF_CHECK_LEVEL_OK, name_of(m, node),
               "marked: its time counts from here on");
    return HF_OK;
}

static hf_status seal(struct hfi_redlock_join *m, unsigned node, const struct hfi_epoch *epoch,
                      hf_error *err)
{
    struct hfi_command command;
    hf_error inner;
    char letter;

    redlock_probe_begin(&m->probe, &command, &redlock_script_seal);
    redlock_say_seal(&command, &m->views[node].epoch, epoch);
    letter = redlock_probe_send(&m->probe, node, &command, &inner);
    if (!letter)
        return node_error(m, node, &inner, err);
    if (letter == 'S')
        hfi_report(&m->report, HF_CHECK_LEVEL_OK, name_of(m, node), "moved on to epoch %llu",
                   (unsigned long long)epoch->number);
    return HF_OK;
}

static hf_status install(struct hfi_redlock_join *m, unsigned node, const struct hfi_node_view *as,
                         const struct hfi_epoch *epoch, uint64_t floor, hf_error *err)
{
    struct hfi_command command;
    hf_error inner;
    char letter;

    redlock_probe_begin(&m->probe, &command, &redlock_script_install);
    redlock_say_install(&command, m->views[node].marker, as, epoch, floor);
    letter = redlock_probe_send(&m->probe, node, &command, &inner);
    if (!letter)
        return node_error(m, node, &inner, err);
    if (letter == 'D')
        hfi_report(&m->report, HF_CHECK_LEVEL_OK, name_of(m, node),
                   "joined in epoch %llu, with tokens above %llu",
                   (unsigned long long)epoch->number, (unsigned long long)floor);
    return HF_OK;
}

static const struct hfi_node_view *highest_ready(const struct hfi_redlock_join *m)
{
    const struct hfi_node_view *best = NULL;

    for (unsigned i = 0; i < m->probe.n; i++)
        if (m->views[i].state == HFI_NODE_READY &&
            (!best || hfi_epoch_compare(&m->views[i].epoch, &best->epoch) > 0))
            best = &m->views[i];
    return best;
}

static hf_status take_step(struct hfi_redlock_join *m, const struct hfi_heal *plan, hf_error *err)
{
    unsigned char marker[HFI_EPOCH_ID];
    hf_status result = HF_OK;

    for (unsigned i = 0; result == HF_OK && i < m->probe.n; i++) {
        if (!(plan->nodes & 1u << i))
            continue;
        if (plan->step == HFI_HEAL_MARK) {
            hfi_random_bytes(marker, sizeof marker); /* each is sent once */
            result = mark(m, i, marker, 0, err);
        } else if (plan->step == HFI_HEAL_INSTALL) {
            result = install(m, i, highest_ready(m), &plan->epoch, plan->floor, err);
        } else {
            result = seal(m, i, &plan->epoch, err);
        }
    }
    return result;
}

/* Wait for time to pass: reported once; the nodes are probed again and again, since other clients
 * may be quicker. */
static void rest_until_aged(struct hfi_redlock_join *m, uint32_t nodes, int64_t wait_ms)
{
    char left[32];

    for (unsigned i = 0; i < m->probe.n; i++) {
        if (!(nodes & ~m->told & 1u << i))
            continue;
        m->told |= 1u << i;
        hfi_report(
            &m->report, HF_CHECK_LEVEL_WARNING, name_of(m, i),
            "waiting for %s: what it granted and has forgotten may be held until then (max_ttl)",
            hfi_format_duration(wait_ms > 0 ? wait_ms : 1, left, sizeof left));
    }
    m->rest_ms = wait_ms < 1 ? 1 : wait_ms > TURN_MS ? TURN_MS : wait_ms;
}

/* ---- a new cluster -------------------------------------------------------------------------------------- */

/* As in heal_start.c: mark all with a fresh marker, check that all still carry it, install. */
static hf_status start(struct hfi_redlock_join *m, hf_error *err)
{
    struct hfi_node_view as = { .n = m->probe.n, .max_ttl_ms = m->conf->max_ttl_ms };
    struct hfi_epoch epoch = { .number = 1 };
    int64_t since_ms = hfi_now_ms();
    hf_status result = HF_OK;

    hfi_random_bytes(epoch.id, sizeof epoch.id);
    hfi_random_bytes(as.cluster, sizeof as.cluster);
    for (unsigned i = 0; result == HF_OK && i < m->probe.n; i++)
        result = mark(m, i, epoch.id, REDLOCK_START_STALE_MS, err);
    if (result != HF_OK)
        return result;
    redlock_probe_look(&m->probe);
    for (unsigned i = 0; i < m->probe.n; i++)
        if (m->views[i].state != HFI_NODE_EMPTY || !m->views[i].marked ||
            memcmp(m->views[i].marker, epoch.id, HFI_EPOCH_ID) != 0)
            since_ms = 0; /* another client is doing it */
    if (hfi_now_ms() - since_ms > REDLOCK_START_LIMIT_MS) {
        m->rest_ms = TURN_MS / 10 + (int64_t)(hfi_random_u64() % TURN_MS);
        return HF_OK;
    }
    for (unsigned i = 0; result == HF_OK && i < m->probe.n; i++)
        result = install(m, i, &as, &epoch, 0, err);
    return result;
}

/* ---- force ---------------------------------------------------------------------------------------------- */

static uint64_t wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void say_given_up(struct hfi_redlock_join *m)
{
    if (m->told_given_up)
        return;
    m->told_given_up = true;
    hfi_report(
        &m->report, HF_CHECK_LEVEL_WARNING, "force",
        "given up: that every new token is larger than every old one. They will be larger than all "
        "that the nodes with "
        "data remember and than the present time in microseconds with a minute on top, so an old "
        "token can only be "
        "larger if it came from a clock that was further ahead. Resources that check tokens should "
        "be looked at");
}

/* The highest counter of the nodes with data; all of them in `epoch`, else false. */
static bool sealed_top(const struct hfi_redlock_join *m, const struct hfi_epoch *epoch,
                       uint64_t *ret_top)
{
    *ret_top = 0;
    for (unsigned i = 0; i < m->probe.n; i++) {
        if (m->views[i].state != HFI_NODE_READY)
            continue;
        if (hfi_epoch_compare(&m->views[i].epoch, epoch) != 0)
            return false;
        if (m->views[i].top > *ret_top)
            *ret_top = m->views[i].top;
    }
    return true;
}

/*
 * Too few nodes have data to know which tokens were granted: a person decides to continue all the
 * same. This is a heal with a chosen floor: above everything that is remembered, and above the
 * time, which tokens follow. All nodes must answer: one that is away could have the missing data.
 * We still wait for max_ttl, so nothing that was forgotten is granted again while it may be held.
 */
static hf_status force(struct hfi_redlock_join *m, hf_error *err)
{
    const struct hfi_node_view *as = highest_ready(m);
    struct hfi_heal step = { .step = HFI_HEAL_MARK };
    uint64_t top, now_us = wall_us() + FORCED_AHEAD;
    hf_status result = HF_OK;
    int64_t wait_ms = 0;
    uint32_t empty = 0;

    say_given_up(m);
    for (unsigned i = 0; i < m->probe.n; i++) {
        const struct hfi_node_view *view = &m->views[i];
        int64_t left_ms = as->max_ttl_ms - view->age_ms;

        if (view->state != HFI_NODE_EMPTY)
            continue;
        empty |= 1u << i;
        if (!view->marked)
            step.nodes |= 1u << i;
        else if (left_ms > wait_ms)
            wait_ms = left_ms;
    }
    if (step.nodes)
        return take_step(m, &step, err);
    if (wait_ms > 0) {
        rest_until_aged(m, empty, wait_ms);
        return HF_OK;
    }

    step.step = HFI_HEAL_SEAL;
    step.epoch.number = as->epoch.number + 1;
    hfi_random_bytes(step.epoch.id, sizeof step.epoch.id);
    for (unsigned i = 0; i < m->probe.n; i++)
        if (m->views[i].state == HFI_NODE_READY)
            step.nodes |= 1u << i;
    result = take_step(m, &step, err);
    if (result != HF_OK)
        return result;
    redlock_probe_look(&m->probe);
    as = highest_ready(m);
    if (!as || !sealed_top(m, &step.epoch, &top))
        return HF_OK; /* another client is doing it: probe again */
    for (unsigned i = 0; result == HF_OK && i < m->probe.n; i++)
        if (empty & 1u << i && m->views[i].state == HFI_NODE_EMPTY)
            result = install(m, i, as, &step.epoch, (top > now_us ? top : now_us) + 1, err);
    return result;
}

static hf_status lost(struct hfi_redlock_join *m, hf_error *err)
{
    for (unsigned i = 0; m->force && i < m->probe.n; i++)
        if (m->views[i].state == HFI_NODE_UNKNOWN)
            return hfi_error_set(
                err, HF_UNAVAILABLE, 0,
                "--force needs all nodes, for one that is away could have the data that is missed; "
                "%s: %s",
                name_of(m, i), redlock_probe_why(&m->probe, i));
    return m->force ? force(m, err) : redlock_probe_stuck(&m->probe, HFI_STUCK_LOST, err);
}

/* ---- join ------------------------------------------------------------------------------------------------ */

/* Nothing is left to do: check that the requested nodes have joined. */
static hf_status joined(struct hfi_redlock_join *m, hf_error *err)
{
    unsigned away = 0;

    for (unsigned i = 0; i < m->probe.n; i++) {
        if (m->views[i].state == HFI_NODE_READY)
            continue;
        away++;
        if (m->node < 0 || m->node == (int)i)
            return hfi_error_set(err, HF_UNAVAILABLE, 0, "%s: %s", name_of(m, i),
                                 redlock_probe_why(&m->probe, i));
    }
    hfi_report(&m->report, away ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_OK, "cluster",
               "%u of %u nodes vote", m->probe.n - away, m->probe.n);
    return HF_OK;
}

static bool is_joined(const struct hfi_redlock_join *m)
{
    struct hfi_epoch epoch;

    return m->node >= 0 && m->views[m->node].state == HFI_NODE_READY &&
           hfi_epoch_current(m->views, m->probe.n, &epoch) &&
           hfi_epoch_compare(&epoch, &m->views[m->node].epoch) == 0;
}

hf_status redlock_join_step(struct hfi_redlock_join *m, int64_t *ret_rest_ms, hf_error *err)
{
    hf_status result = HF_OK;
    struct hfi_heal plan;

    if (m->steps++ == STEPS_MAX)
        return hfi_error_set(err, HF_UNAVAILABLE, 0,
                             "the nodes change faster than they can be healed");
    m->rest_ms = 0;
    *ret_rest_ms = HFI_REDLOCK_JOINED;
    redlock_probe_look(&m->probe);
    plan = hfi_heal_next(m->views, m->probe.n);
    if (is_joined(m)) {
        hfi_report(&m->report, HF_CHECK_LEVEL_OK, name_of(m, (unsigned)m->node), "it votes");
        return HF_OK;
    }
    if (plan.step == HFI_HEAL_NOTHING)
        return joined(m, err);
    if (plan.step == HFI_HEAL_STUCK) {
        result = plan.why == HFI_STUCK_LOST ? lost(m, err)
                                            : redlock_probe_stuck(&m->probe, plan.why, err);
    } else if (plan.step == HFI_HEAL_START) {
        result = start(m, err);
    } else if (plan.step == HFI_HEAL_AGE) {
        rest_until_aged(m, plan.nodes, plan.wait_ms);
        m->steps--; /* as long as it takes */
    } else {
        result = take_step(m, &plan, err);
    }
    *ret_rest_ms = m->rest_ms;
    return result;
}

/* The index of the node that the caller has named. */
static hf_status find_node(struct hfi_redlock_join *m, const char *name, hf_error *err)
{
    m->node = -1;
    for (unsigned i = 0; name && m->node < 0 && i < m->probe.n; i++)
        if (strcmp(name_of(m, i), name) == 0)
            m->node = (int)i;
    return !name || m->node >= 0
               ? HF_OK
               : hfi_error_set(err, HF_INVALID, 0, "'%.100s' is not one of the nodes of the URL",
                               name);
}

hf_status redlock_join_begin(struct hfi_conf *conf, const char *node, bool force,
                             hfi_finding_fn *finding, void *arg, struct hfi_redlock_join **ret_join,
                             hf_error *err)
{
    struct redlock_conf *redlock = (struct redlock_conf *)conf;
    struct hfi_redlock_join *m = hfi_calloc(1, sizeof *m);
    hf_status result;

    if (!m)
        return hfi_error_memory(err);
    m->conf = redlock;
    m->report = (struct hfi_report){ .finding = finding, .arg = arg };
    m->force = force;
    m->views = m->probe.views;
    result = redlock_conf_manage(redlock, err);
    if (result == HF_OK) { /* else it may have more nodes than there is room for */
        redlock_probe_init(&m->probe, &redlock->redis);
        result = find_node(m, node, err);
    }
    if (result == HF_OK)
        *ret_join = m;
    else
        redlock_join_end(m);
    return result;
}

void redlock_join_end(struct hfi_redlock_join *m)
{
    redlock_probe_done(&m->probe);
    redis_conf_done(&m->conf->redis);
    hfi_free(m);
}
