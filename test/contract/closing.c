/* SPDX-License-Identifier: MIT */
/* Closing a store: refused while in use, or ending everything that is. */
#include "contract.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define THREADS_ARE_OURS 0 /* ThreadSanitizer has one of its own */
#else
#define THREADS_ARE_OURS 1
#endif

static void refused_while_held(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("close");
    hf_lease *lease = take(store, &request);

    (void)state;
    EXPECT(HF_IN_USE, hf_close(store, 0));
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    EXPECT(HF_BUSY, probe(store, &request)); /* it stays open */
    give(lease);
    close_store(store);
}

static void refused_while_waited_in(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = mutex_request("close");
    hf_lease *lease = take(second, &request);
    struct attempt attempt;

    (void)state;
    request.wait_ms = HF_FOREVER;
    attempt_start(&attempt, store, &request);
    attempt_settled(&attempt);
    EXPECT(HF_IN_USE, hf_close(store, 0));
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(store);
    close_store(second);
}

static void twice_and_after(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("close");
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_lease *lease = NULL;
    hf_view *view = NULL;

    (void)state;
    close_store(store);
    EXPECT(HF_INVALID, hf_close(store, 0));
    EXPECT(HF_INVALID, hf_close(store, HF_CLOSE_FLAG_RELEASE));
    EXPECT(HF_INVALID, hf_acquire(store, &request, &lease, &contract_error));
    EXPECT(HF_INVALID, hf_store_inspect(store, "x", 1, 0, &view, &contract_error));
    EXPECT(HF_INVALID, hf_store_get(store, &info));
    EXPECT(HF_INVALID, hf_store_process(store));
    CHECK(hf_store_fd(store) == -1);
}

static void unknown_flags(void **state)
{
    hf_store *store = open_store();

    (void)state;
    EXPECT(HF_INVALID, hf_close(store, 1u << 4));
    close_store(store);
}

struct notice {
    _Atomic int count;
};

static void on_lost(hf_lease *lease, hf_event event, const char *why, void *arg)
{
    (void)lease, (void)why;
    if (event == HF_EVENT_LOST)
        atomic_fetch_add(&((struct notice *)arg)->count, 1);
}

static void release_ends_everything(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request mine = mutex_request("mine"), theirs = mutex_request("theirs"), other;
    hf_lease *lease, *foreign = take(second, &theirs);
    struct attempt attempts[4];
    struct notice notice = { 0 };

    (void)state;
    mine.on_event = on_lost;
    mine.on_event_arg = &notice;
    lease = take(store, &mine);
    theirs.wait_ms = HF_FOREVER;
    for (int i = 0; i < 4; i++) {
        theirs.flags = i & 1 ? HF_FLAG_STRICT : 0;
        attempt_start(&attempts[i], store, &theirs);
    }
    for (int i = 0; i < 4; i++)
        attempt_settled(&attempts[i]);

    EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
    for (int i = 0; i < 4; i++)
        EXPECT(HF_CANCELLED, attempt_join(&attempts[i]));
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    other = mutex_request("mine");
    EXPECT(HF_OK, probe(second, &other)); /* it was released in the store */
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    EXPECT(HF_INVALID, hf_release(lease, &contract_error));
    EXPECT(HF_INVALID, hf_close(store, 0));
    CHECK(hf_lease_state(foreign) == HF_STATE_HELD);
    give(foreign);
    if (has(HF_CAP_WAITERS)) /* Redlock: a node that was late may show one for a moment */
        AWAIT(count_waiters(second, "theirs") == 0 || !several_nodes());
    if (has(HF_CAP_WAITERS) && !several_nodes())
        CHECK(count_waiters(second, "theirs") == 0);
    theirs.flags = 0;
    EXPECT(HF_OK, probe(second, &theirs));
    close_store(second);
}

/* Closing one handle leaves what the others hold. */
static void handles_are_independent(void **state)
{
    hf_store *store = open_store(), *second = open_store();
    hf_acquire_request request = mutex_request("close");
    hf_lease *lease = take(second, &request);

    (void)state;
    close_store(store);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    store = open_store();
    EXPECT(HF_BUSY, probe(store, &request));
    EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    close_store(second);
}

static void open_and_close_often(void **state)
{
    hf_acquire_request request = mutex_request("close");

    (void)state;
    for (int i = 0; i < 30; i++) {
        hf_store *store = open_store();

        give(take(store, &request));
        close_store(store);
    }
}

static size_t count_entries(const char *path)
{
    DIR *dir = opendir(path);
    size_t count = 0;

    CHECK(dir != NULL);
    while (readdir(dir)) /* cppcheck-suppress readdirCalled */
        count++;
    closedir(dir);
    return count;
}

/* Use a store in every way that needs threads or descriptors. */
static void use_up(void)
{
    hf_store *store = open_store();
    hf_acquire_request request = waiting_request("close");
    struct notice notice = { 0 };
    hf_lease *lease;

    request.on_event = on_lost;
    request.on_event_arg = &notice;
    if (has(HF_CAP_TTL))
        request.ttl_ms = 10 * LIMIT_MS;
    lease = take(store, &request);
    CHECK(hf_lease_fd(lease) >= 0);
    CHECK(hf_store_fd(store) >= 0);
    EXPECT(HF_OK, hf_store_process(store));
    give(lease);
    close_store(store);
}

/* What a store took from the process it gives back: descriptors and threads. */
static void nothing_is_left(void **state)
{
    size_t descriptors, threads;

    (void)state;
    use_up(); /* what is kept for later is kept once */
    descriptors = count_entries("/proc/self/fd");
    threads = count_entries("/proc/self/task");
    for (int i = 0; i < 10; i++)
        use_up();
    CHECK(count_entries("/proc/self/fd") == descriptors);
    AWAIT(count_entries("/proc/self/task") <= threads);
}

/* "Its own threads block all signals." */
static void threads_block_signals(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = waiting_request("signals");
    struct notice notice = { 0 };
    struct dirent *entry;
    hf_lease *lease;
    DIR *dir;

    (void)state;
    request.on_event = on_lost;
    request.on_event_arg = &notice;
    if (has(HF_CAP_TTL))
        request.ttl_ms = 10 * LIMIT_MS;
    lease = take(store, &request);
    dir = opendir("/proc/self/task");
    CHECK(dir != NULL);
    while ((entry = readdir(dir))) { /* cppcheck-suppress readdirCalled */
        char path[300], line[256];
        unsigned long long blocked = 0;
        FILE *file;

        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        file = fopen(path, "re");
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
                /* All that can be blocked but those of the C library (32, 33). */
                CHECK(!THREADS_ARE_OURS || (blocked | 0x180040100ull) == ~0ull);
        if (file)
            fclose(file);
    }
    closedir(dir);
    give(lease);
    close_store(store);
}

/* Threads that are in the middle of everything when the store is closed under them. */
struct user {
    hf_store *store;
    char name[2];
    _Atomic int rounds;
};

static void *use_until_closed(void *arg)
{
    struct user *user = arg;
    hf_acquire_request request = waiting_request(user->name);
    hf_status status;

    do {
        hf_lease *lease = NULL;

        status = hf_acquire(user->store, &request, &lease, NULL);
        if (status == HF_OK) {
            hf_status released = hf_release(lease, NULL);

            CHECK(released == HF_OK || released == HF_LOST);
        } else
            CHECK(status == HF_CANCELLED || status == HF_INVALID);
        user->rounds++;
    } while (status != HF_INVALID && status != HF_CANCELLED);
    return NULL;
}

static void closed_under_load(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        struct user users[6];
        pthread_t threads[6];
        hf_store *store = open_store();

        for (int i = 0; i < 6; i++) {
            users[i] = (struct user){ .store = store, .name = { (char)('a' + i % 2), 0 } };
            CHECK(pthread_create(&threads[i], NULL, use_until_closed, &users[i]) == 0);
        }
        for (int i = 0; i < 6; i++)
            AWAIT(users[i].rounds > 5);
        EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
        for (int i = 0; i < 6; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

/* ---- from within callbacks ------------------------------------------------------------------- */

struct nested {
    hf_store *outer, *inner;
    int calls;
};

static void close_outer(const hf_result *result, void *arg)
{
    struct nested *nested = arg;

    EXPECT(HF_OK, result->status);
    EXPECT(HF_IN_USE, hf_close(nested->inner, HF_CLOSE_FLAG_RELEASE));
    EXPECT(HF_IN_USE, hf_close(nested->outer, HF_CLOSE_FLAG_RELEASE));
    give(result->lease);
    nested->calls++;
}

static void pump_inner(const hf_result *result, void *arg)
{
    struct nested *nested = arg;
    hf_acquire_request request = mutex_request("inner");
    int64_t until_ms = now_ms() + LIMIT_MS;

    EXPECT(HF_OK, result->status);
    give(result->lease);
    EXPECT(HF_OK,
           hf_acquire_async(nested->inner, &request, close_outer, nested, NULL, &contract_error));
    while (nested->calls == 0) {
        CHECK(now_ms() < until_ms);
        EXPECT(HF_OK, hf_store_process(nested->inner));
        nap_ms(1);
    }
    nested->calls++;
}

/* A callback of one store runs inside a callback of another: neither can be closed there. */
static void refused_in_nested_callbacks(void **state)
{
    struct nested nested = { .outer = open_store(), .inner = open_store() };
    hf_acquire_request request = mutex_request("outer");
    int64_t until_ms = now_ms() + LIMIT_MS;

    (void)state;
    EXPECT(HF_OK,
           hf_acquire_async(nested.outer, &request, pump_inner, &nested, NULL, &contract_error));
    while (nested.calls < 2) {
        CHECK(now_ms() < until_ms);
        EXPECT(HF_OK, hf_store_process(nested.outer));
        nap_ms(1);
    }
    close_store(nested.inner);
    close_store(nested.outer);
}

int contract_closing(void)
{
    const struct CMUnitTest cases[] = {
        CASE(refused_while_held),
        CASE(refused_while_waited_in),
        CASE(twice_and_after),
        CASE(unknown_flags),
        CASE(release_ends_everything),
        CASE(handles_are_independent),
        CASE(open_and_close_often),
        CASE(nothing_is_left),
        CASE(threads_block_signals),
        CASE(closed_under_load),
        CASE(refused_in_nested_callbacks),
    };

    return cmocka_run_group_tests_name("closing", cases, NULL, NULL);
}
