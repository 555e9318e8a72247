/* SPDX-License-Identifier: MIT */
/*
 * Processes that die or stop. Where leases are bound to the process its death
 * frees them at once; a stopped one keeps them. Needs HF_CAP_PROCESS and peers
 * that are processes.
 */
#include "peer.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define NEEDS_PROCESSES()                                \
    do {                                                 \
        if (!contract_processes || !has(HF_CAP_PROCESS)) \
            return;                                      \
    } while (0)

/*
 * At once means: when the store learns of it. The embedded store checks when the name is wanted
 * next; a server sees the end of the connection, a moment later.
 */
static hf_status probe_freed(hf_store *store, const hf_acquire_request *request)
{
    hf_acquire_request wait = *request;

    if (strcmp(contract_info.engine, "lmdb") != 0)
        wait.wait_ms = LIMIT_MS;
    return probe(store, &wait);
}

static void death_frees(void **state)
{
    hf_acquire_request request = mutex_request("died"), wait = waiting_request("died");
    hf_store *store;
    struct peer peer;

    (void)state;
    NEEDS_PROCESSES();
    store = open_store();
    for (int i = 0; i < 5; i++) {
        peer_start(&peer);
        EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
        EXPECT(HF_BUSY, probe(store, &request));
        if (i == 4)
            peer_exit(&peer);
        else
            peer_kill(&peer);
        EXPECT(HF_OK, probe_freed(store, i % 2 ? &wait : &request));
    }
    close_store(store);
}

static void death_wakes_the_next(void **state)
{
    hf_acquire_request request = mutex_request("died"), wait = waiting_request("died");
    struct attempt attempt;
    hf_store *store;
    struct peer holder, first;
    uint64_t token;

    (void)state;
    NEEDS_PROCESSES();
    NEEDS(HF_CAP_WAITERS | HF_CAP_TOKEN);
    store = open_store();
    peer_start(&holder);
    peer_start(&first);
    EXPECT(HF_OK, peer_acquire(&holder, 0, &request));
    peer_begin(&first, 0, &wait);
    AWAIT(count_waiters(store, "died") == 1);
    attempt_start(&attempt, store, &wait);
    AWAIT(count_waiters(store, "died") == 2);
    peer_kill(&holder);
    EXPECT(HF_OK, peer_join(&first, 0, &token));
    peer_kill(&first);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_token(attempt.lease) > token);
    give(attempt.lease);
    close_store(store);
}

/* Several kinds and names at once, and waiters that die with their holder. */
static void death_frees_everything(void **state)
{
    hf_acquire_request request, wait = waiting_request("a");
    struct peer peer;
    hf_store *store;
    hf_view *view = NULL;
    hf_lease *lease;

    (void)state;
    NEEDS_PROCESSES();
    NEEDS(HF_CAP_WAITERS | HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_TTL);
    store = open_store();
    peer_start(&peer);
    lease =
        take(store,
             &(hf_acquire_request){ .size = sizeof request, .name = "a", .name_len = HF_CSTRING });
    peer_begin(&peer, 0, &wait);
    AWAIT(count_waiters(store, "a") == 1);
    request = mutex_request("b");
    request.kind = HF_KIND_SHARED;
    EXPECT(HF_OK, peer_acquire(&peer, 1, &request));
    request = mutex_request("c");
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = 4;
    request.permits = 3;
    EXPECT(HF_OK, peer_acquire(&peer, 2, &request));
    request = mutex_request("d");
    request.ttl_ms = 10 * 60 * 1000; /* a ttl does not keep it longer */
    EXPECT(HF_OK, peer_acquire(&peer, 3, &request));
    peer_kill(&peer);
    give(lease);
    EXPECT(HF_OK, probe(store, &wait));
    EXPECT(HF_OK, probe(store, &(hf_acquire_request){
                                   .size = sizeof request, .name = "b", .name_len = HF_CSTRING }));
    EXPECT(HF_OK, probe(store, &(hf_acquire_request){
                                   .size = sizeof request, .name = "c", .name_len = HF_CSTRING }));
    EXPECT(HF_OK, probe(store, &(hf_acquire_request){
                                   .size = sizeof request, .name = "d", .name_len = HF_CSTRING }));
    EXPECT(HF_OK,
           hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
    CHECK(hf_view_count(view) == 0);
    hf_free(view);
    close_store(store);
}

/* A child of the holder, forked or spawned, does not keep what its dead parent held. */
static void children_keep_nothing(void **state)
{
    hf_acquire_request request = mutex_request("parent");
    hf_store *store;
    struct peer peer;

    (void)state;
    NEEDS_PROCESSES();
    store = open_store();
    for (int i = 0; i < 2; i++) {
        peer_start(&peer);
        EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
        peer_make_child(&peer, i == 0);
        EXPECT(HF_BUSY, probe(store, &request));
        peer_kill_alone(&peer);
        EXPECT(HF_OK, probe_freed(store, &request));
        peer_orphans_end(&peer);
    }
    close_store(store);
}

static void stopped_keeps(void **state)
{
    hf_acquire_request request = mutex_request("stopped");
    struct peer peer;
    hf_store *store;
    int status;

    (void)state;
    NEEDS_PROCESSES();
    store = open_store();
    peer_start(&peer);
    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    peer_signal(&peer, SIGSTOP);
    CHECK(waitpid((pid_t)peer.pid, &status, WUNTRACED) == peer.pid && WIFSTOPPED(status));
    request.wait_ms = 1500;
    EXPECT(HF_TIMEOUT, probe(store, &request));
    peer_signal(&peer, SIGCONT);
    CHECK(peer_state(&peer, 0) == HF_STATE_HELD);
    EXPECT(HF_OK, peer_release(&peer, 0));
    EXPECT(HF_OK, probe(store, &request));
    peer_stop(&peer);
    close_store(store);
}

/* A stopped process with a ttl of its own does lose it, and knows when it wakes up. */
static void stopped_past_its_ttl(void **state)
{
    hf_acquire_request request = mutex_request("stopped"), wait = waiting_request("stopped");
    struct peer peer;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS_PROCESSES();
    NEEDS(HF_CAP_TTL);
    store = open_store();
    peer_start(&peer);
    request.ttl_ms = 1500;
    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    peer_signal(&peer, SIGSTOP);
    lease = take(store, &wait);
    peer_signal(&peer, SIGCONT);
    CHECK(peer_state(&peer, 0) == HF_STATE_LOST);
    EXPECT(HF_LOST, peer_release(&peer, 0));
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    EXPECT(HF_BUSY,
           peer_acquire(&peer, 1,
                        &(hf_acquire_request){
                            .size = sizeof request, .name = "stopped", .name_len = HF_CSTRING }));
    give(lease);
    peer_stop(&peer);
    close_store(store);
}

/* A waiter that is stopped and then killed delays nobody. */
static void stopped_waiter(void **state)
{
    hf_acquire_request request = mutex_request("stopped"), wait = waiting_request("stopped");
    struct peer peer;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS_PROCESSES();
    NEEDS(HF_CAP_WAITERS);
    store = open_store();
    peer_start(&peer);
    lease = take(store, &request);
    peer_begin(&peer, 0, &wait);
    AWAIT(count_waiters(store, "stopped") == 1);
    peer_signal(&peer, SIGSTOP);
    peer_kill(&peer);
    give(lease);
    EXPECT(HF_OK, probe(store, &wait));
    close_store(store);
}

int contract_process(void)
{
    const struct CMUnitTest cases[] = {
        CASE(death_frees),           CASE(death_wakes_the_next), CASE(death_frees_everything),
        CASE(stopped_keeps),         CASE(stopped_past_its_ttl), CASE(stopped_waiter),
        CASE(children_keep_nothing),
    };

    return cmocka_run_group_tests_name("process", cases, NULL, NULL);
}
