/* SPDX-License-Identifier: MIT */
/* The director's loop; see run.h. */
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS              INT64_C(1000000)
#define OPEN_WAIT_MS    30000
#define HUNG_MS         20000 /* no waiter waits that long unless it was forgotten */
#define RECOVER_WAIT_MS 10000
#define PAUSE_MS        400 /* at most, between faults */
#define STRIKES_MAX     4096
#define LASTS_MIN_MS    300
#define LASTS_MAX_MS    10000

void fault_sleep_ms(int64_t ms)
{
    usleep((useconds_t)(ms * 1000));
}

int64_t fault_lasts_ms(const struct shared *shared, uint64_t *dice)
{
    int64_t left_ms = (atomic_load(&shared->mutex_end_ns) - history_now_ns()) / MS;

    if (chance(dice, 3) == 0 &&
        shared->wrong != WRONG_VALIDITY) /* which matters past the end only */
        return 10 + chance(dice, 100);
    if (left_ms < LASTS_MIN_MS)
        left_ms = LASTS_MIN_MS;
    if (left_ms > LASTS_MAX_MS)
        left_ms = LASTS_MAX_MS;
    return left_ms + 200 + chance(dice, 300);
}

/* ---- our own side ---------------------------------------------------------------------------- */

void strike_client_kill(void *arg, uint64_t *dice)
{
    struct director *d = arg;
    int victim = crew_inside(&d->crew, dice);

    crew_kill(&d->crew, victim >= 0 ? (unsigned)victim : chance(dice, WORKERS));
}

void strike_client_stop(void *arg, uint64_t *dice)
{
    struct director *d = arg;
    int victim = crew_inside(&d->crew, dice);
    unsigned worker = victim >= 0 ? (unsigned)victim : chance(dice, WORKERS);

    crew_stop(&d->crew, worker);
    fault_sleep_ms(fault_lasts_ms(d->shared, dice));
    crew_continue(&d->crew, worker);
}

/* ---- the loop ------------------------------------------------------------------------------------ */

/* How long until the mutex is granted again; RECOVER_WAIT_MS if it is not. */
static int64_t recover(struct director *d)
{
    unsigned before = atomic_load(&d->shared->grants[LOCK_MUTEX]);
    int64_t begin_ns = history_now_ns(), now_ns = begin_ns;

    while (atomic_load(&d->shared->grants[LOCK_MUTEX]) == before &&
           !atomic_load(&d->shared->history.stop) && now_ns - begin_ns < RECOVER_WAIT_MS * MS) {
        usleep(500);
        crew_tend(&d->crew);
        now_ns = history_now_ns();
    }
    return (now_ns - begin_ns) / MS;
}

static int by_value(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

    return (a > b) - (a < b);
}

static void torment(struct director *d, const struct fault *fault, int64_t until_ns,
                    struct outcome *outcome)
{
    static int64_t took_ms[STRIKES_MAX];
    unsigned n = 0;

    while (history_now_ns() < until_ns && n < STRIKES_MAX &&
           !atomic_load(&d->shared->history.stop)) {
        fault_sleep_ms(20 + chance(&d->dice, PAUSE_MS));
        atomic_store(&d->shared->trouble, fault->through);
        fault->strike(fault->arg, &d->dice);
        atomic_store(&d->shared->trouble, 0);
        took_ms[n++] = recover(d);
    }
    outcome->strikes = n;
    if (n == 0)
        return;
    qsort(took_ms, n, sizeof *took_ms, by_value);
    outcome->recover_ms = took_ms[n / 2];
    outcome->recover_max_ms = took_ms[n - 1];
}

static void collect(struct director *d, struct outcome *o)
{
    struct shared *s = d->shared;

    for (unsigned i = 0; i < LOCKS; i++)
        o->grants[i] = atomic_load(&s->grants[i]);
    for (unsigned i = 0; i < STATUSES; i++)
        o->failed[i] = atomic_load(&s->failed[i]);
    for (unsigned i = 0; i < LEDGERS; i++) {
        o->ledger_done[i] = atomic_load(&s->ledgers[i].done);
        o->ledger_lost[i] = atomic_load(&s->ledgers[i].lost);
        o->ledger_refused[i] = atomic_load(&s->ledgers[i].refused);
    }
    o->losses = atomic_load(&s->losses);
    o->late_ms = atomic_load(&s->late_ns) / MS;
    o->caps = atomic_load(&s->caps);
    o->tokens = (hf_token_strength)atomic_load(&s->tokens);
    o->lease_ms = atomic_load(&s->lease_ms);
    o->verdict = check_history(&s->history, d->complain ? stderr : NULL);
}

struct outcome run_faults(struct director *d, const struct fault *fault, enum wrong wrong,
                          int64_t for_ms)
{
    static unsigned runs;
    struct outcome outcome = { .wrong = wrong };

    shared_reset(d->shared);
    d->shared->wrong = wrong;
    d->shared->seed = d->dice;
    snprintf(d->shared->names, sizeof d->shared->names, "faults/%d/%u", (int)getpid(), ++runs);
    d->crew.died = 0;
    crew_start(&d->crew);
    d->shared->history.tell_doubles = d->complain;
    outcome.began = crew_opened(&d->crew, OPEN_WAIT_MS);
    if (outcome.began)
        torment(d, fault, history_now_ns() + for_ms * MS, &outcome);
    outcome.hung = crew_end(&d->crew, HUNG_MS);
    outcome.died = d->crew.died;
    collect(d, &outcome);
    return outcome;
}
