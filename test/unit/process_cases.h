/* SPDX-License-Identifier: MIT */
/* The cases of process.c and process_plain.c. */
#ifndef PROCESS_CASES_H
#define PROCESS_CASES_H

#include "unit.h"

#include "util/process.h"
#include "util/random.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE __attribute__((unused)) static void

/* What a child saw, in memory that it shares with us. */
struct report {
    uint64_t id, random, grandchild;
    int mutex, slot_empty;
};

static inline struct report *share(void)
{
    struct report *report =
        mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(report, MAP_FAILED);
    return report;
}

static inline void collect(pid_t child)
{
    int status = -1;

    assert_int_not_equal(child, -1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* fork() behind the C library's back: no atfork handler runs. */
static inline pid_t raw_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static inline void look(struct report *report)
{
    report->id = hfi_process_id();
    report->random = hfi_random_u64();
    report->slot_empty = *hfi_process_slot() == NULL;
    report->mutex = pthread_mutex_trylock(hfi_process_mutex());
}

static atomic_int gate;

static inline void *ask_id(void *ret_id)
{
    atomic_fetch_sub(&gate, 1);
    while (atomic_load(&gate) > 0)
        sched_yield();
    *(uint64_t *)ret_id = hfi_process_id();
    return NULL;
}

/* Must be the first case: nobody has asked yet, and eight ask at once. */
CASE threads_agree_from_the_first_call(void **state)
{
    pthread_t threads[8];
    uint64_t ids[8];

    (void)state;
    atomic_store(&gate, 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_id, &ids[i]), 0);
    for (size_t i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        assert_true(ids[i] == ids[0] && ids[i] != 0);
    }
}

CASE same_in_one_process(void **state)
{
    uint64_t id = hfi_process_id();

    (void)state;
    assert_true(id != 0);
    for (int i = 0; i < 1000; i++)
        assert_true(hfi_process_id() == id);
}

CASE another_after_fork(void **state)
{
    struct report *report = share();
    uint64_t id = hfi_process_id();
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        look(report);
        _exit(0);
    }
    collect(child);
    assert_true(report->id != 0 && report->id != id);
    assert_true(hfi_process_id() == id);
    munmap(report, sizeof *report);
}

CASE another_after_raw_clone(void **state)
{
    struct report *report = share();
    uint64_t id = hfi_process_id();
    pid_t child = raw_clone();

    (void)state;
    if (child == 0) {
        look(report);
        _exit(0);
    }
    collect(child);
    assert_true(report->id != 0 && report->id != id);
    assert_int_equal(report->mutex, 0);
    assert_true(report->slot_empty);
    munmap(report, sizeof *report);
}

CASE another_in_a_grandchild(void **state)
{
    struct report *report = share();
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        look(report);
        child = fork();
        if (child == 0) {
            report->grandchild = hfi_process_id();
            _exit(0);
        }
        waitpid(child, NULL, 0);
        _exit(hfi_process_id() == report->id ? 0 : 1);
    }
    collect(child);
    assert_true(report->grandchild != 0);
    assert_true(report->grandchild != report->id && report->grandchild != hfi_process_id());
    munmap(report, sizeof *report);
}

/* It borrows our memory until it execs: it is us, and must not disturb us. (ThreadSanitizer makes
 * vfork() a fork(), so there is nothing to see there.) */
CASE same_in_a_vfork_child(void **state)
{
#if defined(__SANITIZE_THREAD__)
    (void)state;
#else
    uint64_t id = hfi_process_id();
    volatile uint64_t seen = 0;
    void *volatile saved_slot = *hfi_process_slot();
    pid_t child;

    (void)state;
    *hfi_process_slot() = &child;
    child = vfork();
    if (child == 0) {
        seen = hfi_process_id();
        _exit(0);
    }
    collect(child);
    assert_true(seen == id);
    assert_true(hfi_process_id() == id);
    assert_ptr_equal(*hfi_process_slot(), &child);
    *hfi_process_slot() = saved_slot;
#endif
}

static inline void *hold_mutex(void *arg)
{
    (void)arg;
    pthread_mutex_lock(hfi_process_mutex());
    atomic_store(&gate, 1);
    while (atomic_load(&gate) != 2)
        sched_yield();
    pthread_mutex_unlock(hfi_process_mutex());
    return NULL;
}

CASE mutex_is_free_in_a_child(void **state)
{
    struct report *report = share();
    pthread_t thread;
    pid_t child;

    (void)state;
    atomic_store(&gate, 0);
    assert_int_equal(pthread_create(&thread, NULL, hold_mutex, NULL), 0);
    while (atomic_load(&gate) != 1)
        sched_yield();

    report->mutex = -1;
    child = fork();
    if (child == 0) {
        look(report);
        _exit(0);
    }
    collect(child);
    assert_int_equal(report->mutex, 0);
    assert_int_not_equal(pthread_mutex_trylock(hfi_process_mutex()), 0);

    atomic_store(&gate, 2);
    pthread_join(thread, NULL);
    munmap(report, sizeof *report);
}

CASE slot_is_empty_in_a_child(void **state)
{
    struct report *report = share();
    pid_t child;

    (void)state;
    *hfi_process_slot() = report;
    child = fork();
    if (child == 0) {
        look(report);
        _exit(0);
    }
    collect(child);
    assert_true(report->slot_empty);
    assert_ptr_equal(*hfi_process_slot(), report);
    *hfi_process_slot() = NULL;
    munmap(report, sizeof *report);
}

/* The pool is full of unused bytes: parent and child would both give out the same. */
static inline void check_random(pid_t (*split)(void))
{
    struct report *report = share();
    uint64_t mine;
    pid_t child;

    (void)hfi_random_u64();
    child = split();
    if (child == 0) {
        look(report);
        _exit(0);
    }
    mine = hfi_random_u64();
    collect(child);
    assert_true(report->random != 0 && report->random != mine);
    munmap(report, sizeof *report);
}

CASE random_differs_after_fork(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        check_random(fork);
}

CASE random_differs_after_raw_clone(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        check_random(raw_clone);
}

#define DRAWS 20000

static inline void *draw_many(void *ret_values)
{
    uint64_t *values = ret_values;

    for (size_t i = 0; i < DRAWS; i++)
        values[i] = hfi_random_u64();
    return NULL;
}

static inline int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* 80,000 numbers of 64 bits: two equal ones are a coincidence once in six billion runs. */
CASE random_never_repeats(void **state)
{
    uint64_t *values = calloc(4 * DRAWS, sizeof *values);
    pthread_t threads[4];

    (void)state;
    assert_non_null(values);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, draw_many, values + i * DRAWS), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);

    qsort(values, 4 * DRAWS, sizeof *values, compare);
    for (size_t i = 1; i < 4 * DRAWS; i++)
        assert_true(values[i - 1] != values[i]);
    free(values);
}

/* Every length: all its bytes are random in some of a few draws, and none beyond is touched. */
CASE random_fills_exactly(void **state)
{
    (void)state;
    for (size_t len = 0; len <= 600; len++) {
        unsigned char bytes[601], seen[601] = { 0 };

        for (int draw = 0; draw < 6; draw++) {
            memset(bytes, 0, sizeof bytes);
            hfi_random_bytes(bytes, len);
            for (size_t i = 0; i < sizeof bytes; i++)
                seen[i] |= bytes[i];
        }
        for (size_t i = 0; i < len; i++)
            assert_int_not_equal(seen[i], 0);
        assert_int_equal(seen[len], 0);
    }
}

/* process.c relies on it: a wiped page holds a mutex that works. */
CASE a_fresh_mutex_is_all_zero(void **state)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    static const unsigned char zero[sizeof fresh];

    (void)state;
    assert_memory_equal(&fresh, zero, sizeof fresh);
}

#endif
