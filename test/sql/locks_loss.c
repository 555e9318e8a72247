/* SPDX-License-Identifier: MIT */
/* mode=row and mode=session: connections, clients and servers that end or stop; see holds.h. */
#include "holdfast/primitives.h"
#include "locks.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the administrator ---------------------------------------------------------------------------------- */

static void is_ended(const char *mode)
{
    hf_store *store = locks_open(mode, ""), *second;
    hf_acquire_request a = mutex_request("ended-a"), b = mutex_request("ended-b");
    hf_lease *leases[2] = { take(store, &a), take(store, &b) };

    locks_end_sessions();
    for (int i = 0; i < 2; i++) {
        await_lost(leases[i]);
        CHECK(hf_lease_state(leases[i]) == HF_STATE_LOST);
    }
    second = locks_open(mode, "");
    a.wait_ms = b.wait_ms = LIMIT_MS; /* the server frees them when it has ended those sessions */
    EXPECT(HF_OK, probe(second, &a));
    EXPECT(HF_LOST, hf_release(leases[0], &contract_error));
    EXPECT(HF_LOST, hf_release(leases[1], &contract_error));
    EXPECT(HF_OK, probe(store, &b)); /* with new connections */
    close_store(second);
    close_store(store);
}

static void ended_by_the_administrator(void **state)
{
    (void)state;
    BOTH_MODES(is_ended);
}

/* A waiting statement is ended by somebody else's interrupt: the wait goes on. */
static void is_interrupted(const char *mode)
{
    hf_store *store = locks_open(mode, ""), *second = locks_open(mode, "");
    hf_acquire_request request = mutex_request("interrupted"),
                       wait = waiting_request("interrupted");
    struct attempt attempt;
    hf_lease *lease = take(store, &request);

    attempt_start(&attempt, second, &wait);
    AWAIT(locks_waiting() == 1);
    if (locks_db->kind == DB_POSTGRES)
        db_do(locks_db, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event_type "
                        "= 'Lock' AND usename = 'app'");
    else
        db_do(locks_db, "KILL QUERY %lld",
              db_do(locks_db, "SELECT id FROM information_schema.processlist WHERE user = 'app' "
                              "AND command = 'Query' LIMIT 1"));
    AWAIT(locks_waiting() == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(second);
    close_store(store);
}

static void interrupted_by_the_administrator(void **state)
{
    (void)state;
    BOTH_MODES(is_interrupted);
}

/* Time limits that an operator has set for all sessions must not end a lease. */
static void outlives_limits(const char *mode)
{
    hf_store *store = locks_open(mode, "");
    hf_acquire_request request = mutex_request("idle");
    hf_lease *lease = take(store, &request);

    nap_ms(locks_db->kind == DB_POSTGRES ? 400 : 1700);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    EXPECT(HF_OK, hf_release(lease, &contract_error));
    close_store(store);
}

static void limits_of_an_operator(void **state)
{
    (void)state;
    if (locks_db->kind == DB_POSTGRES)
        db_do(locks_db, "ALTER ROLE app SET idle_in_transaction_session_timeout = '100ms';"
                        "ALTER ROLE app SET idle_session_timeout = '100ms';"
                        "ALTER ROLE app SET lock_timeout = '100ms'");
    else
        db_do(locks_db, "SET GLOBAL wait_timeout = 1, GLOBAL innodb_lock_wait_timeout = 1,"
                        " GLOBAL idle_transaction_timeout = 1");
    BOTH_MODES(outlives_limits);
    if (locks_db->kind == DB_POSTGRES)
        db_do(locks_db, "ALTER ROLE app RESET ALL");
    else
        db_do(locks_db, "SET GLOBAL wait_timeout = 28800, GLOBAL innodb_lock_wait_timeout = 50,"
                        " GLOBAL idle_transaction_timeout = 0");
}

/* ---- clients ------------------------------------------------------------------------------------------------ */

/* A process that takes the name (or waits for it), says so, and stays. */
static pid_t client(const char *mode, const hf_acquire_request *request, int *ret_fd)
{
    int ends[2];
    char byte;
    pid_t pid;

    CHECK(pipe(ends) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        hf_lease *lease = NULL;
        hf_store *store = NULL;

        close(ends[0]);
        if (locks_try_open(locks_url(mode, ""), &store) != HF_OK)
            _exit(1);
        (void)!write(ends[1], "o", 1);
        if (hf_acquire(store, request, &lease, NULL) != HF_OK)
            _exit(2);
        (void)!write(ends[1], "h", 1);
        for (;;)
            pause();
    }
    close(ends[1]);
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'o');
    *ret_fd = ends[0];
    return pid;
}

static void end_client(pid_t pid, int fd)
{
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
    close(fd);
}

static void dies(const char *mode)
{
    hf_acquire_request request = mutex_request("dies"), wait = waiting_request("dies");
    int fds[2];
    pid_t holder, waiter;
    hf_store *store;
    hf_lease *lease;
    char byte;

    holder = client(mode, &request, &fds[0]);
    CHECK(read(fds[0], &byte, 1) == 1);
    waiter = client(mode, &wait, &fds[1]);
    AWAIT(locks_waiting() == 1);
    store = locks_open(mode, "");
    EXPECT(HF_BUSY, probe(store, &request));
    end_client(waiter, fds[1]); /* the server finds out, or passes it over */
    end_client(holder, fds[0]);
    lease = take(store, &wait);
    give(lease);
    close_store(store);
}

static void client_dies_in_a_transaction(void **state)
{
    (void)state;
    BOTH_MODES(dies);
}

/* ---- servers ------------------------------------------------------------------------------------------------- */

static void is_killed(const char *mode)
{
    hf_store *store = locks_open(mode, ""), *second = locks_open(mode, "");
    hf_acquire_request request = mutex_request("killed"), wait = waiting_request("killed");
    hf_lease *lease = take(store, &request);
    struct attempt attempt;
    hf_status status;

    attempt_start(&attempt, second, &wait);
    AWAIT(locks_waiting() == 1);
    db_kill(locks_db);
    await_lost(lease);
    status = attempt_join(&attempt);
    CHECK(status == HF_UNAVAILABLE);
    EXPECT(HF_UNAVAILABLE, probe(second, &request));
    db_restart(locks_db);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    EXPECT(HF_OK, probe(second, &request));
    EXPECT(HF_OK, probe(store, &wait));
    close_store(second);
    close_store(store);
}

static void server_is_killed(void **state)
{
    (void)state;
    BOTH_MODES(is_killed);
}

/* A server that is stopped keeps its locks, and nobody else can have them: the lease is held. Calls end in time. */
static void is_stopped(const char *mode)
{
    hf_store *store = locks_open(mode, ""), *second = locks_open(mode, "&op_timeout=500ms"),
             *third = locks_open(mode, "&op_timeout=500ms");
    hf_acquire_request request = mutex_request("stopped"), try = mutex_request("stopped-2"),
                       wait = mutex_request("stopped");
    hf_lease *lease = take(store, &request), *none = NULL;
    struct attempt attempt;
    hf_status status;

    wait.wait_ms = HF_FOREVER;
    EXPECT(HF_OK, hf_cancel_open(&wait.cancel));
    EXPECT(HF_OK, probe(second, &try));
    attempt_start(&attempt, third, &wait);
    AWAIT(locks_waiting() == 1);
    db_pause(locks_db);
    status = hf_acquire(second, &try, &none, &contract_error);
    CHECK(status == HF_UNAVAILABLE);
    try.wait_ms = 100;
    status = hf_acquire(second, &try, &none, &contract_error);
    CHECK(status == HF_TIMEOUT || status == HF_UNAVAILABLE);
    EXPECT(HF_OK, hf_cancel_fire(wait.cancel));
    EXPECT(HF_CANCELLED, attempt_join(&attempt)); /* by cutting the connection */
    EXPECT(HF_OK, hf_cancel_close(wait.cancel));
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    db_continue(locks_db);
    EXPECT(HF_BUSY, probe(second, &request));
    EXPECT(HF_OK, hf_release(lease, &contract_error));
    request.wait_ms = LIMIT_MS;
    EXPECT(HF_OK, probe(second, &request));
    try.wait_ms = LIMIT_MS;
    EXPECT(HF_OK, probe(store, &try)); /* nothing of what was cut off has stayed */
    close_store(third);
    close_store(second);
    close_store(store);
}

static void server_is_stopped(void **state)
{
    (void)state;
    BOTH_MODES(is_stopped);
}

/* ---- fences ------------------------------------------------------------------------------------------------- */

#define WORKERS 3

/* A worker that increments a guarded number under the lock, again and again. */
struct worker {
    const char *mode;
    pthread_t thread;
    int done, unknown;
};

static _Atomic bool workers_stop;

static void raise_once(hf_store *store, struct worker *worker)
{
    hf_acquire_request request = mutex_request("fenced");
    hf_lease *lease = NULL;
    void *bytes = NULL;
    size_t len;
    int number = 0;
    hf_status status;

    request.wait_ms = 2000;
    if (hf_acquire(store, &request, &lease, NULL) != HF_OK)
        return;
    status = hf_guard_claim(store, "number", 6, hf_lease_token(lease), &bytes, &len, NULL);
    if (status == HF_OK) {
        if (len == sizeof number)
            memcpy(&number, bytes, len);
        number++;
        hf_free(bytes);
        status =
            hf_guard_set(store, "number", 6, hf_lease_token(lease), &number, sizeof number, NULL);
        worker->done += status == HF_OK;
        worker->unknown += status != HF_OK && status != HF_FENCED;
    }
    hf_release(lease, NULL);
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    hf_store *store = NULL;

    while (!workers_stop)
        if (store || locks_try_open(locks_url(worker->mode, "&tokens=on"), &store) == HF_OK)
            raise_once(store, worker);
    if (store)
        EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
    return NULL;
}

/* Sessions are ended under their holders, so two may be at it at once for a moment: a guarded number loses nothing. */
static void is_fenced(const char *mode)
{
    struct worker workers[WORKERS];
    hf_store *store = locks_open(mode, "&tokens=on");
    hf_acquire_request request = waiting_request("fenced");
    int done = 0, unknown = 0, before = 0, number = 0;
    void *bytes;
    size_t len;
    hf_lease *lease = take(store, &request);

    EXPECT(HF_OK, hf_guard_claim(store, "number", 6, hf_lease_token(lease), &bytes, &len, NULL));
    if (len == sizeof before)
        memcpy(&before, bytes, len);
    hf_free(bytes);
    give(lease);
    close_store(store);
    workers_stop = false;
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){ .mode = mode };
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < 12; i++) {
        nap_ms(60);
        locks_end_sessions();
    }
    nap_ms(100);
    workers_stop = true;
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        done += workers[i].done;
        unknown += workers[i].unknown;
    }
    store = locks_open(mode, "&tokens=on");
    lease = take(store, &request);
    EXPECT(HF_OK, hf_guard_claim(store, "number", 6, hf_lease_token(lease), &bytes, &len, NULL));
    CHECK(len == sizeof number);
    memcpy(&number, bytes, sizeof number);
    hf_free(bytes);
    CHECK(done > 0);
    CHECK(number - before >= done && number - before <= done + unknown);
    give(lease);
    close_store(store);
}

static void tokens_fence(void **state)
{
    (void)state;
    BOTH_MODES(is_fenced);
}

const struct CMUnitTest locks_loss_cases[] = {
    cmocka_unit_test(ended_by_the_administrator),
    cmocka_unit_test(interrupted_by_the_administrator),
    cmocka_unit_test(limits_of_an_operator),
    cmocka_unit_test(client_dies_in_a_transaction),
    cmocka_unit_test(server_is_killed),
    cmocka_unit_test(server_is_stopped),
    cmocka_unit_test(tokens_fence),
};
const size_t locks_loss_count = sizeof locks_loss_cases / sizeof *locks_loss_cases;
