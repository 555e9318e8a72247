/* SPDX-License-Identifier: MIT */
/*
 * A full disk is reported as HF_FULL, and never a SIGBUS; a holder can release its lease all the
 * same, and the death of a process still frees what it had.
 */
#include "embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMES_MAX 60000

/* A file system of our own, as small as the test wants it. Actors inherit it. */
static void small_disk(const char *size)
{
    char options[64];

    need_mounts();
    assert_int_equal(unshare(CLONE_NEWNS), 0);
    snprintf(options, sizeof options, "mode=0700,size=%s", size);
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    assert_int_equal(mkdir(place, 0755), 0);
    assert_int_equal(mount("none", place, "tmpfs", 0, options), 0);
}

static int unmount(void **state)
{
    int rc;

    umount2(place, MNT_DETACH);
    rc = place_teardown(state);
    return rc;
}

/* Put a file there that leaves `free` bytes. */
static void fill_disk(size_t leave)
{
    int fd = open(in_place("ballast"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    static char block[4096];
    off_t size = 0;

    assert_true(fd >= 0);
    memset(block, 1, sizeof block);
    while (write(fd, block, sizeof block) == (ssize_t)sizeof block)
        size += (off_t)sizeof block;
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(ftruncate(fd, size > (off_t)leave ? size - (off_t)leave : 0), 0);
    close(fd);
}

static hf_lease *leases[NAMES_MAX];

/* Take ask.number names until it is full: answer.number of them; answer.status why it ended. */
static void do_take_until_full(struct self *self, const struct ask *ask, struct answer *answer)
{
    for (uint64_t i = 0; i < NAMES_MAX && i < ask->number; i++) {
        hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
        hf_error err;
        char name[NAME_ROOM];

        snprintf(name, sizeof name, "job %llu", (unsigned long long)i);
        request.name = name;
        request.name_len = HF_CSTRING;
        answer->status = hf_acquire(self->store, &request, &leases[i], &err);
        memcpy(answer->text, err.text, sizeof answer->text);
        if (answer->status != HF_OK)
            return;
        answer->number++;
    }
}

/* Release ask.number of them, each HF_OK. */
static void do_release_all(struct self *self, const struct ask *ask, struct answer *answer)
{
    (void)self;
    for (uint64_t i = 0; i < ask->number; i++) {
        hf_error err;

        answer->status = hf_release(leases[i], &err);
        if (answer->status != HF_OK) {
            snprintf(answer->text, sizeof answer->text, "after %llu: %.400s", (unsigned long long)i,
                     err.text);
            return;
        }
    }
}

static void says_full(struct answer answer)
{
    if (answer.status != HF_FULL)
        fail_msg("%s: %s", hf_status_name(answer.status), answer.text);
    print_message("  %s\n", answer.text);
}

/* ---- opening --------------------------------------------------------------------------- */

/* However much is left, opening says FULL or works; what it began does not stop the next. */
static void opening_on_a_full_disk(void **state)
{
    static const size_t left[] = { 0,      1,      4096,    5000,    65536,   200000,
                                   300000, 600000, 3000000, 4000000, 4400000, 4700000 };

    (void)state;
    small_disk("8m");
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        struct actor *actor = actor_start_raw();
        struct answer answer;

        fill_disk(left[i]);
        answer = actor_do(actor, do_open, (struct ask){ 0 });
        if (answer.status == HF_OK)
            take(actor, mutex("n"));
        else
            says_full(answer);
        actor_kill(actor);
        unlink(in_place("ballast"));
    }
    take(actor_start(), mutex("n"));
}

/* ---- acquiring ----------------------------------------------------------------------------- */

static void acquiring_until_full(void **state)
{
    struct actor *holder, *other, *waiter;
    struct answer answer;
    uint64_t taken;

    (void)state;
    small_disk("8m");
    holder = actor_start();
    other = actor_start();
    waiter = actor_start();
    fill_disk(0);
    answer = actor_do(holder, do_take_until_full, (struct ask){ .number = NAMES_MAX });
    says_full(answer);
    taken = (uint64_t)answer.number;
    print_message("  %llu names were taken\n", (unsigned long long)taken);
    assert_true(taken > 1000);
    /* What is held is held, for others too; and the store can be looked at. */
    assert_int_equal(try_it(other, mutex("job 0")), HF_BUSY);
    assert_int_equal(actor_do(other, do_count_holders, mutex("job 17")).number, 1);
    /* Waiting needs room as well: either there is some, or it says so. */
    actor_begin(waiter, do_acquire, mutex("job 0"));
    if (actor_answered_within(waiter, 500)) {
        says_full(actor_answer(waiter));
        waiter = NULL;
    }
    OK(actor_do(holder, do_release_all, (struct ask){ .number = taken }));
    if (waiter)
        granted(waiter);
    assert_int_equal(try_it(other, mutex("job 17")), HF_OK);
    /* And all over again. */
    answer = actor_do(other, do_take_until_full, (struct ask){ .number = taken / 2 });
    if (waiter)
        assert_int_equal(answer.status, HF_BUSY); /* the waiter has the first */
    else
        OK(answer);
}

static void death_on_a_full_disk(void **state)
{
    struct actor *holder, *other, *waiter;
    struct answer answer;

    (void)state;
    small_disk("8m");
    holder = actor_start();
    other = actor_start();
    waiter = actor_start();
    take(other, mutex("other"));
    give(other, 0);
    fill_disk(0);
    take(holder, mutex("n"));
    wait_for(waiter, mutex("n"));
    answer = actor_do(holder, do_take_until_full, (struct ask){ .number = NAMES_MAX });
    says_full(answer);
    actor_kill(holder);
    granted(waiter);
    AWAIT(try_it(other, mutex("job 17")) == HF_OK);
}

/* More processes than there was room for. */
static void processes_on_a_full_disk(void **state)
{
    struct actor *actor;
    struct answer answer = { 0 };
    int opened = 0;

    (void)state;
    small_disk("8m");
    actor_start();
    fill_disk(0);
    while (opened < 200) {
        actor = actor_start_raw();
        answer = actor_do(actor, do_open, (struct ask){ 0 });
        if (answer.status != HF_OK)
            break;
        opened++;
    }
    print_message("  %d processes\n", opened);
    says_full(answer);
    assert_true(opened > 30);
}

/* A rebuild needs a new file: without room for it nothing is granted, but nothing is lost either. */
static void rebuild_on_a_full_disk(void **state)
{
    struct actor *holder, *other;
    static const char zeros[8 * 4096];
    struct ask ask = mutex("free");
    struct answer answer;

    (void)state;
    small_disk("16m");
    holder = actor_start();
    other = actor_start();
    take(holder, mutex("n"));
    fill_disk(0);
    scribble(lease_file(), 0, zeros, sizeof zeros);
    ask.wait_ms = 0;
    answer = actor_do(other, do_acquire, ask);
    assert_int_not_equal(answer.status, HF_OK);
    says_full(answer);
    answer = actor_do(other, do_acquire, ask);
    assert_int_not_equal(answer.status, HF_OK);
    assert_int_equal(actor_do(holder, do_state, lease_number(0)).number, HF_STATE_HELD);
    unlink(in_place("ballast"));
    AWAIT(try_it(other, mutex("free")) == HF_OK);
    assert_int_equal(try_it(other, mutex("n")), HF_BUSY);
    give(holder, 0);
    assert_int_equal(try_it(other, mutex("n")), HF_OK);
}

int main(void)
{
#define DISK(function) cmocka_unit_test_setup_teardown(function, place_setup, unmount)
    const struct CMUnitTest tests[] = {
        DISK(opening_on_a_full_disk),   DISK(acquiring_until_full),   DISK(death_on_a_full_disk),
        DISK(processes_on_a_full_disk), DISK(rebuild_on_a_full_disk),
    };

    return embedded_result(cmocka_run_group_tests_name("full", tests, NULL, NULL));
}
