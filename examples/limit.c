/* SPDX-License-Identifier: MIT */
/*
 * A rate limit, and the known weakness of the fixed window beside one that does not have it.
 *
 * Ten calls in a period are allowed. One call opens the window; then, shortly before its end, eighteen
 * more come. With a fixed window nine of them go at once and nine with the next window, a moment later:
 * eighteen within far less than a period, and no window has more than ten. A sliding window lets nobody
 * see more than ten in any period, wherever it begins.
 *
 * All wait for their moment, which the store tells them once. Nobody asks again.
 *
 * At the end the rule of a limit is changed while it is in use: hf_limit_set().
 *
 *   example-limit [STORE]
 */
#include <holdfast/primitives.h>

#include "example.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#define RATE   10
#define PER_MS 300
#define CALLS  19 /* 1 + 9 + 9 */
#define TRIES  20 /* a machine that stalls may miss the end of the window */

static void nap_ms(int64_t ms)
{
    struct timespec nap = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

    if (ms > 0)
        nanosleep(&nap, NULL);
}

/* Make the calls; at_us[] says when each was let through, by the store's clock. */
static void call(hf_store *store, hf_limit_algorithm algorithm, int try, int64_t at_us[CALLS])
{
    hf_limit_request limit = HF_LIMIT_REQUEST_INIT;
    hf_limit_result result = HF_LIMIT_RESULT_INIT;
    char name[64];
    hf_error err;

    snprintf(name, sizeof name, "example/limit/%d/%d/%d", (int)getpid(), (int)algorithm, try);
    limit.name = name;
    limit.name_len = HF_CSTRING;
    limit.algorithm = algorithm;
    limit.rate = RATE;
    limit.per_ms = PER_MS;
    limit.wait_ms = HF_FOREVER;

    must(hf_limit_take(store, &limit, &result, &err), &err);
    at_us[0] = result.at_us;
    nap_ms(result.refill_ms - PER_MS / 4);
    for (int i = 1; i < CALLS; i++) {
        must(hf_limit_take(store, &limit, &result, &err), &err);
        at_us[i] = result.at_us;
    }
}

/* The most calls in any period. */
static int most(const int64_t at_us[CALLS])
{
    int best = 0;

    for (int i = 0; i < CALLS; i++) {
        int count = 0;

        for (int j = i; j < CALLS && at_us[j] < at_us[i] + PER_MS * INT64_C(1000); j++)
            count++;
        if (count > best)
            best = count;
    }
    return best;
}

static void show(const char *what, const int64_t at_us[CALLS])
{
    printf("%-8s ms:", what);
    for (int i = 0; i < CALLS; i++)
        printf(" %" PRId64, (at_us[i] - at_us[0]) / 1000);
    printf("\n         at most %d within %d ms\n", most(at_us), PER_MS);
}

/* How many calls go through at once, of a program that believes in two an hour? */
static int calls_now(hf_store *store, const hf_limit_request *two)
{
    hf_limit_result result = HF_LIMIT_RESULT_INIT;
    hf_status status;
    hf_error err;
    int calls = 0;

    while ((status = hf_limit_take(store, two, &result, &err)) == HF_OK)
        calls++;
    if (status != HF_BUSY)
        must(status, &err);
    printf("%d calls, and the rule is %" PRIu32 " an hour\n", calls, result.rate);
    return calls;
}

static void change_rule(hf_store *store)
{
    hf_limit_request limit = HF_LIMIT_REQUEST_INIT, five;
    char name[64];
    hf_error err;

    snprintf(name, sizeof name, "example/limit/%d", (int)getpid());
    limit.name = name;
    limit.name_len = HF_CSTRING;
    limit.algorithm = HF_LIMIT_ALGORITHM_SLIDING;
    limit.rate = 2;
    limit.per_ms = 3600 * 1000;
    expect(calls_now(store, &limit) == 2, "two an hour");

    five = limit;
    five.rate = 5;
    must(hf_limit_set(store, &five, NULL, &err), &err);
    expect(calls_now(store, &limit) == 3, "five an hour, of which two were used");
    five.rate = 0; /* from now on it is again what the next request says */
    must(hf_limit_set(store, &five, NULL, &err), &err);
}

int main(int argc, char **argv)
{
    hf_store *store;
    int64_t at_us[CALLS];
    int seen = 0;

    needs(url_of(argc, argv), HF_CAP_CELLS | HF_CAP_CLOCK);
    store = open_store(argc, argv);
    printf("%d calls in %d ms are allowed\n", RATE, PER_MS);
    for (int try = 0; try < TRIES && seen <= RATE; try++) {
        call(store, HF_LIMIT_ALGORITHM_FIXED, try, at_us);
        seen = most(at_us);
    }
    show("fixed", at_us);
    expect(seen > RATE, "two windows of the fixed kind side by side");

    call(store, HF_LIMIT_ALGORITHM_SLIDING, 0, at_us);
    show("sliding", at_us);
    expect(most(at_us) <= RATE, "no more than the rate in any period");
    change_rule(store);
    close_store(store);
    return 0;
}
