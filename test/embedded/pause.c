/* SPDX-License-Identifier: MIT */
/*
 * A stopped process keeps what it holds, unless it asked for a ttl; then it is the token
 * that protects. A process stopped in the middle of a transaction does not hang the others.
 */
#include "embedded.h"

#include "engine/lmdb/layout.h"
#include "holdfast/primitives.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TTL_MS 2000

/* ---- stopped holders ---------------------------------------------------------------- */

static void stopped_holder_keeps(void **state)
{
    struct actor *holder = actor_start(), *waiter = actor_start(), *late = actor_start();

    (void)state;
    take(holder, mutex("n"));
    wait_for(waiter, mutex("n"));
    actor_stop(holder);
    assert_false(actor_answered_within(waiter, 3 * HEARTBEAT_MS));
    assert_int_equal(try_it(late, mutex("n")), HF_BUSY);
    actor_continue(holder);
    assert_int_equal(actor_do(holder, do_state, lease_number(0)).number, HF_STATE_HELD);
    give(holder, 0);
    granted(waiter);
}

static struct ask with_ttl(struct ask ask)
{
    ask.ttl_ms = TTL_MS;
    return ask;
}

/* The new token is larger: a resource that looks at tokens refuses the old holder. */
static void stopped_holder_with_ttl_is_fenced(void **state)
{
    struct actor *holder = actor_start(), *waiter = actor_start();
    uint64_t old = take(holder, with_ttl(mutex("n"))), new;

    (void)state;
    wait_for(waiter, mutex("n"));
    actor_stop(holder);
    new = granted(waiter);
    assert_true(new > old);
    actor_continue(holder);
    AWAIT(actor_do(holder, do_state, lease_number(0)).number == HF_STATE_LOST);
    assert_int_equal(actor_do(holder, do_release, lease_number(0)).status, HF_LOST);
    assert_int_equal(actor_do(waiter, do_state, lease_number(0)).number, HF_STATE_HELD);
    assert_int_equal(holders_of("n"), 1);
}

/* It is renewed while its process runs: the ttl alone ends nothing. */
static void running_holder_with_ttl_keeps(void **state)
{
    struct actor *holder = actor_start(), *waiter = actor_start();

    (void)state;
    take(holder, with_ttl(mutex("n")));
    wait_for(waiter, mutex("n"));
    assert_false(actor_answered_within(waiter, 3 * TTL_MS));
    assert_int_equal(actor_do(holder, do_state, lease_number(0)).number, HF_STATE_HELD);
    give(holder, 0);
    granted(waiter);
}

/* A waiter does not know the ttl of the waiter ahead before that one holds. */
static void expiry_of_a_holder_from_the_queue(void **state)
{
    struct actor *holder = actor_start(), *first = actor_start(), *second = actor_start();

    (void)state;
    take(holder, mutex("n"));
    wait_for(first, with_ttl(mutex("n")));
    wait_for(second, mutex("n"));
    observer_quit();
    actor_stop(first);
    give(holder, 0);
    actor_quit(holder);
    granted(second);
    actor_continue(first);
    assert_int_equal(actor_answer(first).status,
                     HF_TOO_SHORT); /* it had been granted, and was over */
    assert_int_equal(actor_do(second, do_state, lease_number(0)).number, HF_STATE_HELD);
    assert_int_equal(holders_of("n"), 1);
}

/* The same among readers: the one with the ttl came in from the queue while others still hold. */
static void expiry_of_one_of_several(void **state)
{
    struct actor *a = actor_start(), *b = actor_start(), *first = actor_start(),
                 *second = actor_start();
    struct ask one = permits_of("s", 2, 1), two = permits_of("s", 2, 2);

    (void)state;
    take(a, one);
    take(b, one);
    wait_for(first, with_ttl(one));
    wait_for(second, two);
    actor_stop(first);
    give(a, 0);
    give(b, 0);
    observer_quit();
    granted(second);
}

/* A renewal may also shorten: a waiter wakes for the new end. */
static void expiry_after_a_shorter_renewal(void **state)
{
    struct actor *holder = actor_start(), *waiter = actor_start();
    struct ask ask = mutex("n");

    (void)state;
    ask.ttl_ms = 3600 * 1000;
    ask.flags = HF_FLAG_NO_RENEW;
    take(holder, ask);
    wait_for(waiter, mutex("n"));
    ask.ttl_ms = TTL_MS;
    OK(actor_do(holder, do_renew, ask));
    actor_stop(holder);
    granted(waiter);
}

static void lock_delay_after_a_death(void **state)
{
    struct actor *holder = actor_start(), *waiter = actor_start(), *late = actor_start();
    struct ask ask = mutex("n");
    int64_t killed_ns;

    (void)state;
    ask.lock_delay_ms = 3000;
    take(holder, ask);
    wait_for(waiter, mutex("n"));
    observer_quit();
    killed_ns = now_ns();
    actor_kill(holder);
    assert_int_equal(try_it(late, mutex("n")), HF_BUSY);

    struct answer answer = actor_answer(waiter);

    OK(answer);
    assert_true(answer.done_ns - killed_ns >= INT64_C(2990) * 1000000);
}

static void lock_delay_after_a_break(void **state)
{
    struct actor *holder = actor_start(), *waiter = actor_start();
    struct ask ask = mutex("n");
    int64_t broken_ns;

    (void)state;
    ask.lock_delay_ms = 2000;
    ask.token = take(holder, ask);
    wait_for(waiter, mutex("n"));
    broken_ns = now_ns();
    OK(actor_do(observer(), do_break, ask));
    observer_quit();
    AWAIT(actor_do(holder, do_state, lease_number(0)).number == HF_STATE_LOST);

    struct answer answer = actor_answer(waiter);

    OK(answer);
    assert_true(answer.done_ns - broken_ns >= INT64_C(1990) * 1000000);
}

/* ---- stopped inside a transaction ----------------------------------------------------------- */

/* Take the mutexes of all transactions, as a process does that is stopped right after that. */
static void do_sit_in_transaction(struct self *self, const struct ask *ask, struct answer *answer)
{
    int fd = open(in_place("control"), O_RDWR | O_CLOEXEC);
    struct lmdb_header *header = mmap(NULL, LMDB_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    (void)self, (void)ask;
    close(fd);
    answer->status = HF_INTERNAL;
    if (header == MAP_FAILED || pthread_mutex_lock(&header->mutex) != 0 ||
        pthread_mutex_lock(&header->cells_mutex) != 0)
        return;
    atomic_store(&header->lock_pid, getpid());
    atomic_store(&header->cells_pid, getpid());
    answer->status = HF_OK;
}

static void do_leave_transaction(struct self *self, const struct ask *ask, struct answer *answer)
{
    int fd = open(in_place("control"), O_RDWR | O_CLOEXEC);
    struct lmdb_header *header = mmap(NULL, LMDB_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    (void)self, (void)ask;
    close(fd);
    answer->status = header != MAP_FAILED && pthread_mutex_unlock(&header->mutex) == 0 &&
                             pthread_mutex_unlock(&header->cells_mutex) == 0
                         ? HF_OK
                         : HF_INTERNAL;
}

static void names_pid(struct answer answer, pid_t pid)
{
    char text[32];

    assert_int_equal(answer.status, HF_UNAVAILABLE);
    snprintf(text, sizeof text, "process %d ", (int)pid);
    if (!strstr(answer.text, text))
        fail_msg("'%s' does not name process %d", answer.text, (int)pid);
}

static struct ask try_mutex(const char *name)
{
    struct ask ask = mutex(name);

    ask.wait_ms = 0;
    return ask;
}

static void stuck_transaction(bool by_kill)
{
    struct actor *stuck, *other, *waiter, *holder;

    strcat(place_url, "?lock_wait=500ms");
    stuck = actor_start();
    other = actor_start();
    waiter = actor_start();
    holder = actor_start();
    take(holder, mutex("held"));
    wait_for(waiter, mutex("held"));
    OK(actor_do(stuck, do_sit_in_transaction, (struct ask){ 0 }));
    actor_stop(stuck);

    names_pid(actor_do(other, do_acquire, try_mutex("n")), stuck->pid);
    names_pid(actor_do(other, do_acquire, try_mutex("n")), stuck->pid);
    assert_int_equal(actor_do(other, do_count_waiters, mutex("n")).status, HF_UNAVAILABLE);
    /* Released as far as the caller is concerned: the library goes on trying. */
    assert_int_equal(actor_do(holder, do_release, lease_number(0)).status, HF_UNAVAILABLE);
    assert_false(actor_answered(waiter));

    if (by_kill) {
        actor_kill(stuck);
    } else {
        actor_continue(stuck);
        OK(actor_do(stuck, do_leave_transaction, (struct ask){ 0 }));
    }
    granted(waiter);
    AWAIT(actor_do(other, do_acquire, try_mutex("n")).status == HF_OK);
}

static void stuck_transaction_goes_on(void **state)
{
    (void)state;
    stuck_transaction(false);
}

static void stuck_transaction_is_killed(void **state)
{
    (void)state;
    stuck_transaction(true);
}

/* ---- ... and an event loop ---------------------------------------------------------------------- */

/* What an actor has under way in the asynchronous forms. */
enum { FREE, BRIEF, STOPPED, GIVEN, AGAIN, LOOKED, CELL, LEFT, OPS };
static struct {
    hf_op *op;
    hf_status status;
    bool done;
    unsigned nth; /* which of them was done first, second ... */
} under_way[OPS];
static unsigned done_count;
static hf_lease *kept;

static void noted(const hf_result *result, void *arg)
{
    int which = (int)(intptr_t)arg;

    under_way[which].status = result->status;
    under_way[which].done = true;
    under_way[which].nth = ++done_count;
}

static void *as_arg(int which)
{
    return (void *)(intptr_t)which; /* NOLINT */
}

static hf_status begin_acquire(struct self *self, int which, const char *name, int64_t wait_ms)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = name;
    request.name_len = HF_CSTRING;
    request.wait_ms = wait_ms;
    return hf_acquire_async(self->store, &request, noted, as_arg(which), &under_way[which].op,
                            NULL);
}

/* Before anything is stuck: it holds "kept", and waits for "held". */
static void do_prepare_loop(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    (void)ask;
    request.name = "kept";
    request.name_len = HF_CSTRING;
    answer->status = hf_acquire(self->store, &request, &kept, NULL);
    if (answer->status == HF_OK)
        answer->status = begin_acquire(self, LEFT, "held", HF_FOREVER);
}

/* One call of each sort, as a loop would make it; answer.number: what they took together, in milliseconds. */
static void do_begin_all(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_cell_request swap = HF_CELL_REQUEST_INIT;
    hf_status status;
    int64_t begin_ms = now_ms();

    (void)ask;
    swap.name = "cell";
    swap.name_len = HF_CSTRING;
    swap.bytes = "v";
    swap.len = 1;
    status = begin_acquire(self, FREE, "free", 0);
    if (status == HF_OK)
        status = begin_acquire(self, BRIEF, "brief", 200);
    if (status == HF_OK)
        status = begin_acquire(self, STOPPED, "stopped", HF_FOREVER);
    if (status == HF_OK)
        status = hf_op_cancel(under_way[STOPPED].op);
    if (status == HF_OK)
        status = hf_release_async(kept, noted, as_arg(GIVEN), NULL, NULL);
    if (status == HF_OK)
        status = begin_acquire(self, AGAIN, "kept", 0);
    if (status == HF_OK)
        status = hf_store_inspect_async(self->store, "held", HF_CSTRING, 0, noted, as_arg(LOOKED),
                                        NULL, NULL);
    if (status == HF_OK)
        status = hf_cell_swap_async(self->store, &swap, noted, as_arg(CELL), NULL, NULL);
    if (status == HF_OK)
        status = hf_op_cancel(under_way[LEFT].op);
    (void)hf_store_process(self->store);
    answer->number = now_ms() - begin_ms;
    answer->status = status;
}

/* Drive the loop until the call ask.number is done, or for a moment. answer: its status, and as which it was done. */
static void do_drive(struct self *self, const struct ask *ask, struct answer *answer)
{
    struct pollfd ready = { .fd = hf_store_fd(self->store), .events = POLLIN };
    const int which = (int)ask->number;

    if (!under_way[which].done)
        (void)poll(&ready, 1, 100);
    (void)hf_store_process(self->store);
    answer->status = under_way[which].done ? under_way[which].status : HF_BUSY;
    answer->number = under_way[which].nth;
}

static struct answer driven(struct actor *actor, int which)
{
    struct ask ask = { .number = (uint64_t)which };
    struct answer answer;

    AWAIT((answer = actor_do(actor, do_drive, ask)).number > 0);
    return answer;
}

/* No call of the asynchronous forms waits for a process that is stopped in a transaction: the thread of an event loop goes on. What
 * is under way ends when it can, a release before the acquire that was begun after it. */
static void loop_beside_a_stuck_transaction(void **state)
{
    struct actor *stuck, *loop, *holder;
    struct answer given;

    (void)state;
    strcat(place_url, "?lock_wait=30s");
    stuck = actor_start();
    holder = actor_start();
    loop = actor_start();
    take(holder, mutex("held"));
    OK(actor_do(loop, do_prepare_loop, (struct ask){ 0 }));
    OK(actor_do(stuck, do_sit_in_transaction, (struct ask){ 0 }));
    actor_stop(stuck);

    struct answer begun = actor_do(loop, do_begin_all, (struct ask){ 0 });

    OK(begun);
    if (begun.number >= 15000)
        fail_msg("the loop stood still for %lld ms", (long long)begun.number);
    assert_int_equal(driven(loop, FREE).status, HF_UNAVAILABLE); /* a try does not wait for it */
    assert_int_equal(driven(loop, STOPPED).status, HF_CANCELLED);
    assert_int_equal(driven(loop, BRIEF).status, HF_TIMEOUT);

    actor_continue(stuck);
    OK(actor_do(stuck, do_leave_transaction, (struct ask){ 0 }));
    given = driven(loop, GIVEN);
    assert_int_equal(given.status, HF_OK);
    assert_int_equal(driven(loop, AGAIN).status, HF_OK);
    assert_true(driven(loop, AGAIN).number > given.number);
    assert_int_equal(driven(loop, LOOKED).status, HF_OK);
    assert_int_equal(driven(loop, CELL).status, HF_OK);
    assert_int_equal(driven(loop, LEFT).status, HF_CANCELLED);
}

/* A try of a free name does not wait for as long as lock_wait, if the process in its way is stopped. */
static void try_beside_a_stuck_transaction(void **state)
{
    struct actor *stuck, *other;
    int64_t begin_ms;

    (void)state;
    strcat(place_url, "?lock_wait=30s");
    stuck = actor_start();
    other = actor_start();
    OK(actor_do(stuck, do_sit_in_transaction, (struct ask){ 0 }));
    actor_stop(stuck);
    begin_ms = now_ms();
    names_pid(actor_do(other, do_acquire, try_mutex("n")), stuck->pid);
    assert_true(now_ms() - begin_ms < 15000);
    actor_kill(stuck);
}

/* Opening is also bounded. */
static void opening_behind_a_stuck_transaction(void **state)
{
    struct actor *stuck, *newcomer;

    (void)state;
    strcat(place_url, "?lock_wait=500ms");
    stuck = actor_start();
    newcomer = actor_start_raw();
    OK(actor_do(stuck, do_sit_in_transaction, (struct ask){ 0 }));
    actor_stop(stuck);
    names_pid(actor_do(newcomer, do_open, (struct ask){ .wait_ms = 1000 }), stuck->pid);
    actor_kill(stuck);
    OK(actor_do(newcomer, do_open, (struct ask){ 0 }));
}

/* ---- stopped anywhere ------------------------------------------------------------------------- */

static void do_hammer(struct self *self, const struct ask *ask, struct answer *answer)
{
    struct ask own = *ask;
    struct answer ignored;

    (void)answer;
    for (;;) {
        do_acquire(self, &own, &ignored);
        if (ignored.status == HF_OK)
            do_release(self, &own, &ignored);
    }
}

/* Wherever it was stopped, others work, or are told; and all goes on when it does. */
static void stopped_at_any_instant(void **state)
{
    enum { STOPS = 60 };
    struct actor *hammer, *other;
    int unavailable = 0;

    (void)state;
    strcat(place_url, "?lock_wait=100ms");
    hammer = actor_start();
    other = actor_start();
    actor_begin(hammer, do_hammer, mutex("n"));
    for (int i = 0; i < STOPS; i++) {
        struct answer answer;

        usleep((useconds_t)(i * 37 % 1000));
        actor_stop(hammer);
        answer = actor_do(other, do_acquire, try_mutex("other"));
        if (answer.status == HF_OK) {
            OK(actor_do(other, do_release, lease_number(0)));
        } else {
            names_pid(answer, hammer->pid);
            unavailable++;
        }
        actor_continue(hammer);
        /* Until it has run again others may still be told that it is in their way. */
        AWAIT(actor_do(other, do_acquire, mutex("other")).status == HF_OK);
        OK(actor_do(other, do_release, lease_number(0)));
    }
    print_message("stopped %d times, %d of them inside a transaction\n", STOPS, unavailable);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stopped_holder_keeps),
        TEST(stopped_holder_with_ttl_is_fenced),
        TEST(running_holder_with_ttl_keeps),
        TEST(expiry_of_a_holder_from_the_queue),
        TEST(expiry_of_one_of_several),
        TEST(expiry_after_a_shorter_renewal),
        TEST(lock_delay_after_a_death),
        TEST(lock_delay_after_a_break),
        TEST(stuck_transaction_goes_on),
        TEST(stuck_transaction_is_killed),
        TEST(loop_beside_a_stuck_transaction),
        TEST(try_beside_a_stuck_transaction),
        TEST(opening_behind_a_stuck_transaction),
        TEST(stopped_at_any_instant),
    };

    return cmocka_run_group_tests_name("pause", tests, NULL, NULL);
}
