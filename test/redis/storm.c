/* SPDX-License-Identifier: MIT */
/* See storm.h. */
#include "storm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct turn {
    uint64_t token;
    int64_t from_ms, to_ms; /* from after the acquire until before the release */
};

struct storm {
    char url[512], name[64];
    _Atomic bool stop;
    _Atomic unsigned taken[STORM_THREADS];
    _Atomic unsigned failed;
    _Atomic unsigned next; /* whose number is free */
    pthread_t threads[STORM_THREADS];
    pthread_mutex_t lock;
    size_t count;
    struct turn turns[STORM_MAX];
};

static void note(struct storm *storm, struct turn turn)
{
    pthread_mutex_lock(&storm->lock);
    CHECK(storm->count < STORM_MAX);
    storm->turns[storm->count++] = turn;
    pthread_mutex_unlock(&storm->lock);
}

static void *run(void *arg)
{
    struct storm *storm = arg;
    unsigned me = storm->next++;
    hf_store *store = open_at(storm->url);
    /* Short, for a release may be lost with the server, and then it must end by itself. */
    hf_acquire_request request = with_ttl(waiting_request(storm->name), 5000);

    while (!storm->stop) {
        hf_lease *lease;
        hf_status status = hf_acquire(store, &request, &lease, &contract_error);
        struct turn turn;

        if (status != HF_OK) { /* the store says that it does not know, or cannot: that is honest */
            if (status != HF_UNKNOWN && status != HF_UNAVAILABLE && status != HF_TOO_SHORT)
                EXPECT(HF_UNKNOWN, status); /* shows which it was */
            storm->failed++;
            nap_ms(5);
            continue;
        }
        turn.from_ms = now_ms();
        turn.token = hf_lease_token(lease);
        nap_ms(1);
        turn.to_ms = now_ms();
        if (hf_lease_state(lease) != HF_STATE_LOST)
            note(storm, turn);
        status = hf_release(lease, &contract_error);
        CHECK(status == HF_OK || status == HF_LOST || status == HF_UNKNOWN ||
              status == HF_UNAVAILABLE);
        storm->taken[me]++;
    }
    EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
    return NULL;
}

struct storm *storm_start(const char *url, const char *name)
{
    struct storm *storm = calloc(1, sizeof *storm);

    CHECK(storm != NULL);
    snprintf(storm->url, sizeof storm->url, "%s", url);
    snprintf(storm->name, sizeof storm->name, "%s", name);
    pthread_mutex_init(&storm->lock, NULL);
    for (int i = 0; i < STORM_THREADS; i++)
        CHECK(pthread_create(&storm->threads[i], NULL, run, storm) == 0);
    return storm;
}

void storm_await(struct storm *storm, unsigned count)
{
    unsigned before[STORM_THREADS];

    for (int i = 0; i < STORM_THREADS; i++)
        before[i] = storm->taken[i];
    for (int i = 0; i < STORM_THREADS; i++)
        AWAIT(storm->taken[i] >= before[i] + count);
}

static int by_token(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;

    return (x->token > y->token) - (x->token < y->token);
}

void storm_end(struct storm *storm, int64_t lost_ms)
{
    int64_t busy_ms[2] = { 0, 0 }; /* until when somebody held: before and after the loss */

    storm->stop = true;
    for (int i = 0; i < STORM_THREADS; i++)
        pthread_join(storm->threads[i], NULL);
    qsort(storm->turns, storm->count, sizeof *storm->turns, by_token);
    for (size_t i = 0; i < storm->count; i++) {
        const struct turn *turn = &storm->turns[i];
        bool after = lost_ms > 0 && turn->from_ms > lost_ms;

        if (i > 0 && turn[-1].token == turn->token)
            FAIL("two with one token");
        /* In the order of tokens, no turn begins before the previous one has ended. */
        if (turn->from_ms < busy_ms[after]) {
            fprintf(stderr, "token %llu from %lld, although another held until %lld (lost %lld)\n",
                    (unsigned long long)turn->token, (long long)turn->from_ms,
                    (long long)busy_ms[after], (long long)lost_ms);
            FAIL("two at once, or a token that is too small");
        }
        if (turn->to_ms > busy_ms[after])
            busy_ms[after] = turn->to_ms;
        /* After a loss no token may be smaller than one from before. */
        if (!after && busy_ms[1] > 0)
            FAIL("a smaller token after the loss");
    }
    print_message("storm: %zu turns, %u refused\n", storm->count, storm->failed);
    pthread_mutex_destroy(&storm->lock);
    free(storm);
}
