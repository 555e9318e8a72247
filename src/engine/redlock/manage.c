/* SPDX-License-Identifier: MIT */
/*
 * `holdfast redlock`: what the nodes are, and healing by hand. The same steps as heal.c takes by itself, planned by the
 * same function, but one after the other over connections of our own (probe.h), because a store that needs
 * this need not open. Only --force does what no client does: see force().
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

#define TURN_MS   1000 /* while something must pass, the nodes are asked so often */
#define STEPS_MAX 1000
#define FORCED_AHEAD \
    61000000 /* microseconds: no client's clock is believed that is further ahead */

struct manager {
    struct redlock_store store; /* parsed, never opened */
    struct redlock_probe probe;
    struct hfi_report report;
    bool force;
    int node;      /* the one to be healed; -1: all */
    uint32_t told; /* nodes of which we have said that they must age */
    bool told_given_up;
    struct hfi_node_view views[HFI_NODES_MAX];
};

static hf_status status(struct manager *m, hf_error *err);
static hf_status join(struct manager *m, hf_error *err);
static hf_status read_words(struct manager *m, const char *const *words, bool *ret_join,
                            hf_error *err);

hf_status redlock_manage(struct hfi_conf *conf, const char *const *words, hfi_finding_fn *finding,
                         void *arg, hf_error *err)
{
    struct manager *m = hfi_calloc(1, sizeof *m);
    bool joins = false;
    hf_status result;

    if (!m)
        return hfi_error_memory(err);
    m->report = (struct hfi_report){ .finding = finding, .arg = arg };
    m->node = -1;
    result = redlock_parse(&m->store, conf, "manage", err);
    if (result == HF_OK)
        result = read_words(m, words, &joins, err);
    if (result == HF_OK) {
        redlock_probe_init(&m->probe, m->store.conf);
        result = joins ? join(m, err) : status(m, err);
        redlock_probe_done(&m->probe);
    }
    redis_conf_done(m->store.conf);
    hfi_free(m);
    return result;
}

static hf_status read_words(struct manager *m, const char *const *words, bool *ret_join,
                            hf_error *err)
{
    const struct hfi_redis_conf *conf = m->store.conf;

    if (!words[0] || (strcmp(words[0], "status") != 0 && strcmp(words[0], "join") != 0))
        return hfi_error_set(err, HF_INVALID, 0, "redlock has status and join");
    *ret_join = strcmp(words[0], "join") == 0;
    for (words++; *words; words++) {
        if (*ret_join && strcmp(*words, "--force") == 0) {
            m->force = true;
            continue;
        }
        for (size_t i = 0; *ret_join && m->node < 0 && i < conf->url.host_count; i++)
            if (strcmp(conf->url.hosts[i].shown, *words) == 0)
                m->node = (int)i;
        if (m->node < 0 || strcmp(conf->url.hosts[m->node].shown, *words) != 0)
            return hfi_error_set(err, HF_INVALID, 0, "'%.100s' is not one of the nodes of the URL",
                                 *words);
    }
    return HF_OK;
}

static const char *name_of(const struct manager *m, unsigned node)
{
    return redlock_probe_name(&m->probe, node);
}

static const char *why_of(const struct manager *m, unsigned node)
{
    return redlock_why(m->store.conf, node, &m->probe.nodes[node].why);
}

static void look(struct manager *m)
{
    redlock_probe_look(&m->probe);
    redlock_probe_views(&m->probe, m->views);
}

static hf_status stuck(const struct manager *m, enum hfi_stuck why, hf_error *err)
{
    const hf_error *whys[HFI_NODES_MAX];

    for (unsigned i = 0; i < m->probe.n; i++)
        whys[i] = &m->probe.nodes[i].why;
    return redlock_stuck_text(m->store.conf, m->views, m->probe.n, why, whys, err);
}

/* ---- status ------------------------------------------------------------------------------------ */

static void say_node(const struct manager *m, unsigned node, uint64_t highest, bool votes)
{
    const struct redlock_probed *at = &m->probe.nodes[node];
    const struct hfi_node_view *view = &at->told.view;
    char id[2 * HFI_EPOCH_ID + 1], cluster[2 * HFI_EPOCH_ID + 1];

    switch (view->state) {
    case HFI_NODE_READY:
        hfi_hex(view->epoch.id, HFI_EPOCH_ID, id);
        hfi_hex(view->cluster, HFI_EPOCH_ID, cluster);
        hfi_report(&m->report, votes ? HF_CHECK_LEVEL_OK : HF_CHECK_LEVEL_WARNING, name_of(m, node),
                   "state=ready votes=%s epoch=%llu epoch_id=%s lag=%llu cluster=%s nodes=%u "
                   "max_ttl_ms=%lld top=%llu "
                   "floor=%llu names=%llu",
                   votes ? "yes" : "no", (unsigned long long)view->epoch.number, id,
                   (unsigned long long)(highest - view->epoch.number), cluster, view->n,
                   (long long)view->max_ttl_ms, (unsigned long long)view->top,
                   (unsigned long long)at->told.floor, (unsigned long long)at->told.names);
        break;
    case HFI_NODE_EMPTY:
        hfi_hex(view->marker, HFI_EPOCH_ID, id);
        hfi_report(&m->report, HF_CHECK_LEVEL_WARNING, name_of(m, node),
                   "state=empty votes=no%s%s age_ms=%lld", view->marked ? " marker=" : "",
                   view->marked ? id : "", (long long)view->age_ms);
        break;
    case HFI_NODE_UNKNOWN:
        hfi_report(&m->report, HF_CHECK_LEVEL_BAD, name_of(m, node), "state=%s votes=no why=%s",
                   at->ask ? "unfit" : "unreachable", why_of(m, node));
    }
}

static const char *step_word(enum hfi_heal_step step)
{
    static const char *const words[] = { "nothing", "start",   "mark", "wait",
                                         "seal",    "install", "lift", "operator" };

    return words[step];
}

static hf_status status(struct manager *m, hf_error *err)
{
    unsigned n = m->probe.n, votes = 0;
    struct hfi_epoch epoch;
    struct hfi_heal plan;
    uint64_t highest = 0;
    bool current;

    look(m);
    current = hfi_epoch_current(m->views, n, &epoch);
    for (unsigned i = 0; i < n; i++)
        if (m->views[i].state == HFI_NODE_READY && m->views[i].epoch.number > highest)
            highest = m->views[i].epoch.number;
    for (unsigned i = 0; i < n; i++) {
        bool in = current && m->views[i].state == HFI_NODE_READY && m->views[i].n == n &&
                  hfi_epoch_compare(&m->views[i].epoch, &epoch) == 0;

        votes += in;
        say_node(m, i, highest, in);
    }
    plan = hfi_heal_next(m->views, n);
    hfi_report(
        &m->report,
        votes == n                 ? HF_CHECK_LEVEL_OK
        : votes >= hfi_majority(n) ? HF_CHECK_LEVEL_WARNING
                                   : HF_CHECK_LEVEL_BAD,
        "cluster", "votes=%u needed=%u nodes=%u next=%s wait_ms=%lld", votes, hfi_majority(n), n,
        plan.step == HFI_HEAL_STUCK && plan.why == HFI_STUCK_FEW ? "nodes" : step_word(plan.step),
        (long long)(plan.step == HFI_HEAL_AGE ? plan.wait_ms : 0));
    if (plan.step == HFI_HEAL_STUCK)
        return stuck(m, plan.why, err);
    return HF_OK;
}

/* ---- join: the steps ---------------------------------------------------------------------------- */

static hf_status node_error(const struct manager *m, unsigned node, const hf_error *inner,
                            hf_error *err)
{
    return hfi_error_set(err, inner->status, inner->native, "%s: %s", name_of(m, node),
                         inner->text);
}

static hf_status mark(struct manager *m, unsigned node, const unsigned char *marker,
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

static hf_status seal(struct manager *m, unsigned node, const struct hfi_epoch *epoch,
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

static hf_status install(struct manager *m, unsigned node, const struct hfi_node_view *as,
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

static const struct hfi_node_view *highest_ready(const struct manager *m)
{
    const struct hfi_node_view *best = NULL;

    for (unsigned i = 0; i < m->probe.n; i++)
        if (m->views[i].state == HFI_NODE_READY &&
            (!best || hfi_epoch_compare(&m->views[i].epoch, &best->epoch) > 0))
            best = &m->views[i];
    return best;
}

static hf_status take_step(struct manager *m, const struct hfi_heal *plan, hf_error *err)
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

static void sleep_ms(int64_t ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

    nanosleep(&t, NULL);
}

/* What passes by itself: said once, and looked at again and again, for others may be quicker. */
static void wait_aged(struct manager *m, uint32_t nodes, int64_t wait_ms)
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
    sleep_ms(wait_ms < 1 ? 1 : wait_ms > TURN_MS ? TURN_MS : wait_ms);
}

/* ---- join: a new cluster --------------------------------------------------------------------------- */

/* As heal_start.c does it: mark all with one fresh marker, see that all carry it still, install. */
static hf_status start(struct manager *m, hf_error *err)
{
    struct hfi_node_view as = { .n = m->probe.n, .max_ttl_ms = m->store.max_ttl_ms };
    struct hfi_epoch epoch = { .number = 1 };
    int64_t since_ms = hfi_now_ms();
    hf_status result = HF_OK;

    hfi_random_bytes(epoch.id, sizeof epoch.id);
    hfi_random_bytes(as.cluster, sizeof as.cluster);
    for (unsigned i = 0; result == HF_OK && i < m->probe.n; i++)
        result = mark(m, i, epoch.id, REDLOCK_START_STALE_MS, err);
    if (result != HF_OK)
        return result;
    look(m);
    for (unsigned i = 0; i < m->probe.n; i++)
        if (m->views[i].state != HFI_NODE_EMPTY || !m->views[i].marked ||
            memcmp(m->views[i].marker, epoch.id, HFI_EPOCH_ID) != 0)
            since_ms = 0; /* somebody else is at it */
    if (hfi_now_ms() - since_ms > REDLOCK_START_LIMIT_MS) {
        sleep_ms(TURN_MS / 10 + (int64_t)(hfi_random_u64() % TURN_MS));
        return HF_OK;
    }
    for (unsigned i = 0; result == HF_OK && i < m->probe.n; i++)
        result = install(m, i, &as, &epoch, 0, err);
    return result;
}

/* ---- join --force ------------------------------------------------------------------------------------- */

static uint64_t wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void say_given_up(struct manager *m)
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
static bool sealed_top(const struct manager *m, const struct hfi_epoch *epoch, uint64_t *ret_top)
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
 * Too few nodes have data to know which tokens were given out: a person says that it shall go on all the same. As a heal,
 * but the floor is not known, it is chosen: above all that is remembered, and above the time, which tokens follow. All
 * nodes must be there: one that is away could have the data that is missed. What is not given up is
 * waiting for max_ttl, so nothing that was forgotten is granted again while it may be held.
 */
static hf_status force(struct manager *m, hf_error *err)
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
        wait_aged(m, empty, wait_ms);
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
    look(m);
    as = highest_ready(m);
    if (!as || !sealed_top(m, &step.epoch, &top))
        return HF_OK; /* somebody else is at it: see what there is now */
    for (unsigned i = 0; result == HF_OK && i < m->probe.n; i++)
        if (empty & 1u << i && m->views[i].state == HFI_NODE_EMPTY)
            result = install(m, i, as, &step.epoch, (top > now_us ? top : now_us) + 1, err);
    return result;
}

static hf_status lost(struct manager *m, hf_error *err)
{
    for (unsigned i = 0; m->force && i < m->probe.n; i++)
        if (m->views[i].state == HFI_NODE_UNKNOWN)
            return hfi_error_set(
                err, HF_UNAVAILABLE, 0,
                "--force needs all nodes, for one that is away could have the data that is missed; "
                "%s: %s",
                name_of(m, i), why_of(m, i));
    return m->force ? force(m, err) : stuck(m, HFI_STUCK_LOST, err);
}

/* ---- join ------------------------------------------------------------------------------------------------ */

/* Nothing is left to be done: is all there that should be? */
static hf_status joined(struct manager *m, hf_error *err)
{
    unsigned away = 0;

    for (unsigned i = 0; i < m->probe.n; i++) {
        if (m->views[i].state == HFI_NODE_READY)
            continue;
        away++;
        if (m->node < 0 || m->node == (int)i)
            return hfi_error_set(err, HF_UNAVAILABLE, 0, "%s: %s", name_of(m, i), why_of(m, i));
    }
    hfi_report(&m->report, away ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_OK, "cluster",
               "%u of %u nodes vote", m->probe.n - away, m->probe.n);
    return HF_OK;
}

static bool is_joined(const struct manager *m)
{
    struct hfi_epoch epoch;

    return m->node >= 0 && m->views[m->node].state == HFI_NODE_READY &&
           hfi_epoch_current(m->views, m->probe.n, &epoch) &&
           hfi_epoch_compare(&epoch, &m->views[m->node].epoch) == 0;
}

static hf_status join(struct manager *m, hf_error *err)
{
    hf_status result = HF_OK;
    struct hfi_heal plan;

    for (int step = 0; result == HF_OK && step < STEPS_MAX; step++) {
        look(m);
        plan = hfi_heal_next(m->views, m->probe.n);
        if (is_joined(m)) {
            hfi_report(&m->report, HF_CHECK_LEVEL_OK, name_of(m, (unsigned)m->node), "it votes");
            return HF_OK;
        }
        if (plan.step == HFI_HEAL_NOTHING)
            return joined(m, err);
        if (plan.step == HFI_HEAL_STUCK)
            result = plan.why == HFI_STUCK_LOST ? lost(m, err) : stuck(m, plan.why, err);
        else if (plan.step == HFI_HEAL_START)
            result = start(m, err);
        else if (plan.step == HFI_HEAL_AGE) {
            wait_aged(m, plan.nodes, plan.wait_ms);
            step--; /* as long as it takes */
        } else
            result = take_step(m, &plan, err);
    }
    return result == HF_OK ? hfi_error_set(err, HF_UNAVAILABLE, 0,
                                           "the nodes change faster than they can be healed")
                           : result;
}
