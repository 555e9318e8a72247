/* SPDX-License-Identifier: MIT */
/*
 * Out of memory: every scenario is run again and again with allocation k failing,
 * for k = 1, 2, ... until it needs fewer than k; once with only that one failing
 * and once with all from k on. Every call must return HF_NO_MEMORY or do its work. Nothing may
 * crash, leak (AddressSanitizer checks), stay held or stay queued; and the store must work as
 * before.
 *
 * Every run is a process of its own, as the library keeps memory for later. Its
 * threads allocate too, so k does not always hit the same place. A run that went
 * wrong is printed as the command that repeats it.
 */
#include "both.h"

#include "calls.h"
#include "holdfast/primitives.h"
#include "holdfast/redis.h"
#include "util/alloc.h"

#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS_MAX 2000 /* no scenario allocates that often */
#define AGAIN_MAX 4    /* a run that says nothing is repeated, but not for ever */

enum { EXIT_HIT = 0, EXIT_WRONG = 1, EXIT_MISSED = 2, EXIT_SKIPPED = 3, EXIT_AGAIN = 4 };

/*
 * Check for the two statuses that a call may return; true: it did its work. A third one says nothing about memory: a
 * connection that ended for lack of it leaves Redlock without a majority while, on a busy machine, another node is still
 * being connected to. Such a run is repeated.
 */
static bool fine(hf_status status)
{
    if (status == HF_UNAVAILABLE) {
        fprintf(stderr, "%s\n", contract_error.text);
        _exit(EXIT_AGAIN);
    }
    if (status != HF_OK && status != HF_NO_MEMORY) {
        hfi_alloc_fail_at(0, 0);
        fprintf(stderr, "%s: %s\n", hf_status_name(status), contract_error.text);
        FAIL("neither HF_OK nor HF_NO_MEMORY");
    }
    return status == HF_OK;
}

/* Release; the lease ends even without memory, and the library does the rest. */
static void drop(hf_lease *lease)
{
    (void)fine(hf_release(lease, &contract_error));
}

/* ---- scenarios: each makes as many calls as memory allows ------------------------- */

static void do_open(hf_store *unused)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store = NULL;

    (void)unused;
    options.label = "a label that has to be copied somewhere";
    if (fine(hf_open(contract_url(), &options, &store, &contract_error)))
        CHECK(hf_close(store, 0) == HF_OK);
    else
        CHECK(store == NULL);
}

static void do_acquire(hf_store *store)
{
    char name[HF_NAME_MAX];
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease = NULL;

    memset(name, 'n', sizeof name);
    request.name = name;
    request.name_len = sizeof name;
    request.label = "somebody with a label";
    request.flags = HF_FLAG_REENTRANT;
    if (!fine(hf_acquire(store, &request, &lease, &contract_error)))
        return;
    if (fine(hf_acquire(store, &request, &lease, &contract_error)))
        drop(lease);
    IGNORE(hf_lease_fd(lease)); /* -1 without memory */
    drop(lease);
}

static void do_kinds(hf_store *store)
{
    hf_acquire_request request = mutex_request("kinds");
    hf_lease *lease;

    if (has(HF_CAP_SHARED)) {
        request.kind = HF_KIND_SHARED;
        if (fine(hf_acquire(store, &request, &lease, &contract_error)))
            drop(lease);
    }
    request.kind = HF_KIND_SEMAPHORE;
    request.name = "slots";
    request.name_len = HF_CSTRING;
    request.capacity = 3;
    if (has(HF_CAP_SEMAPHORE) && fine(hf_acquire(store, &request, &lease, &contract_error)))
        drop(lease);
}

static void do_ttl(hf_store *store)
{
    hf_acquire_request request = mutex_request("ttl");
    hf_lease *lease;

    request.ttl_ms = 10 * LIMIT_MS;
    request.max_hold_ms = 20 * LIMIT_MS;
    if (!fine(hf_acquire(store, &request, &lease, &contract_error)))
        return;
    (void)fine(hf_renew(lease, 0, &contract_error));
    drop(lease);
}

/* Idle leases: taken again, ended by another kind of request, called back by another client, and given back. */
static void do_linger(hf_store *store)
{
    hf_acquire_request request = waiting_request("linger"), other = request;
    hf_store *second;
    hf_lease *lease;
    hf_status status;

    other.ttl_ms = 5000; /* for a close without memory */
    request.ttl_ms = 20 * LIMIT_MS;
    request.linger_ms = LIMIT_MS;
    for (int i = 0; i < 3; i++)
        if (fine(hf_acquire(store, &request, &lease, &contract_error)))
            drop(lease);
    if (fine(hf_acquire(store, &other, &lease, &contract_error)))
        drop(lease);
    if (fine(hf_acquire(store, &request, &lease, &contract_error)))
        drop(lease);
    if (fine(hf_open(contract_url(), NULL, &second, &contract_error))) {
        other.wait_ms =
            0; /* without any memory the recall has no effect until there is some again */
        status = hf_acquire(second, &other, &lease, &contract_error);
        if (status != HF_BUSY && fine(status))
            drop(lease);
        CHECK(hf_close(second, HF_CLOSE_FLAG_RELEASE) == HF_OK);
    }
    if (fine(hf_acquire(store, &request, &lease, &contract_error)))
        drop(lease);
    (void)fine(hf_idle_release(store, &contract_error));
}

static void *wait_for_it(void *arg)
{
    hf_acquire_request request = waiting_request("wait");
    hf_lease *lease;

    if (fine(hf_acquire(arg, &request, &lease, &contract_error)))
        drop(lease);
    return NULL;
}

/* A local waiter and one in the store's queue, then hand-off. */
static void do_wait(hf_store *store)
{
    hf_acquire_request request = waiting_request("wait");
    pthread_t threads[2];
    hf_lease *lease;

    if (!fine(hf_acquire(store, &request, &lease, &contract_error)))
        return;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, wait_for_it, store) == 0);
    nap_ms(1);
    drop(lease);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void do_time_out(hf_store *store)
{
    hf_acquire_request request = mutex_request("late");
    hf_lease *lease, *none;
    hf_status status;

    if (!fine(hf_acquire(store, &request, &lease, &contract_error)))
        return;
    request.wait_ms = 2;
    request.flags = HF_FLAG_STRICT;
    status = hf_acquire(store, &request, &none, &contract_error);
    CHECK(status == HF_TIMEOUT || status == HF_NO_MEMORY);
    request.wait_ms = HF_FOREVER;
    if (fine(hf_cancel_open(&request.cancel))) {
        CHECK(hf_cancel_fire(request.cancel) == HF_OK);
        status = hf_acquire(store, &request, &none, &contract_error);
        CHECK(status == HF_CANCELLED || status == HF_NO_MEMORY);
        CHECK(hf_cancel_close(request.cancel) == HF_OK);
    }
    drop(lease);
}

static void do_inspect(hf_store *store)
{
    hf_lease *leases[3] = { NULL };
    hf_view *view = NULL;

    for (int i = 0; i < 3; i++) {
        char name[] = { 'v', (char)('0' + i), 0 };
        hf_acquire_request request = mutex_request(name);

        (void)fine(hf_acquire(store, &request, &leases[i], &contract_error));
    }
    if (fine(hf_store_inspect(store, "v*", 2, HF_INSPECT_FLAG_PATTERN, &view, &contract_error)))
        hf_free(view);
    for (int i = 0; i < 3; i++)
        if (leases[i])
            drop(leases[i]);
}

static void do_break(hf_store *store)
{
    hf_acquire_request request = mutex_request("broken");
    hf_lease *lease;
    hf_status status;

    if (!fine(hf_acquire(store, &request, &lease, &contract_error)))
        return;
    (void)fine(hf_lease_break(store, "broken", 6, hf_lease_token(lease), &contract_error));
    status = hf_release(lease, &contract_error);
    CHECK(status == HF_OK || status == HF_LOST || status == HF_NO_MEMORY);
}

static void do_detached(hf_store *store)
{
    hf_acquire_request request = mutex_request("away");
    char handle[HF_LEASE_TEXT_MAX];
    hf_lease *lease, *adopted = NULL;
    hf_status status;

    request.flags = HF_FLAG_DETACHED;
    request.ttl_ms = 10 * LIMIT_MS;
    if (!fine(hf_acquire(store, &request, &lease, &contract_error)))
        return;
    CHECK(hf_lease_export(lease, handle) == HF_OK);
    if (fine(call_lease_adopt(store, "away", 4, handle, 0, 1, &adopted, &contract_error)))
        drop(adopted);
    status = hf_release(lease, &contract_error);
    CHECK(status == HF_OK || status == HF_LOST || status == HF_NO_MEMORY);
}

struct async {
    int pending;
    bool brings;  /* with HF_OK something that must be freed */
    bool checks;  /* hf_store_check_async() is under way */
    bool unknown; /* what was not answered may have been done */
    hf_lease *leases[4];
};

static void on_acquired(const hf_result *result, void *arg)
{
    struct async *async = arg;

    CHECK(result->status == HF_OK || result->status == HF_NO_MEMORY ||
          result->status == HF_CANCELLED);
    CHECK(result->error->status == result->status);
    for (int i = 0; result->status == HF_OK && i < 4; i++)
        if (!async->leases[i]) {
            async->leases[i] = result->lease;
            break;
        }
    async->pending--;
}

static void on_released(const hf_result *result, void *arg)
{
    CHECK(result->status == HF_OK || result->status == HF_NO_MEMORY);
    ((struct async *)arg)->pending--;
}

static void run_loop(hf_store *store, struct async *async)
{
    int64_t until_ms = now_ms() + LIMIT_MS;

    while (async->pending > 0) {
        struct pollfd fd = { .fd = hf_store_fd(store), .events = POLLIN };
        int timeout_ms = hf_store_timeout_ms(store);
        hf_status status;

        CHECK(now_ms() < until_ms);
        poll(&fd, 1, fd.fd < 0 || timeout_ms < 0 || timeout_ms > 20 ? 20 : timeout_ms);
        status = hf_store_process(store);
        CHECK(status == HF_OK || status == HF_NO_MEMORY);
    }
}

static void do_async(hf_store *store)
{
    struct async async = { 0 };
    hf_op *op = NULL;

    for (int i = 0; i < 3; i++) {
        char name[] = { 'a', (char)('0' + i), 0 };
        hf_acquire_request request = waiting_request(name);

        if (fine(hf_acquire_async(store, &request, on_acquired, &async, &op, &contract_error)))
            async.pending++;
        if (i == 2 && op)
            (void)hf_op_cancel(op);
        op = NULL;
    }
    run_loop(store, &async);
    for (int i = 0; i < 4; i++) {
        if (!async.leases[i])
            continue;
        if (fine(hf_release_async(async.leases[i], on_released, &async, NULL, &contract_error)))
            async.pending++;
        else
            drop(async.leases[i]);
    }
    run_loop(store, &async);
}

static void ignore_event(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    (void)lease, (void)event, (void)text, (void)arg;
}

static void on_yielded(const hf_result *result, void *arg)
{
    struct async *async = arg;
    bool holds = result->status == HF_YIELDED || fine(result->status);

    CHECK(result->error->status == result->status && holds == (result->lease != NULL));
    async->leases[0] = result->lease;
    async->pending--;
}

/* NULL: nothing is held any more. */
static hf_lease *yield(hf_store *store, hf_lease *lease, bool in_loop)
{
    struct async async = { .pending = 1 };
    hf_status status;

    if (!in_loop) {
        status = hf_yield(&lease, LIMIT_MS, &contract_error);
        CHECK((status == HF_YIELDED || fine(status)) == (lease != NULL));
        return lease;
    }
    if (!fine(hf_yield_async(lease, LIMIT_MS, on_yielded, &async, NULL, &contract_error)))
        return lease; /* it has not begun */
    run_loop(store, &async);
    return async.leases[0];
}

/* A watched lease is asked for, and yielded to a thread in both forms. */
static void do_yield(hf_store *store)
{
    hf_acquire_request request = waiting_request("wait");
    hf_lease *lease;

    request.flags = HF_FLAG_WATCH;
    request.on_event = ignore_event;
    request.label = "a worker";
    for (int form = 0; form < 2; form++) {
        pthread_t thread;

        if (!fine(hf_acquire(store, &request, &lease, &contract_error)))
            continue;
        (void)fine(hf_ask(store, "wait", 4, "please", &contract_error));
        CHECK(pthread_create(&thread, NULL, wait_for_it, store) == 0);
        for (int i = 0; i < 50 && !hf_lease_wanted(lease); i++)
            nap_ms(1); /* one that had no memory has left */
        lease = yield(store, lease, form == 1);
        if (lease)
            drop(lease);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

/* The asynchronous forms of everything else in holdfast.h. */
static void on_form(const hf_result *result, void *arg)
{
    struct async *async = arg;

    CHECK(result->error->status == result->status);
    CHECK(result->status == HF_OK || result->status == HF_NO_MEMORY ||
          result->status == HF_TIMEOUT || result->status == HF_NOT_FOUND ||
          result->status == HF_UNSUPPORTED || result->status == HF_LOST ||
          ((async->checks || async->unknown) && result->status == HF_UNAVAILABLE) ||
          (async->unknown && result->status == HF_UNKNOWN));
    CHECK((result->status == HF_OK && async->brings) ==
          (result->lease || result->leases || result->view || result->report || result->deadlocks ||
           result->value));
    for (size_t i = 0; i < result->count; i++)
        async->leases[i] = result->leases[i];
    if (result->lease)
        async->leases[3] = result->lease;
    hf_free(result->view);
    hf_free(result->report);
    hf_free(result->deadlocks);
    hf_free(result->value);
    async->pending--;
}

/* Wait until it has ended, if it has begun. */
static void await_form(hf_store *store, struct async *async, bool brings, hf_status status)
{
    async->brings = brings;
    if (!fine(status))
        return;
    async->pending++;
    run_loop(store, async);
}

static void do_async_forms(hf_store *store)
{
    hf_acquire_request requests[3] = { waiting_request("s2"), waiting_request("s0"),
                                       waiting_request("s1") };
    hf_adopt_request adopt = HF_ADOPT_REQUEST_INIT;
    struct async async = { 0 };
    hf_error *err = &contract_error;

    requests[0].label = "somebody with a label";
    await_form(store, &async, true,
               hf_acquire_all_async(store, requests, 3, on_form, &async, NULL, err));
    if (async.leases[0] && has(HF_CAP_TTL))
        await_form(store, &async, false,
                   hf_renew_async(async.leases[0], 0, on_form, &async, NULL, err));
    if (has(HF_CAP_INSPECT))
        await_form(store, &async, true,
                   hf_store_inspect_async(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, on_form, &async,
                                          NULL, err));
    if (has(HF_CAP_BREAK))
        await_form(store, &async, false,
                   hf_lease_break_async(store, "none", 4, 1, on_form, &async, NULL, err));
    adopt.name = "none";
    adopt.name_len = HF_CSTRING;
    adopt.text = "0123456789abcdef0123456789abcdef-1";
    if (has(HF_CAP_DETACHED))
        await_form(store, &async, true,
                   hf_lease_adopt_async(store, &adopt, on_form, &async, NULL, err));
    if (has(HF_CAP_WATCH))
        await_form(store, &async, false,
                   hf_store_wait_async(store, 0, 1, NULL, on_form, &async, NULL, err));
    async.checks =
        true; /* a statement of a doctor that fails for lack of memory: the server was not asked */
    await_form(store, &async, true, hf_store_check_async(store, on_form, &async, NULL, err));
    async.checks = false;
    if (has(HF_CAP_WAITERS) && has(HF_CAP_TOKEN))
        await_form(store, &async, true, hf_deadlock_list_async(store, on_form, &async, NULL, err));
    if (async.leases[3])
        drop(async.leases[3]);
    async.leases[3] = NULL;
    if (async.leases[0]) {
        hf_status status = hf_release_all_async(async.leases, 3, on_form, &async, NULL, err);

        await_form(store, &async, false, status);
        if (status != HF_OK)
            (void)fine(hf_release_all(async.leases, 3, err));
    }
}

static void do_several(hf_store *store)
{
    hf_acquire_request requests[3] = { waiting_request("s2"), waiting_request("s0"),
                                       waiting_request("s1") };
    hf_lease *leases[3];

    if (fine(hf_acquire_all(store, requests, 3, leases, &contract_error)))
        (void)fine(hf_release_all(leases, 3, &contract_error));
}

/* Two scopes that wait for each other: the deadlock is found, and the test ends it itself. */
static void do_deadlock(hf_store *store)
{
    char names[2][3] = { "k0", "k1" }, text[HF_SESSION_TEXT_MAX];
    hf_lease *held[2] = { NULL, NULL };
    struct async async = { 0 };
    hf_op *ops[2] = { NULL, NULL };
    hf_deadlocks *deadlocks = NULL;
    hf_view *view = NULL;

    for (unsigned i = 0; i < 2; i++) {
        hf_acquire_request request = mutex_request(names[i]);

        request.scope = 7 + i;
        if (fine(hf_acquire(store, &request, &held[i], &contract_error)))
            (void)fine(hf_session_get(held[i], NULL, text, &contract_error));
    }
    for (unsigned i = 0; i < 2; i++) {
        hf_acquire_request request = waiting_request(names[1 - i]);

        request.scope = 7 + i;
        if (held[1 - i] &&
            fine(hf_acquire_async(store, &request, on_acquired, &async, &ops[i], &contract_error)))
            async.pending++;
    }
    if (fine(hf_deadlock_list(store, &deadlocks, &contract_error)))
        hf_free(deadlocks);
    if (fine(hf_store_inspect(store, "k*", 2, HF_INSPECT_FLAG_PATTERN, &view, &contract_error)))
        hf_free(view);
    for (int i = 0; i < 2; i++)
        if (ops[i])
            (void)hf_op_cancel(ops[i]);
    run_loop(store, &async);
    for (int i = 0; i < 2; i++)
        if (held[i])
            drop(held[i]);
}

static void do_watch(hf_store *store)
{
    hf_cancel *cancel = NULL;
    uint64_t seq = 0;
    hf_status status;

    (void)fine(hf_cancel_open(&cancel));
    status = hf_store_wait(store, &seq, 1, cancel, &contract_error);
    CHECK(status == HF_OK || status == HF_TIMEOUT || status == HF_NO_MEMORY);
    if (cancel)
        CHECK(hf_cancel_close(cancel) == HF_OK);
}

static hf_status append(const hf_cell *old, hf_cell_change *change, void *arg)
{
    (void)old;
    *change =
        (hf_cell_change){ .size = change->size, .action = HF_CELL_ACTION_WRITE, .bytes = arg };
    change->len = strlen(arg);
    return HF_OK;
}

static void do_cells(hf_store *store)
{
    hf_cell cell = HF_CELL_INIT;
    uint64_t version = 0, other;
    hf_status status;

    (void)fine(call_cell_set(store, "cell", HF_CSTRING, "a", 1, 0, NULL, &contract_error));
    (void)fine(call_cell_update(store, "cell", HF_CSTRING, append, "b", 0, NULL, &version,
                                &contract_error));
    status = hf_cell_get(store, "cell", HF_CSTRING, &cell, &contract_error);
    if (status != HF_NOT_FOUND && fine(status))
        CHECK(cell.len == 1 && (version == 0 || version == cell.version));
    if (cell.version && fine(call_cell_swap(store, "cell", HF_CSTRING, cell.version, "c", 1, 0,
                                            &version, &contract_error))) {
        status =
            call_cell_wait(store, "cell", HF_CSTRING, version, 1, NULL, &other, &contract_error);
        CHECK(status == HF_TIMEOUT || status == HF_NO_MEMORY ||
              status == HF_UNAVAILABLE); /* a connection that was closed because there was no
                                          * memory */
        (void)fine(hf_cell_delete(store, "cell", HF_CSTRING, version, &contract_error));
    }
    hf_free(cell.bytes);
}

/* Take, inspect, and wait for a moment that always comes. */
static void do_limits(hf_store *store)
{
    hf_limit_request limit = HF_LIMIT_REQUEST_INIT;
    hf_limit_result result = HF_LIMIT_RESULT_INIT;

    limit.name = "limit";
    limit.name_len = HF_CSTRING;
    limit.algorithm = HF_LIMIT_ALGORITHM_SLIDING;
    limit.rate = HF_LIMIT_SLIDING_MAX;
    limit.per_ms = LIMIT_MS;
    (void)fine(hf_limit_take(store, &limit, &result, &contract_error));
    if (fine(hf_limit_get(store, &limit, &result, &contract_error)))
        CHECK(result.left > 0);
    (void)fine(hf_limit_set(store, &limit, &result, &contract_error));
    (void)fine(hf_limit_take(store, &limit, &result, &contract_error));
    limit.name = "soon";
    limit.name_len = HF_CSTRING;
    limit.rate = 1;
    limit.per_ms = 3;
    limit.wait_ms = HF_FOREVER;
    (void)fine(hf_limit_take(store, &limit, &result, &contract_error));
    (void)fine(hf_limit_take(store, &limit, &result, &contract_error));
}

/* An asynchronous call that did not begin has not ended the lease. If it began, there is no such lease any more. */
static void drop_unbegun(hf_lease *lease)
{
    if (contract_pumped)
        IGNORE(hf_release(lease, NULL));
}

static void do_once_and_elect(hf_store *store)
{
    hf_acquire_request request = mutex_request("agree");
    hf_leader *seen = NULL;
    hf_lease *lease = NULL;

    if (fine(hf_once_begin(store, &request, 0, &lease, NULL, &contract_error))) {
        (void)fine(hf_once_finish(lease, &contract_error));
        drop(lease);
    }
    request.name = "chair";
    request.name_len = HF_CSTRING;
    if (!fine(hf_election_campaign(store, &request, "value", 5, &lease, &contract_error)))
        return;
    (void)fine(hf_election_set(lease, "another", 7, &contract_error));
    if (fine(call_election_wait(store, "chair", HF_CSTRING, NULL, 0, NULL, &seen, &contract_error)))
        hf_free(seen);
    if (!fine(hf_election_resign(lease, &contract_error)))
        drop_unbegun(lease);
}

/* Each call uses a name of its own: a call without memory may leave a participant behind. */
static void do_parties(hf_store *store)
{
    hf_lease *lease = NULL;

    if (fine(hf_latch_create(store, "gate", HF_CSTRING, 1, &contract_error))) {
        if (fine(call_latch_join(store, "gate", HF_CSTRING, "a", 0, NULL, &lease,
                                 &contract_error))) {
            if (fine(hf_latch_count_down(store, "gate", HF_CSTRING, "a", NULL, &contract_error)))
                (void)fine(
                    call_latch_wait(store, "gate", HF_CSTRING, HF_FOREVER, NULL, &contract_error));
            drop(lease);
        }
        (void)fine(hf_latch_get(store, "gate", HF_CSTRING, NULL, NULL, &contract_error));
        (void)fine(hf_latch_delete(store, "gate", HF_CSTRING, &contract_error));
    }
    (void)fine(
        call_barrier_wait(store, "ring", HF_CSTRING, 1, NULL, HF_FOREVER, NULL, &contract_error));
    if (fine(call_barrier_enter(store, "double", HF_CSTRING, 1, "a", 0, NULL, &lease,
                                &contract_error)) &&
        !fine(hf_barrier_leave(lease, HF_FOREVER, NULL, &contract_error)))
        drop_unbegun(lease);
}

/* Closing needs no memory, whatever is held. */
static void do_close(hf_store *unused)
{
    hf_acquire_request request = mutex_request("closed");
    hf_store *store = NULL;
    hf_lease *lease = NULL;
    hf_status status;

    (void)unused;
    /* A lease that a close without memory cannot release ends with its ttl, and check_store() waits
     * for that. */
    if (contract_info.default_ttl_ms)
        request.ttl_ms = 5000;
    if (!fine(hf_open(contract_url(), NULL, &store, &contract_error)))
        return;
    (void)fine(hf_acquire(store, &request, &lease, &contract_error));
    CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
    if (lease) {
        status = hf_release(lease, NULL);
        CHECK(status == HF_LOST);
    }
}

/* A request is not sent again: without memory for the answer its outcome is unknown. */
static bool fine_or_unknown(hf_status status)
{
    return status == HF_UNKNOWN || status == HF_UNAVAILABLE ? false : fine(status);
}

/* A size that could not be set to its end may be set. */
static void do_resize(hf_store *store)
{
    hf_acquire_request request = mutex_request("slots");
    hf_lease *lease;

    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = 3;
    request.permits = 2;
    request.flags = HF_FLAG_NUMBERED;
    (void)fine_or_unknown(hf_semaphore_resize(store, "slots", 5, 5, &contract_error));
    if (fine(hf_acquire(store, &request, &lease, &contract_error)))
        drop(lease);
    (void)fine_or_unknown(hf_semaphore_resize(store, "slots", 5, 0, &contract_error));
}

/* One at any version, which is read first, and one with a ttl. */
static void do_commits(hf_store *store)
{
    hf_cell_item items[2] = { HF_CELL_ITEM_INIT, HF_CELL_ITEM_INIT };
    hf_status status;

    for (int i = 0; i < 2; i++) {
        items[i].name = i ? "right" : "left";
        items[i].name_len = HF_CSTRING;
        items[i].version = HF_CELL_ANY;
        items[i].action = HF_CELL_ACTION_WRITE;
        items[i].ttl_ms = i && has(HF_CAP_CELL_TTL) ? 60000 : 0;
    }
    status = hf_cells_commit(store, items, 2, NULL, NULL, &contract_error);
    if (status == HF_INVALID && strstr(contract_error.text, "slot"))
        return; /* a cluster */
    (void)fine_or_unknown(status);
    items[0].action = HF_CELL_ACTION_DELETE;
    (void)fine_or_unknown(hf_cells_commit(store, items, 2, NULL, NULL, &contract_error));
}

static void do_guards(hf_store *store)
{
    void *bytes = NULL;
    size_t len;

    if (fine(hf_guard_claim(store, "guard", HF_CSTRING, 7, NULL, NULL, &contract_error)))
        (void)fine(hf_guard_set(store, "guard", HF_CSTRING, 7, "kept", 4, &contract_error));
    if (fine(hf_guard_claim(store, "guard", HF_CSTRING, 7, &bytes, &len, &contract_error)))
        CHECK(!bytes || len == 4);
    hf_free(bytes);
}

static void do_counters(hf_store *store)
{
    int64_t value = 0;
    hf_status status;

    (void)fine_or_unknown(hf_counter_set(store, "n", HF_CSTRING, 5, &contract_error));
    if (fine_or_unknown(hf_counter_add(store, "n", HF_CSTRING, 1, &value, &contract_error)))
        CHECK(value == 1 || value == 6);
    (void)fine_or_unknown(hf_counter_get(store, "n", HF_CSTRING, &value, &contract_error));
    status = hf_counter_swap(store, "n", HF_CSTRING, 1, 2, &value, &contract_error);
    CHECK(status == HF_CHANGED || fine_or_unknown(status) || status != HF_OK);
    (void)fine_or_unknown(hf_counter_delete(store, "n", HF_CSTRING, &contract_error));
}

static void do_scripts(hf_store *store)
{
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;
    struct async async = { .unknown = true };
    hf_value *value = NULL;
    bool there;

    script.text = "return { KEYS[1], { ARGV[1], 1 } }";
    script.text_len = HF_CSTRING;
    script.keys = (const char *const[]){ "key" };
    script.key_count = 1;
    script.args = (const char *const[]){ "argument" };
    script.arg_count = 1;
    if (fine_or_unknown(hf_script_run(store, &script, &value, &contract_error)))
        CHECK(hf_value_get_count(value) == 2);
    hf_free(value);
    (void)fine_or_unknown(
        hf_script_exists(store, script.text, HF_CSTRING, &there, &contract_error));
    (void)fine_or_unknown(
        hf_script_exists_each(store, &script.text, NULL, 1, &there, &contract_error));
    (void)fine_or_unknown(hf_script_load(store, script.text, HF_CSTRING, NULL, &contract_error));
    (void)fine_or_unknown(hf_script_flush(store, &contract_error));
    await_form(store, &async, true,
               hf_script_run_async(store, &script, on_form, &async, NULL, &contract_error));
    await_form(store, &async, false,
               hf_script_exists_async(store, script.text, HF_CSTRING, on_form, &async, NULL,
                                      &contract_error));
    await_form(store, &async, true,
               hf_script_load_async(store, script.text, HF_CSTRING, on_form, &async, NULL,
                                    &contract_error));
    await_form(store, &async, true,
               hf_script_exists_each_async(store, &script.text, NULL, 1, on_form, &async, NULL,
                                           &contract_error));
    await_form(store, &async, false,
               hf_script_flush_async(store, on_form, &async, NULL, &contract_error));
    await_form(
        store, &async, false,
        hf_script_kill_async(store, contract_url(), 0, on_form, &async, NULL, &contract_error));
}

static void on_nodes(const hf_result *result, void *arg)
{
    CHECK(result->status != HF_OK || result->redlock);
    hf_free(result->redlock);
    on_form(result, arg);
}

static void on_step(hf_check_level level, const char *topic, const char *text, void *arg)
{
    struct async *async = arg;

    (void)level;
    CHECK(async->pending == 1 && topic[0] && text[0]);
}

/* Without memory a node cannot be asked, and counts as one that does not answer. */
static void do_nodes(hf_store *store)
{
    struct async async = { .unknown = true };
    hf_redlock_status *status = NULL;

    if (fine_or_unknown(hf_redlock_get_status(contract_url(), &status, &contract_error)))
        CHECK(status != NULL);
    hf_free(status);
    (void)fine_or_unknown(hf_redlock_join(contract_url(), NULL, 0, NULL, NULL, &contract_error));
    await_form(store, &async, false,
               hf_redlock_get_status_async(store, contract_url(), on_nodes, &async, NULL,
                                           &contract_error));
    await_form(store, &async, false,
               hf_redlock_join_async(store, contract_url(), NULL, 0, on_step, on_form, &async, NULL,
                                     &contract_error));
}

/* ---- one run, in a process of its own --------------------------------------------- */

/* Scenarios of the layers above the engines: run only on the engines in memory, which are fast. */
#define ABOVE   (1u << 31)
#define PUMPED  (1u << 30) /* the asynchronous forms of the same calls */
#define REDLOCK (1u << 29) /* calls of that engine only */

static const struct scenario {
    const char *name;
    void (*run)(hf_store *store);
    bool own_store; /* false: it gets an open store */
    uint64_t caps;
} scenarios[] = {
    { "opening", do_open, false, 0 },
    { "closing", do_close, false, 0 },
    { "acquiring", do_acquire, true, 0 },
    { "kinds", do_kinds, true, HF_CAP_SHARED },
    { "ttls", do_ttl, true, HF_CAP_TTL },
    { "lingering", do_linger, true, HF_CAP_LINGER },
    { "waiting", do_wait, true, 0 },
    { "yielding", do_yield, true, HF_CAP_WANTED },
    { "timing_out", do_time_out, true, 0 },
    { "inspecting", do_inspect, true, HF_CAP_INSPECT },
    { "breaking", do_break, true, HF_CAP_BREAK },
    { "detached", do_detached, true, HF_CAP_DETACHED },
    { "resize", do_resize, true, HF_CAP_NUMBERED | HF_CAP_RESIZE },
    { "asynchronous", do_async, true, 0 },
    { "async_forms", do_async_forms, true, 0 },
    { "several", do_several, true, 0 },
    { "deadlock", do_deadlock, true,
      HF_CAP_PROCESS }, /* core's memory: once, where runs are cheap */
    { "watching", do_watch, true, HF_CAP_WATCH },
    { "cells", do_cells, true, HF_CAP_CELLS },
    { "commits", do_commits, true, HF_CAP_COMMIT },
    { "limits", do_limits, true, HF_CAP_CELLS | HF_CAP_CLOCK },
    { "counters", do_counters, true, HF_CAP_CELLS },
    { "scripts", do_scripts, true, HF_CAP_SCRIPTS },
    { "nodes", do_nodes, true, REDLOCK },
    { "guards", do_guards, true, HF_CAP_CELLS | ABOVE },
    { "agreeing", do_once_and_elect, true, HF_CAP_CELLS | ABOVE },
    { "parties", do_parties, true, HF_CAP_CELLS | ABOVE },
    { "cells_async", do_cells, true, HF_CAP_CELLS | ABOVE | PUMPED },
    { "commits_async", do_commits, true, HF_CAP_COMMIT | ABOVE | PUMPED },
    { "limits_async", do_limits, true, HF_CAP_CELLS | HF_CAP_CLOCK | ABOVE | PUMPED },
    { "counters_async", do_counters, true, HF_CAP_CELLS | ABOVE | PUMPED },
    { "guards_async", do_guards, true, HF_CAP_CELLS | ABOVE | PUMPED },
    { "agreeing_async", do_once_and_elect, true, HF_CAP_CELLS | ABOVE | PUMPED },
    { "parties_async", do_parties, true, HF_CAP_CELLS | ABOVE | PUMPED },
};

/* Check afterwards: nobody holds, nobody waits, and the store works. */
static void check_store(hf_store *store)
{
    hf_view *view = NULL;
    hf_acquire_request request = waiting_request("after");
    int64_t until_ms = now_ms() + LIMIT_MS;
    size_t count = 1;

    while (has(HF_CAP_INSPECT) && count) {
        EXPECT(HF_OK,
               hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
        count = hf_view_count(view);
        hf_free(view);
        CHECK(now_ms() < until_ms); /* leases that could not be released at once are released
                                     * soon */
        if (count)
            nap_ms(5);
    }
    EXPECT(HF_OK, probe(store, &request));
}

static int run_once(const char *url, const struct scenario *scenario, unsigned long k, int all)
{
    hf_store *store = NULL;
    unsigned long used;

    contract_alone = true;
    contract_begin(url, false);
    if (!has(scenario->caps & ~(ABOVE | PUMPED | REDLOCK)) ||
        (scenario->caps & REDLOCK && strcmp(contract_info.engine, "redlock") != 0) ||
        (scenario->caps & ABOVE && strcmp(contract_info.engine, "memevent") != 0 &&
         strcmp(contract_info.engine, "memblock") != 0))
        return EXIT_SKIPPED;
    if (contract_setup(NULL) != 0)
        return EXIT_WRONG;
    if (scenario->own_store)
        store = open_store();
    contract_pumped = (scenario->caps & PUMPED) != 0;
    alarm(4 * LIMIT_MS /
          1000); /* an answer that never comes, so that this run is the one that is printed */
    hfi_alloc_fail_at(k, all);
    scenario->run(store);
    used = hfi_alloc_fail_at(0, 0);
    contract_pumped = false;
    if (!store)
        store = open_store();
    check_store(store);
    close_store(store);
    contract_teardown(NULL);
    return used < k ? EXIT_MISSED : EXIT_HIT;
}

/* ---- all runs ------------------------------------------------------------------------ */

static int spawn(const char *url, const char *name, unsigned long k, int all)
{
    char number[32];
    char *argv[] = { "oom", (char *)url, (char *)name, number, all ? "all" : "one", NULL };
    int status = 0;
    pid_t pid;

    snprintf(number, sizeof number, "%lu", k);
    fflush(NULL);
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid)
        abort();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Run the scenario for k = 1, 2, ... until it needs fewer allocations. false: it failed. */
static bool torture(const char *url, const struct scenario *which, int all)
{
    unsigned long k = 1;
    int result, again = 0;

    while (((result = spawn(url, which->name, k, all)) == EXIT_HIT && k < STEPS_MAX) ||
           (result == EXIT_AGAIN && again < AGAIN_MAX)) {
        again = result == EXIT_AGAIN ? again + 1 : 0;
        k += result == EXIT_HIT;
    }
    if (result == EXIT_SKIPPED)
        return true;
    printf("%-14s %4lu allocations, %s failing: %s\n", which->name, k - 1,
           all ? "all from k on" : "one", result == EXIT_MISSED ? "fine" : "WRONG");
    if (result != EXIT_MISSED)
        fprintf(stderr, "oom '%s' %s %lu %s: ended with %d\n", url, which->name, k,
                all ? "all" : "one", result);
    return result == EXIT_MISSED && k > 1;
}

static bool chosen(const char *name, char **names)
{
    if (!*names)
        return true;
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

int main(int argc, char **argv)
{
    size_t count = sizeof scenarios / sizeof *scenarios;
    bool one = argc > 2 && strcmp(argv[2], "one") == 0, right = true;
    const char *url;

    if (argc != 2 && argc != 5 && !one) {
        fprintf(stderr, "usage: oom URL [one [SCENARIO ...] | SCENARIO K one|all]\n");
        return 64;
    }
    url = argv[1][0] ? argv[1] : getenv("HOLDFAST_TEST_URL");
    if (!url)
        return 64;
    for (size_t i = 0; i < count; i++) {
        if (argc == 2 || (one && chosen(scenarios[i].name, argv + 3))) {
            right = torture(url, &scenarios[i], 0) && right;
            if (argc == 2)
                right = torture(url, &scenarios[i], 1) && right;
        } else if (!one && strcmp(argv[2], scenarios[i].name) == 0)
            return run_once(url, &scenarios[i], strtoul(argv[3], NULL, 10),
                            strcmp(argv[4], "all") == 0);
    }
    return right ? 0 : EXIT_WRONG;
}
