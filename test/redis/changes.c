/* SPDX-License-Identifier: MIT */
/*
 * hf_store_wait(): the server tells of a change, and nothing is polled. A watcher hears of an acquire, a release, a hand-over and a break, also
 * after its connections were cut or killed; and what it says without the rights.
 */
#include "redis_bed.h"

#include <stdio.h>
#include <string.h>

struct watcher {
    hf_store *store;
    uint64_t seq;
    hf_status status;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static void *watch(void *arg)
{
    struct watcher *watcher = arg;

    watcher->tid = thread_id();
    watcher->status =
        hf_store_wait(watcher->store, &watcher->seq, HF_FOREVER, NULL, &contract_error);
    watcher->ended = true;
    return NULL;
}

/* Wait from the present state on, with nothing of the past to come. */
static void watcher_start(struct watcher *watcher, hf_store *store)
{
    hf_status status;

    *watcher = (struct watcher){ .store = store };
    while ((status = hf_store_wait(store, &watcher->seq, 100, NULL, &contract_error)) == HF_OK)
        ;
    EXPECT(HF_TIMEOUT, status);
    CHECK(pthread_create(&watcher->thread, NULL, watch, watcher) == 0);
    thread_settled(&watcher->tid, &watcher->ended);
    CHECK(!watcher->ended);
}

/* It is told, and by nothing else: the wait has no limit. */
static void hears(struct watcher *watcher)
{
    AWAIT(watcher->ended);
    CHECK(pthread_join(watcher->thread, NULL) == 0);
    EXPECT(HF_OK, watcher->status);
}

static void hears_everything(hf_store *store, hf_store *other)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), 300000),
                       waiting = with_ttl(waiting_request("n"), 300000);
    struct watcher watcher;
    struct attempt attempt;
    hf_store *third = open_direct();
    hf_lease *lease;

    watcher_start(&watcher, store);
    lease = take(other, &request); /* thin */
    hears(&watcher);
    watcher_start(&watcher, store);
    attempt_start(&attempt, third, &waiting); /* a waiter: the name becomes full */
    hears(&watcher);
    AWAIT(count_waiters(other, "n") == 1);
    watcher_start(&watcher, store);
    give(lease); /* handed over */
    hears(&watcher);
    EXPECT(HF_OK, attempt_join(&attempt));
    watcher_start(&watcher, store);
    EXPECT(HF_OK, hf_lease_break(other, "n", 1, hf_lease_token(attempt.lease), &contract_error));
    hears(&watcher);
    EXPECT(HF_LOST, hf_release(attempt.lease, &contract_error));
    lease = take(other, &request);
    watcher_start(&watcher, store);
    give(lease); /* one HDEL, and no script */
    hears(&watcher);
    close_store(third);
}

static void every_change(void **state)
{
    hf_store *store = open_direct(), *other = open_direct();

    (void)state;
    hears_everything(store, other);
    close_store(other);
    close_store(store);
}

/* What happened while a connection was down is told when it is up; and what happens after that. */
static void after_a_cut(void **state)
{
    static const char *const kills[] = { "CLIENT KILL TYPE pubsub SKIPME yes",
                                         "CLIENT KILL TYPE normal SKIPME yes" };
    hf_store *store = open_at(proxy_url(proxy, "?connect_timeout=1s")), *other = open_direct();
    hf_acquire_request request = mutex_request("n");
    struct watcher watcher;

    (void)state;
    watcher_start(&watcher, store);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    give(take(other, &request));
    CHECK(!watcher.ended);
    proxy_heal(proxy);
    hears(&watcher);
    hears_everything(store, other);
    for (size_t i = 0; i < sizeof kills / sizeof *kills; i++) {
        watcher_start(&watcher, store);
        server_do(server, kills[i]);
        hears(&watcher);
        AWAIT(probe(other, &request) == HF_OK);
        hears_everything(store, other);
    }
    close_store(other);
    close_store(store);
}

static void user(const char *rights)
{
    char rules[512];

    snprintf(rules, sizeof rules,
             "ACL SETUSER app reset on >sesame -@all ~hf:* resetchannels &hf:* +info +ping +eval "
             "+evalsha "
             "+subscribe +unsubscribe +get +set %s",
             rights);
    server_do(server, rules);
}

/* The rights that holdfast-engines(7) names, and a text that says which one is missing. */
static void rights(void **state)
{
    char url[128];
    hf_store *store;
    uint64_t seq = 0;

    (void)state;
    snprintf(url, sizeof url, "redis://app:sesame@127.0.0.1:%u", (unsigned)server->port);
    user("&__redis__:invalidate");
    store = open_at(url);
    EXPECT(HF_DENIED, hf_store_wait(store, &seq, 1000, NULL, &contract_error));
    CHECK(strstr(contract_error.text, "CLIENT TRACKING"));
    user("+client|tracking");
    close_hard(store);
    store = open_at(url);
    EXPECT(HF_DENIED, hf_store_wait(store, &seq, 1000, NULL, &contract_error));
    CHECK(strstr(contract_error.text, "SUBSCRIBE __redis__:invalidate"));
    close_hard(store);
    user("+client|tracking &__redis__:invalidate");
    seq = 0;
    store = open_at(url);
    EXPECT(HF_TIMEOUT, hf_store_wait(store, &seq, 100, NULL, &contract_error));
    close_hard(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST(every_change), TEST(after_a_cut), TEST(rights) };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
