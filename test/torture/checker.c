/* SPDX-License-Identifier: MIT */
/* The rules that a history must obey; see checker.h. Pure. */
#include "checker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define REPORTS_MAX 20
#define RW_ALL      UINT32_C(0x40000000)
#define TOKEN_LIMIT (UINT64_C(1) << 53)
#define NOT_SEEN    INT64_MAX

/* A request and its outcome. */
struct lease {
    uint32_t lane, number;
    uint32_t permits, flags;
    uint8_t name, lock, ttl;
    bool open;        /* GOT, and not ended yet */
    int64_t ask_ns;   /* before the call */
    int64_t got_ns;   /* 0: never */
    int64_t until_ns; /* certainly held up to here */
    int64_t seen_ns;  /* first seen waiting */
    uint64_t token;
};

struct checker {
    const struct history *history;
    FILE *out;
    struct verdict verdict;
    struct lease *leases;
    size_t count, room;
    size_t *first[LANES_MAX]; /* index + 1 by number */
    uint32_t numbers[LANES_MAX];
};

static void complain(struct checker *c, unsigned *counter, const char *what, const struct lease *a,
                     const struct lease *b)
{
    (*counter)++;
    if (!c->out || *counter > REPORTS_MAX)
        return;
    fprintf(c->out,
            "%s: name %u: lane %u #%u token %" PRIu64 " [%" PRId64 ", %" PRId64 "] asked %" PRId64,
            what, a->name, a->lane, a->number, a->token, a->got_ns, a->until_ns, a->ask_ns);
    if (b)
        fprintf(c->out, "; lane %u #%u token %" PRIu64 " [%" PRId64 ", %" PRId64 "] asked %" PRId64,
                b->lane, b->number, b->token, b->got_ns, b->until_ns, b->ask_ns);
    fputc('\n', c->out);
}

/* ---- reading ------------------------------------------------------------------------- */

static struct lease *find(struct checker *c, uint32_t lane, uint32_t number)
{
    if (lane >= LANES_MAX || number >= c->numbers[lane] || c->first[lane][number] == 0)
        return NULL;
    return &c->leases[c->first[lane][number] - 1];
}

static void add_request(struct checker *c, uint32_t lane, const struct event *e)
{
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 4096;
        c->leases = realloc(c->leases, c->room * sizeof *c->leases);
        if (!c->leases)
            abort();
    }
    c->leases[c->count++] = (struct lease){ .lane = lane,
                                            .number = e->number,
                                            .permits = e->permits,
                                            .flags = e->flags,
                                            .name = e->name,
                                            .lock = e->lock,
                                            .ttl = e->ttl,
                                            .ask_ns = e->at_ns,
                                            .seen_ns = NOT_SEEN };
    if (e->number < c->numbers[lane])
        c->first[lane][e->number] = c->count;
}

static void end_all(struct checker *c, uint32_t lane, size_t from, int64_t at_ns)
{
    for (size_t i = from; i < c->count; i++)
        if (c->leases[i].lane == lane && c->leases[i].open) {
            c->leases[i].open = false;
            if (!c->leases[i].ttl)
                c->leases[i].until_ns = at_ns;
        }
}

static void read_event(struct checker *c, uint32_t lane, size_t from, const struct event *e)
{
    struct lease *l = e->kind == EV_ASK || e->kind == EV_SEEN || e->kind == EV_DEAD
                          ? NULL
                          : find(c, lane, e->number);

    switch (e->kind) {
    case EV_ASK:
        add_request(c, lane, e);
        return;
    case EV_DEAD:
        c->verdict.deaths++;
        end_all(c, lane, from, e->at_ns);
        return;
    case EV_GOT:
        if (!l)
            return;
        l->got_ns = l->until_ns = e->at_ns;
        l->token = e->token;
        l->open = true;
        c->verdict.leases++;
        return;
    case EV_STILL:
        if (l && l->open)
            l->until_ns = e->at_ns;
        return;
    case EV_LETTING:
        if (l && l->open && !l->ttl)
            l->until_ns = e->at_ns;
        if (l)
            l->open = false;
        return;
    case EV_LOST:
    case EV_LET:
        if (l && !l->ttl && (e->kind == EV_LOST || e->status == HF_LOST))
            complain(c, &c->verdict.loss, "lost without a ttl", l, NULL);
        return;
    default:
        return;
    }
}

static void read_lane(struct checker *c, uint32_t lane)
{
    const struct lane *l = &c->history->lane[lane];
    uint32_t count = atomic_load(&l->count);
    size_t from = c->count;

    c->numbers[lane] = atomic_load(&l->number) + 1;
    c->first[lane] = calloc(c->numbers[lane], sizeof *c->first[lane]);
    if (!c->first[lane])
        abort();
    for (uint32_t i = 0; i < count; i++)
        read_event(c, lane, from, &l->events[i]);
}

/* ---- exclusion and tokens -------------------------------------------------------------- */

static uint32_t weight(const struct lease *l)
{
    return l->lock == HF_KIND_EXCLUSIVE ? RW_ALL : l->permits;
}

static uint32_t capacity(const struct checker *c, const struct lease *l)
{
    return l->lock == HF_KIND_SHARED || l->lock == HF_KIND_EXCLUSIVE
               ? RW_ALL
               : c->history->capacities[l->name];
}

static bool conflict(const struct checker *c, const struct lease *a, const struct lease *b)
{
    return (uint64_t)weight(a) + weight(b) > capacity(c, a);
}

static int by_name_and_time(const void *x, const void *y)
{
    const struct lease *a = x, *b = y;

    if (a->name != b->name)
        return a->name < b->name ? -1 : 1;
    return (a->got_ns > b->got_ns) - (a->got_ns < b->got_ns);
}

/*
 * `held` is sorted by the time from which each lease is certain. Walk through it with the set of
 * those that have not ended; a lease that ends exactly when another begins does not overlap it.
 */
static void check_exclusion(struct checker *c, struct lease *held, size_t count)
{
    struct lease *now[1024];
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t taken = weight(&held[i]);
        size_t kept = 0;

        for (size_t j = 0; j < n; j++)
            if (now[j]->until_ns > held[i].got_ns) {
                now[kept++] = now[j];
                taken += weight(now[j]);
            }
        n = kept;
        c->verdict.overlaps += n > 0;
        if (taken > capacity(c, &held[i]) && c->history->doubles && !c->history->tell_doubles)
            c->verdict.exclusion++;
        else if (taken > capacity(c, &held[i]))
            complain(c, &c->verdict.exclusion, "too many hold", &held[i], n ? now[n - 1] : NULL);
        if (n < sizeof now / sizeof now[0])
            now[n++] = &held[i];
    }
}

/*
 * Two leases exclude one another and the first was held at a moment before one at which the second
 * was: then the first was also granted first. (Granted later, it would have had to wait for the
 * end of the second, which came later still.)
 */
static void check_tokens(struct checker *c, struct lease *held, size_t count)
{
    struct lease *largest[4] = { 0 }; /* by kind of weight: see below */

    for (size_t i = 0; i < count; i++) {
        struct lease *l = &held[i];
        uint32_t kind = weight(l) == RW_ALL ? 3 : weight(l) > 3 ? 3 : weight(l) - 1;

        if (l->token == 0 || l->token >= TOKEN_LIMIT)
            complain(c, &c->verdict.tokens, "not a token", l, NULL);
        for (int k = 0; k < 4; k++) {
            if (!largest[k] || !conflict(c, largest[k], l))
                continue;
            c->verdict.compared++;
            if (l->token <= largest[k]->token)
                complain(c, &c->verdict.tokens, "token did not grow", largest[k], l);
        }
        if (!largest[kind] || largest[kind]->token < l->token)
            largest[kind] = l;
    }
}

/*
 * Without exclusion: if the first lease was granted before the second was requested, it has the
 * smaller token. `held` is sorted by token, the largest first; for each kind of weight the lease
 * that was granted earliest is remembered.
 */
static void check_tokens_asked(struct checker *c, struct lease *const *held, size_t count)
{
    const struct lease *earliest[4] = { 0 };

    for (size_t i = 0; i < count; i++) {
        const struct lease *l = held[i];
        uint32_t kind = weight(l) > 3 ? 3 : weight(l) - 1;

        if (l->token == 0 || l->token >= TOKEN_LIMIT)
            complain(c, &c->verdict.tokens, "not a token", l, NULL);
        for (int k = 0; k < 4; k++) {
            if (!earliest[k] || !conflict(c, earliest[k], l))
                continue;
            c->verdict.compared++;
            if (earliest[k]->got_ns < l->ask_ns)
                complain(c, &c->verdict.tokens, "asked for later, and a smaller token", l,
                         earliest[k]);
        }
        if (!earliest[kind] || l->got_ns < earliest[kind]->got_ns)
            earliest[kind] = l;
    }
}

/* ---- order ---------------------------------------------------------------------------------- */

static int by_name_and_token(const void *x, const void *y)
{
    const struct lease *a = *(struct lease *const *)x, *b = *(struct lease *const *)y;

    if (a->name != b->name)
        return a->name < b->name ? -1 : 1;
    return (a->token > b->token) - (a->token < b->token);
}

static int by_token_down(const void *x, const void *y)
{
    const struct lease *a = *(struct lease *const *)x, *b = *(struct lease *const *)y;

    return (a->token < b->token) - (a->token > b->token);
}

static bool queues(const struct lease *l)
{
    return l->got_ns && l->flags & HF_FLAG_STRICT && !(l->flags & HF_FLAG_BARGE);
}

/* Within one view: tokens grow from the head of the queue to its end. */
static void check_looks(struct checker *c)
{
    for (uint32_t lane = 0; lane < c->history->lanes; lane++) {
        const struct lane *l = &c->history->lane[lane];
        uint32_t count = atomic_load(&l->count), look = 0;
        struct lease *ahead = NULL;

        for (uint32_t i = 0; i < count; i++) {
            const struct event *e = &l->events[i];
            struct lease *seen = e->kind == EV_SEEN ? find(c, e->seen_lane, e->number) : NULL;

            if (!seen)
                continue;
            if (e->look != look)
                ahead = NULL, c->verdict.looks++;
            look = e->look;
            if (e->at_ns < seen->seen_ns)
                seen->seen_ns = e->at_ns;
            if (!queues(seen))
                continue;
            if (ahead && seen->token < ahead->token)
                complain(c, &c->verdict.order, "granted before who stood ahead of it", seen, ahead);
            ahead = seen;
        }
    }
}

/* A request that was seen waiting before another was made has the smaller token; and no token comes
 * twice. */
static void check_order(struct checker *c)
{
    struct lease **sorted = calloc(c->count + 1, sizeof *sorted);
    size_t count = 0;
    const struct lease *earliest = NULL; /* of those with larger tokens: the one seen first */

    if (!sorted)
        abort();
    for (size_t i = 0; i < c->count; i++)
        if (c->leases[i].got_ns)
            sorted[count++] = &c->leases[i];
    qsort(sorted, count, sizeof(*sorted), by_name_and_token);
    for (size_t i = count; i-- > 0;) {
        struct lease *l = sorted[i];

        if (i + 1 < count && sorted[i + 1]->name == l->name) {
            if (sorted[i + 1]->token == l->token &&
                (!c->history->ties || conflict(c, l, sorted[i + 1])))
                complain(c, &c->verdict.tokens, "the same token twice", l, sorted[i + 1]);
        } else {
            earliest = NULL;
        }
        if (!queues(l))
            continue;
        if (earliest && earliest->seen_ns < l->ask_ns)
            complain(c, &c->verdict.order, "granted before who was waiting when it asked", l,
                     earliest);
        if (l->seen_ns != NOT_SEEN && (!earliest || l->seen_ns < earliest->seen_ns))
            earliest = l;
    }
    free(sorted);
}

static void check_asked(struct checker *c, struct lease *held, size_t count)
{
    struct lease **sorted = calloc(count, sizeof *sorted);

    if (!sorted)
        abort();
    for (size_t i = 0; i < count; i++)
        sorted[count - 1 - i] = &held[i];
    qsort(sorted, count, sizeof *sorted, by_token_down);
    check_tokens_asked(c, sorted, count);
    free(sorted);
}

/* ---- all of it --------------------------------------------------------------------------------- */

struct verdict check_history(const struct history *history, FILE *out)
{
    struct checker c = { .history = history, .out = out };
    struct lease *held;
    size_t count = 0;

    for (uint32_t lane = 0; lane < history->lanes; lane++)
        read_lane(&c, lane);
    if (!history->tokenless) {
        check_looks(&c);
        check_order(&c);
    }

    held = calloc(c.count + 1, sizeof *held);
    if (!held)
        abort();
    for (size_t i = 0; i < c.count; i++)
        if (c.leases[i].got_ns)
            held[count++] = c.leases[i];
    qsort(held, count, sizeof *held, by_name_and_time);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && held[end].name == held[i].name; end++)
            ;
        check_exclusion(&c, held + i, end - i);
        if (history->tokenless)
            continue;
        if (history->doubles)
            check_asked(&c, held + i, end - i);
        else
            check_tokens(&c, held + i, end - i);
    }

    free(held);
    free(c.leases);
    for (uint32_t lane = 0; lane < LANES_MAX; lane++)
        free(c.first[lane]);
    return c.verdict;
}
