/* SPDX-License-Identifier: MIT */
/*
 * Cycles: named cases, and random stores against a model that plays every order of
 * events. The model has no graph: it lets every session that can proceed do so, until none can; the
 * sessions that still wait are stuck. As no session asks for more, the order does not matter; it is
 * random, and several orders are tried.
 */
#include "core/view.h"
#include "deadlock/graph.h"
#include "unit.h"
#include "util/alloc.h"
#include "util/hash.h"

#include <stdio.h>
#include <string.h>

#define NAMES_MAX 6
#define PARTY_MAX 12

/* ---- building a store ------------------------------------------------------------- */

struct world {
    hf_view view;
    struct hfi_entry entries[NAMES_MAX];
    hf_holder holders[NAMES_MAX][PARTY_MAX];
    hf_waiter waiters[NAMES_MAX][PARTY_MAX];
    char labels[2 * NAMES_MAX * PARTY_MAX][HF_LABEL_MAX + 1];
    char names[NAMES_MAX][2];
    size_t label_count;
    uint64_t shift;                 /* added to every token from now on */
    struct hfi_tag tags[PARTY_MAX]; /* by session, from 1 */
};

static void begin(struct world *w, int names, uint32_t capacity)
{
    memset(w, 0, sizeof *w);
    w->view = (hf_view){ .count = (size_t)names, .entries = w->entries };
    for (int i = 0; i < names; i++) {
        w->names[i][0] = (char)('a' + i);
        w->entries[i] = (struct hfi_entry){
            .entry = { .name = (unsigned char *)w->names[i], .name_len = 1, .capacity = capacity },
            .holders = w->holders[i],
            .waiters = w->waiters[i]
        };
    }
    for (int i = 0; i < PARTY_MAX; i++)
        w->tags[i] = (struct hfi_tag){ .session = (uint64_t)i, .began = 100, .number = 1 };
}

static char *new_label(struct world *w, int session)
{
    char *label = w->labels[w->label_count++];

    snprintf(label, HF_LABEL_MAX, "s%d", session);
    return label;
}

/* Session 0: a holder of which nothing is known. */
static void holds(struct world *w, int session, char name, uint32_t permits)
{
    hf_entry *entry = &w->entries[name - 'a'].entry;
    uint64_t token = (uint64_t)(100 * session + 10 * (name - 'a') + 1), hash[2];
    struct hfi_tag *tag = &w->tags[session];

    token = token * 16 + entry->holder_count + w->shift;
    w->holders[name - 'a'][entry->holder_count++] =
        (hf_holder){ .token = token, .permits = permits, .label = new_label(w, session) };
    hfi_hash128(entry->name, 1, hash);
    if (session > 0)
        tag->holds[tag->count++] = hfi_hold_id(hash, token);
}

/* After all that it holds. */
static void waits(struct world *w, int session, char name, uint32_t permits)
{
    hf_entry *entry = &w->entries[name - 'a'].entry;
    char *label = new_label(w, session);

    if (session > 0 && (w->tags[session].count > 0 || w->tags[session].any))
        label[strlen(label) + hfi_tag_write(&w->tags[session], label + strlen(label))] = 0;
    w->waiters[name - 'a'][entry->waiter_count++] =
        (hf_waiter){ .permits = permits, .label = label };
}

/* How many cycles, and whose the first is. */
static size_t cycles(struct world *w, bool fifo, uint64_t *ret_victim)
{
    struct hfi_graph *g = hfi_graph_new(&w->view, fifo, NULL);
    size_t count = hfi_graph_cycles(g);

    assert_non_null(g);
    if (count > 0)
        *ret_victim = hfi_graph_victim(g, 0)->session;
    hfi_graph_free(g);
    return count;
}

#define EXPECT_CYCLE(w, victim)                          \
    do {                                                 \
        uint64_t found = 0;                              \
        assert_int_equal(cycles(&(w), true, &found), 1); \
        assert_int_equal(found, victim);                 \
    } while (0)
#define EXPECT_NONE(w) assert_int_equal(cycles(&(w), true, &(uint64_t){ 0 }), 0)

/* ---- named cases -------------------------------------------------------------------- */

static void circles(void **state)
{
    struct world w;

    (void)state;
    begin(&w, 2, 1);
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1);
    waits(&w, 1, 'b', 1);
    EXPECT_NONE(w); /* the second one can still release */
    begin(&w, 2, 1);
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1);
    waits(&w, 1, 'b', 1), waits(&w, 2, 'a', 1);
    EXPECT_CYCLE(w, 2);

    begin(&w, 4, 1); /* a ring of three, and one that waits for it but is not part of it */
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1), holds(&w, 3, 'c', 1), holds(&w, 9, 'd', 1);
    waits(&w, 1, 'b', 1), waits(&w, 2, 'c', 1), waits(&w, 3, 'a', 1);
    waits(&w, 9, 'a', 1);
    EXPECT_CYCLE(w, 3);

    begin(&w, 4, 1); /* it is ahead of the last, but its end would help nobody */
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1), holds(&w, 3, 'c', 1), holds(&w, 9, 'd', 1);
    waits(&w, 9, 'a', 1);
    waits(&w, 1, 'b', 1), waits(&w, 2, 'c', 1), waits(&w, 3, 'a', 1);
    EXPECT_CYCLE(w, 3);
}

static void alone(void **state)
{
    struct world w;

    (void)state;
    begin(&w, 1, 1);
    holds(&w, 1, 'a', 1), waits(&w, 1, 'a', 1);
    EXPECT_CYCLE(w, 1);
    begin(&w, 1, 1);
    w.tags[1].timed = true; /* it asked to wait that long */
    holds(&w, 1, 'a', 1), waits(&w, 1, 'a', 1);
    EXPECT_NONE(w);
}

static void two_cycles(void **state)
{
    struct world w;
    uint64_t victim;

    (void)state;
    begin(&w, 4, 1);
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1), holds(&w, 3, 'c', 1), holds(&w, 4, 'd', 1);
    waits(&w, 1, 'b', 1), waits(&w, 2, 'a', 1), waits(&w, 3, 'd', 1), waits(&w, 4, 'c', 1);
    assert_int_equal(cycles(&w, true, &victim), 2);
}

static void semaphores(void **state)
{
    struct world w;

    (void)state;
    begin(&w, 3, 2); /* one of two permits belongs to a session that proceeds */
    w.entries[1].entry.capacity = 1;
    holds(&w, 1, 'b', 1), holds(&w, 2, 'a', 1), holds(&w, 0, 'a', 1);
    waits(&w, 1, 'a', 1), waits(&w, 2, 'b', 1);
    EXPECT_NONE(w);
    begin(&w, 3, 2); /* both belong to sessions that are stuck */
    w.entries[1].entry.capacity = w.entries[2].entry.capacity = 1;
    holds(&w, 1, 'b', 1), holds(&w, 2, 'a', 1), holds(&w, 3, 'a', 1), holds(&w, 1, 'c', 1);
    waits(&w, 1, 'a', 1), waits(&w, 2, 'b', 1), waits(&w, 3, 'c', 1);
    EXPECT_CYCLE(w, 3);
    begin(&w, 3, 2); /* one permit would do, but both are wanted */
    w.entries[1].entry.capacity = 1;
    holds(&w, 1, 'b', 1), holds(&w, 2, 'a', 1), holds(&w, 0, 'a', 1);
    waits(&w, 1, 'a', 2), waits(&w, 2, 'b', 1);
    EXPECT_CYCLE(w, 2);
    /* The size was set lower: more is held than there is, and that is a circle as before. */
    begin(&w, 2, 1);
    holds(&w, 1, 'a', 3), holds(&w, 2, 'b', 1);
    waits(&w, 1, 'b', 1), waits(&w, 2, 'a', 1);
    EXPECT_CYCLE(w, 2);
    /* One that asks for more than there is waits for a larger size, and so do those behind it. */
    begin(&w, 2, 1);
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1);
    waits(&w, 1, 'b', 1), waits(&w, 2, 'a', 2);
    EXPECT_NONE(w);
}

static void queues(void **state)
{
    struct world w;

    (void)state;
    for (int barge = 0; barge < 2; barge++) {
        begin(&w, 2, 100); /* a reader behind a writer behind a reader */
        w.tags[2].barge = barge;
        holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 100);
        waits(&w, 0, 'a', 100), waits(&w, 2, 'a', 1), waits(&w, 1, 'b', 1);
        if (barge) {
            EXPECT_NONE(w);
        } else {
            EXPECT_CYCLE(w, 2);
            begin(&w, 2, 100);
            holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 100);
            waits(&w, 0, 'a', 100), waits(&w, 2, 'a', 1), waits(&w, 1, 'b', 1);
            assert_int_equal(cycles(&w, false, &(uint64_t){ 0 }), 0); /* no order: it may pass */
        }
    }
}

static void whose_turn(void **state)
{
    struct world w;

    (void)state;
    begin(&w, 2, 1);
    w.tags[1].began = 101; /* came last */
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1);
    waits(&w, 1, 'b', 1), waits(&w, 2, 'a', 1);
    EXPECT_CYCLE(w, 1);
    begin(&w, 2, 1);
    w.tags[1].began = 101;
    w.tags[2].timed = true; /* would give up anyway */
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1);
    waits(&w, 1, 'b', 1), waits(&w, 2, 'a', 1);
    EXPECT_CYCLE(w, 2);
}

/* A session that waits for any of several names is stuck only if it is in all of them. */
static void any_of_several(void **state)
{
    struct world w;

    (void)state;
    begin(&w, 3, 1); /* a circle through b, but the holder of c is free to go */
    w.tags[1].any = 2;
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1), holds(&w, 0, 'c', 1);
    waits(&w, 1, 'b', 1), waits(&w, 1, 'c', 1), waits(&w, 2, 'a', 1);
    EXPECT_NONE(w);
    begin(&w, 3, 1); /* both lead back */
    w.tags[1].any = 2;
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1), holds(&w, 3, 'c', 1);
    waits(&w, 1, 'b', 1), waits(&w, 1, 'c', 1), waits(&w, 2, 'a', 1), waits(&w, 3, 'a', 1);
    EXPECT_CYCLE(w, 3);
    begin(&w, 3, 1); /* so far as we see: a third wait is not in the view */
    w.tags[1].any = 3;
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1), holds(&w, 3, 'c', 1);
    waits(&w, 1, 'b', 1), waits(&w, 1, 'c', 1), waits(&w, 2, 'a', 1), waits(&w, 3, 'a', 1);
    EXPECT_NONE(w);
    begin(&w, 4, 1); /* one way leads into a cycle of others: that one must be broken, not ours */
    w.tags[1].any = 2;
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1), holds(&w, 3, 'c', 1), holds(&w, 4, 'd', 1);
    waits(&w, 1, 'b', 1), waits(&w, 1, 'c', 1);
    waits(&w, 2, 'a', 1), waits(&w, 3, 'd', 1), waits(&w, 4, 'c', 1);
    EXPECT_CYCLE(w, 4);

    begin(&w, 2, 1); /* it waits for itself in both, and asked to */
    w.tags[1].any = 2, w.tags[1].timed = true;
    holds(&w, 1, 'a', 1), holds(&w, 1, 'b', 1);
    waits(&w, 1, 'a', 1), waits(&w, 1, 'b', 1);
    EXPECT_NONE(w);
    begin(&w, 2, 1); /* and did not */
    w.tags[1].any = 2;
    holds(&w, 1, 'a', 1), holds(&w, 1, 'b', 1);
    waits(&w, 1, 'a', 1), waits(&w, 1, 'b', 1);
    EXPECT_CYCLE(w, 1);

    /* The one ahead wants too much, but it will leave this queue, since c comes free: then session 2 fits. */
    begin(&w, 3, 2);
    w.entries[1].entry.capacity = w.entries[2].entry.capacity = 1;
    w.tags[5].any = 2;
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1), holds(&w, 0, 'c', 1);
    waits(&w, 5, 'a', 2), waits(&w, 5, 'c', 1), waits(&w, 2, 'a', 1), waits(&w, 1, 'b', 1);
    EXPECT_NONE(w);
    begin(&w, 3, 2); /* an ordinary waiter would not */
    w.entries[1].entry.capacity = w.entries[2].entry.capacity = 1;
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1), holds(&w, 0, 'c', 1);
    waits(&w, 5, 'a', 2), waits(&w, 5, 'c', 1), waits(&w, 2, 'a', 1), waits(&w, 1, 'b', 1);
    EXPECT_CYCLE(w, 2);
}

/* A second look counts only what was there at the first. */
static void second_look(void **state)
{
    for (int change = 0; change < 3; change++) {
        struct hfi_graph *first, *second;
        struct world w, v;

        (void)state;
        for (int look = 0; look < 2; look++) {
            struct world *at = look ? &v : &w;

            begin(at, 2, 1);
            if (look && change == 1)
                at->tags[2].number++; /* it has been away, and waits again */
            holds(at, 1, 'a', 1);
            if (look && change == 2)
                at->shift = 1000; /* it waits as before, but for this it has another lease now */
            holds(at, 2, 'b', 1);
            waits(at, 1, 'b', 1), waits(at, 2, 'a', 1);
        }
        first = hfi_graph_new(&w.view, true, NULL);
        second = hfi_graph_new(&v.view, true, first);
        assert_int_equal(hfi_graph_cycles(first), 1);
        assert_int_equal(hfi_graph_cycles(second), change ? 0 : 1);
        hfi_graph_free(second);
        hfi_graph_free(first);
    }
}

/* Two waits claim the same lease: it is free as soon as one of them is. */
static void one_scope_two_waits(void **state)
{
    struct world w;

    (void)state;
    begin(&w, 3, 1);
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1), holds(&w, 0, 'c', 1);
    waits(&w, 1, 'b', 1), waits(&w, 2, 'a', 1), waits(&w, 1, 'c', 1);
    EXPECT_NONE(w);
}

static void words(void **state)
{
    struct hfi_graph *g;
    hf_deadlock_waiter *links;
    struct world w;
    char text[300], expected[300];
    size_t count;

    (void)state;
    begin(&w, 3, 1);
    holds(&w, 1, 'a', 1), holds(&w, 2, 'b', 1), holds(&w, 3, 'c', 1);
    waits(&w, 1, 'b', 1), waits(&w, 2, 'c', 1), waits(&w, 3, 'a', 1);
    g = hfi_graph_new(&w.view, true, NULL);
    links = hfi_graph_circle(g, 0, &count);
    assert_int_equal(count, 3);
    hfi_circle_words(links, count, text, sizeof text);
    snprintf(expected, sizeof expected,
             "'a' held by s1 (token %d), who waits for 'b' held by s2 (token %d), who waits for "
             "'c', which we hold (token %d)",
             (int)w.holders[0][0].token, (int)w.holders[1][0].token, (int)w.holders[2][0].token);
    assert_string_equal(text, expected);
    assert_string_equal(w.waiters[0][0].label, "s3"); /* without its tag */
    assert_int_equal(w.holders[0][0].session, 1);
    hfi_circle_words(links, count, text, 20); /* cut, and not beyond its end */
    assert_int_equal(strlen(text), 19);
    hfi_free(links);
    hfi_graph_free(g);
}

static void tags(void **state)
{
    struct hfi_tag tag = { .session = 0xabcdef123,
                           .began = 0xfedcba,
                           .number = 0xfff,
                           .timed = true,
                           .any = 64,
                           .count = HFI_HOLDS_MAX },
                   back;
    char label[200] = "label", whole[200];

    (void)state;
    for (int i = 0; i < HFI_HOLDS_MAX; i++)
        tag.holds[i] = UINT64_C(0xffff12345678) - (uint64_t)i;
    assert_int_equal(hfi_tag_write(&tag, label + 5), HFI_TAG_MAX);
    label[5 + HFI_TAG_MAX] = 0;
    strcpy(whole, label);
    assert_true(hfi_tag_cut(label, &back));
    assert_string_equal(label, "label");
    assert_true(hfi_tag_same(&tag, &back));
    assert_true(back.timed && !back.barge && back.any == 64 && back.count == HFI_HOLDS_MAX);
    assert_memory_equal(tag.holds, back.holds, sizeof tag.holds);
    for (size_t len = 0; len < strlen(whole); len++) { /* cut anywhere, it is whole or none */
        memcpy(label, whole, len);
        label[len] = 0;
        if (hfi_tag_cut(label, &back))
            assert_true(back.count < HFI_HOLDS_MAX && (strlen(whole) - len) % 8 == 0);
        else
            assert_int_equal(strlen(label), len);
    }
    strcpy(label, "\x1f");
    assert_false(hfi_tag_cut(label, &back));
    strcpy(label, "plain");
    assert_false(hfi_tag_cut(label, &back));
}

/* ---- against the model ------------------------------------------------------------------ */

#define SESSIONS 6

struct model {
    int names;
    uint32_t capacity[NAMES_MAX];
    uint32_t held[SESSIONS + 1][NAMES_MAX]; /* permits; of session 0: of those who just go on */
    int waits_for[SESSIONS + 1];            /* -1: it does not */
    uint32_t wants[SESSIONS + 1];
    int queue[NAMES_MAX][SESSIONS + 3], queued[NAMES_MAX]; /* sessions; 0: one that holds nothing */
    uint32_t strangers[NAMES_MAX][SESSIONS + 3];           /* what those want */
};

static uint32_t taken(const struct model *m, int name)
{
    uint32_t sum = 0;

    for (int s = 0; s <= SESSIONS; s++)
        sum += m->held[s][name];
    return sum;
}

static void release_all(struct model *m, int session)
{
    for (int n = 0; n < m->names; n++)
        m->held[session][n] = 0;
}

/* The head of a queue gets in if it fits; it goes on, and gives all back. */
static bool step(struct model *m, int name, bool fifo, uint64_t *random)
{
    int start = fifo              ? 0
                : m->queued[name] ? (int)(unit_random(random) % (unsigned)m->queued[name])
                                  : 0;
    int session;
    uint32_t wants;

    if (m->queued[name] == 0)
        return false;
    session = m->queue[name][start];
    wants = session ? m->wants[session] : m->strangers[name][start];
    if (taken(m, name) + wants > m->capacity[name])
        return false;
    m->queued[name]--;
    memmove(&m->queue[name][start], &m->queue[name][start + 1],
            (size_t)(m->queued[name] - start) * sizeof(int));
    memmove(&m->strangers[name][start], &m->strangers[name][start + 1],
            (size_t)(m->queued[name] - start) * sizeof(uint32_t));
    if (session) {
        m->waits_for[session] = -1;
        release_all(m, session);
    }
    return true;
}

/* Play it to its end: sessions that still wait are stuck. */
static void play(struct model *m, bool fifo, uint64_t *random)
{
    release_all(m, 0);
    for (int s = 1; s <= SESSIONS; s++)
        if (m->waits_for[s] < 0)
            release_all(m, s);
    for (int idle = 0; idle < (fifo ? 300 : 1500);) {
        int name = (int)(unit_random(random) % (unsigned)m->names);

        idle = step(m, name, fifo, random) ? 0 : idle + 1;
    }
}

static void random_model(struct model *m, uint64_t *random)
{
    memset(m, 0, sizeof *m);
    m->names = 1 + (int)(unit_random(random) % NAMES_MAX);
    for (int n = 0; n < m->names; n++)
        m->capacity[n] = 1 + (uint32_t)(unit_random(random) % 3);
    for (int i = 0; i < 10; i++) {
        int session = (int)(unit_random(random) % (SESSIONS + 1));
        int name = (int)(unit_random(random) % (unsigned)m->names);
        uint32_t left = m->capacity[name] - taken(m, name);

        if (left > 0 && m->held[session][name] == 0)
            m->held[session][name] = 1 + (uint32_t)(unit_random(random) % left);
    }
    for (int s = 1; s <= SESSIONS; s++)
        m->waits_for[s] = -1;
    for (int i = 0; i < SESSIONS + 1; i++) {
        int session = (int)(unit_random(random) % (SESSIONS + 1));
        int name = (int)(unit_random(random) % (unsigned)m->names);
        int place = m->queued[name];
        uint32_t wants = 1 + (uint32_t)(unit_random(random) % m->capacity[name]);

        if (session && m->waits_for[session] >= 0)
            continue;
        m->queue[name][place] = session;
        m->strangers[name][place] = wants;
        m->queued[name]++;
        if (session) {
            m->waits_for[session] = name;
            m->wants[session] = wants;
        }
    }
}

static void build(const struct model *m, struct world *w)
{
    begin(w, m->names, 1);
    for (int n = 0; n < m->names; n++)
        w->entries[n].entry.capacity = m->capacity[n];
    for (int s = 0; s <= SESSIONS; s++)
        for (int n = 0; n < m->names; n++)
            if (m->held[s][n])
                holds(w, s, (char)('a' + n), m->held[s][n]);
    for (int n = 0; n < m->names; n++)
        for (int i = 0; i < m->queued[n]; i++)
            waits(w, m->queue[n][i], (char)('a' + n),
                  m->queue[n][i] ? m->wants[m->queue[n][i]] : m->strangers[n][i]);
}

static void against_model(void **state)
{
    uint64_t random = 7;
    int stuck_seen = 0, free_seen = 0, cycles_seen = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        bool fifo = round % 4 != 0;
        struct model m, played;
        struct world w;
        struct hfi_graph *g;
        size_t index = 0, stuck = 0;

        random_model(&m, &random);
        build(&m, &w);
        played = m;
        play(&played, fifo, &random);
        g = hfi_graph_new(&w.view, fifo, NULL);
        assert_non_null(g);
        for (int n = 0; n < m.names; n++)
            for (int i = 0; i < m.queued[n]; i++, index++) {
                int session = m.queue[n][i];

                if (session == 0)
                    continue;
                if (hfi_graph_stuck(g, index) != (played.waits_for[session] >= 0))
                    fail_msg("round %d: session %d of name %c", round, session, 'a' + n);
                stuck_seen += hfi_graph_stuck(g, index);
                free_seen += !hfi_graph_stuck(g, index);
                stuck += hfi_graph_stuck(g, index) && w.tags[session].count > 0;
            }
        /* Whoever is stuck is stuck because of a cycle; and a circle goes round. */
        assert_true((hfi_graph_cycles(g) > 0) == (stuck > 0));
        for (size_t k = 0; k < hfi_graph_cycles(g); k++) {
            size_t count;
            hf_deadlock_waiter *links = hfi_graph_circle(g, k, &count);

            assert_true(count >= 1 && count <= SESSIONS);
            assert_int_equal(links[0].session, hfi_graph_victim(g, k)->session);
            for (size_t i = 0; i < count; i++) { /* each has what the one before it waits for */
                int name = links[(i + count - 1) % count].name[0] - 'a';
                bool has = m.held[links[i].session][name] > 0;

                assert_true(has == (links[i].token > 0));
                assert_true(has || (fifo && links[i].name[0] - 'a' == name));
            }
            cycles_seen++;
            hfi_free(links);
        }
        hfi_graph_free(g);
    }
    assert_true(stuck_seen > 1000 && free_seen > 1000 && cycles_seen > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(circles),
        cmocka_unit_test(alone),
        cmocka_unit_test(two_cycles),
        cmocka_unit_test(semaphores),
        cmocka_unit_test(queues),
        cmocka_unit_test(whose_turn),
        cmocka_unit_test(any_of_several),
        cmocka_unit_test(second_look),
        cmocka_unit_test(one_scope_two_waits),
        cmocka_unit_test(words),
        cmocka_unit_test(tags),
        cmocka_unit_test(against_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
