/* SPDX-License-Identifier: MIT */
/* hf_store_wait(): reports every change, and nothing else. */
#include "peer.h"

#include <string.h>

struct watcher {
    hf_store *store;
    uint64_t seq;
    int64_t wait_ms;
    hf_cancel *cancel;
    hf_status status;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static void *watcher_run(void *arg)
{
    struct watcher *watcher = arg;

    watcher->tid = thread_id();
    watcher->status = hf_store_wait(watcher->store, &watcher->seq, watcher->wait_ms,
                                    watcher->cancel, &contract_error);
    watcher->ended = true;
    return NULL;
}

static void watcher_start(struct watcher *watcher)
{
    watcher->ended = false;
    watcher->tid = 0;
    CHECK(pthread_create(&watcher->thread, NULL, watcher_run, watcher) == 0);
}

static hf_status watcher_join(struct watcher *watcher)
{
    CHECK(pthread_join(watcher->thread, NULL) == 0);
    return watcher->status;
}

/* The number of now, with nothing pending. */
static uint64_t settled_seq(hf_store *store)
{
    uint64_t seq = 0;
    hf_status status;

    do
        status = hf_store_wait(store, &seq, 100, NULL, &contract_error);
    while (status == HF_OK);
    EXPECT(HF_TIMEOUT, status);
    return seq;
}

static void nothing_changes(void **state)
{
    hf_store *store;
    uint64_t seq;
    int64_t begin_ms;

    (void)state;
    NEEDS(HF_CAP_WATCH);
    store = open_store();
    seq = settled_seq(store);
    begin_ms = now_ms();
    EXPECT(HF_TIMEOUT, hf_store_wait(store, &seq, 200, NULL, &contract_error));
    CHECK(now_ms() - begin_ms >= 200);
    EXPECT(HF_TIMEOUT, hf_store_wait(store, &seq, 0, NULL, &contract_error));
    CHECK(strstr(contract_error.text, "nothing changed") != NULL);
    close_store(store);
}

static void every_change_is_told(void **state)
{
    hf_acquire_request request = mutex_request("watched");
    struct watcher watcher = { .wait_ms = LIMIT_MS };
    struct peer peer;

    (void)state;
    NEEDS(HF_CAP_WATCH);
    watcher.store = open_store();
    peer_start(&peer);
    for (int i = 0; i < 4; i++) {
        watcher.seq = settled_seq(watcher.store);
        watcher_start(&watcher);
        thread_settled(&watcher.tid, &watcher.ended);
        if (i % 2 == 0)
            EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
        else
            EXPECT(HF_OK, peer_release(&peer, 0));
        EXPECT(HF_OK, watcher_join(&watcher));
    }
    peer_stop(&peer);
    close_store(watcher.store);
}

/* A change between two calls is not missed, also one that is undone. */
static void between_two_calls(void **state)
{
    hf_acquire_request request = mutex_request("watched");
    hf_store *store, *second;
    uint64_t seq, before;

    (void)state;
    NEEDS(HF_CAP_WATCH);
    store = open_store();
    second = open_store();
    seq = before = settled_seq(store);
    give(take(second, &request));
    EXPECT(HF_OK, hf_store_wait(store, &seq, LIMIT_MS, NULL, &contract_error));
    CHECK(seq != before && seq != 0);
    close_store(second);
    close_store(store);
}

/* Without waiting it is a question, and its answer is right. */
static void only_asked(void **state)
{
    hf_acquire_request request = mutex_request("watched");
    hf_store *store, *second;
    uint64_t seq = 0, before;

    (void)state;
    NEEDS(HF_CAP_WATCH);
    store = open_store();
    second = open_store();
    EXPECT(HF_TIMEOUT, hf_store_wait(store, &seq, 0, NULL, &contract_error));
    CHECK(seq != 0);
    before = seq = settled_seq(store);
    EXPECT(HF_TIMEOUT, hf_store_wait(store, &seq, 0, NULL, &contract_error));
    CHECK(seq == before);
    give(take(second, &request));
    EXPECT(HF_OK, hf_store_wait(store, &seq, 0, NULL, &contract_error));
    CHECK(seq != before && seq != 0);
    close_store(second);
    close_store(store);
}

static void cancelled(void **state)
{
    struct watcher watcher = { .wait_ms = HF_FOREVER };
    uint64_t seq = 0;

    (void)state;
    NEEDS(HF_CAP_WATCH);
    watcher.store = open_store();
    watcher.seq = settled_seq(watcher.store);
    EXPECT(HF_OK, hf_cancel_open(&watcher.cancel));
    watcher_start(&watcher);
    thread_settled(&watcher.tid, &watcher.ended);
    EXPECT(HF_OK, hf_cancel_fire(watcher.cancel));
    EXPECT(HF_CANCELLED, watcher_join(&watcher));
    EXPECT(HF_CANCELLED,
           hf_store_wait(watcher.store, &seq, HF_FOREVER, watcher.cancel, &contract_error));
    EXPECT(HF_OK, hf_cancel_close(watcher.cancel));
    close_store(watcher.store);
}

static void closed(void **state)
{
    struct watcher watcher = { .wait_ms = HF_FOREVER };

    (void)state;
    NEEDS(HF_CAP_WATCH);
    watcher.store = open_store();
    watcher.seq = settled_seq(watcher.store);
    watcher_start(&watcher);
    thread_settled(&watcher.tid, &watcher.ended);
    EXPECT(HF_IN_USE, hf_close(watcher.store, 0));
    EXPECT(HF_OK, hf_close(watcher.store, HF_CLOSE_FLAG_RELEASE));
    EXPECT(HF_CANCELLED, watcher_join(&watcher));
}

#define WAITS 40 /* more than a store has threads for calls that wait without one */

struct told {
    int calls;
    hf_status status;
};

static void on_told(const hf_result *result, void *arg)
{
    struct told *told = arg;

    told->calls++;
    told->status = result->status;
}

static void pump_until(hf_store *store, const struct told *told)
{
    int64_t until_ms = now_ms() + LIMIT_MS;

    while (told->calls == 0) {
        CHECK(now_ms() < until_ms);
        EXPECT(HF_OK, hf_store_process(store));
        nap_ms(1);
    }
}

/* Those that no thread has come to yet end as well: when their time is up, and when they are cancelled. */
static void more_than_threads(void **state)
{
    struct told told[WAITS] = { 0 }, short_one = { 0 };
    hf_op *ops[WAITS];
    hf_store *store;
    uint64_t seq;

    (void)state;
    NEEDS(HF_CAP_WATCH);
    store = open_store();
    seq = settled_seq(store);
    for (int i = 0; i < WAITS; i++)
        EXPECT(HF_OK, hf_store_wait_async(store, seq, HF_FOREVER, NULL, on_told, &told[i], &ops[i],
                                          &contract_error));
    EXPECT(HF_OK,
           hf_store_wait_async(store, seq, 100, NULL, on_told, &short_one, NULL, &contract_error));
    pump_until(store, &short_one);
    EXPECT(HF_TIMEOUT, short_one.status);
    for (int i = WAITS - 1; i >= 0; i--) {
        CHECK(told[i].calls == 0);
        EXPECT(HF_OK, hf_op_cancel(ops[i]));
        pump_until(store, &told[i]);
        EXPECT(HF_CANCELLED, told[i].status);
    }
    close_store(store);
}

/* One whose answer is there already does not wait for those that wait. */
static void answered_at_once(void **state)
{
    hf_acquire_request request = mutex_request("watched");
    struct told told[WAITS] = { 0 }, old_one = { 0 };
    hf_op *ops[WAITS];
    hf_store *store;
    uint64_t seq, before;

    (void)state;
    NEEDS(HF_CAP_WATCH);
    if (strncmp(contract_url(), "memblock:", 9) == 0)
        skip(); /* what blocks needs a thread, even for that */
    store = open_store();
    before = settled_seq(store);
    give(take(store, &request));
    seq = settled_seq(store);
    for (int i = 0; i < WAITS; i++)
        EXPECT(HF_OK, hf_store_wait_async(store, seq, HF_FOREVER, NULL, on_told, &told[i], &ops[i],
                                          &contract_error));
    EXPECT(HF_OK, hf_store_wait_async(store, before, HF_FOREVER, NULL, on_told, &old_one, NULL,
                                      &contract_error));
    pump_until(store, &old_one);
    EXPECT(HF_OK, old_one.status);
    give(take(store, &request));
    for (int i = 0; i < WAITS; i++) {
        pump_until(store, &told[i]);
        EXPECT(HF_OK, told[i].status);
    }
    close_store(store);
}

/* Many that do not wait: the time of most of them is up before a thread has come to them. */
static void many_only_ask(void **state)
{
    hf_acquire_request request = mutex_request("watched");
    struct told told[WAITS] = { 0 };
    hf_store *store;
    uint64_t before;

    (void)state;
    NEEDS(HF_CAP_WATCH);
    store = open_store();
    before = settled_seq(store);
    give(take(store, &request));
    for (int i = 0; i < WAITS; i++)
        EXPECT(HF_OK, hf_store_wait_async(store, before, 0, NULL, on_told, &told[i], NULL,
                                          &contract_error));
    for (int i = 0; i < WAITS; i++) {
        pump_until(store, &told[i]);
        EXPECT(HF_OK, told[i].status);
    }
    close_store(store);
}

int contract_watch(void)
{
    const struct CMUnitTest cases[] = {
        CASE(nothing_changes),   CASE(every_change_is_told),
        CASE(between_two_calls), CASE(only_asked),
        CASE(cancelled),         CASE(closed),
        CASE(more_than_threads), CASE(answered_at_once),
        CASE(many_only_ask),
    };

    return cmocka_run_group_tests_name("watch", cases, NULL, NULL);
}
