/* SPDX-License-Identifier: MIT */
/*
 * What outlives processes and machines. All holders die with the machine: a new boot
 * voids every lease. Tokens go on and never go back, whatever was lost of what is
 * not synced. What must be durable and is damaged is an error and never a guess.
 */
#include "embedded.h"

#include "engine/lmdb/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

/* As if the machine had been rebooted. */
static void change_boot_id(void)
{
    static unsigned number;
    char id[40] = { 0 };

    snprintf(id, sizeof id, "00000000-0000-4000-8000-%012u", ++number);
    scribble("control", offsetof(struct lmdb_header, boot_id), id, sizeof id);
}

/* Somebody holds "n" and is gone; the token. */
static uint64_t token_of_the_dead(void)
{
    struct actor *holder = actor_start();
    uint64_t token = take(holder, mutex("n"));

    actor_kill(holder);
    return token;
}

static void new_boot_voids_leases(void **state)
{
    struct actor *holder = actor_start(), *after;
    struct ask detached = mutex("d");
    uint64_t token, last;

    (void)state;
    take(holder, mutex("n"));
    detached.flags = HF_FLAG_DETACHED;
    detached.ttl_ms = 3600 * 1000;
    detached.lease = 1;
    last = take(holder, detached);
    actor_kill(holder);
    change_boot_id();

    after = actor_start();
    assert_int_equal(actor_do(after, do_count_holders, mutex("n")).number, 0);
    assert_int_equal(actor_do(after, do_count_holders, mutex("d")).number, 0);
    token = take(after, mutex("n"));
    assert_true(token > last);
    detached.lease = 2;
    assert_true(take(after, mutex("d")) > token);
}

/* Without a reboot a detached lease lives on. */
static void same_boot_keeps_detached_leases(void **state)
{
    struct actor *holder = actor_start(), *after;
    struct ask detached = mutex("d");

    (void)state;
    detached.flags = HF_FLAG_DETACHED;
    detached.ttl_ms = 3600 * 1000;
    take(holder, detached);
    actor_kill(holder);
    after = actor_start();
    assert_int_equal(try_it(after, mutex("d")), HF_BUSY);
    assert_int_equal(try_it(after, mutex("n")), HF_OK);
}

/* The real thing, as far as a test can go: /proc says another id. */
static void do_see_another_boot(struct self *self, const struct ask *ask, struct answer *answer)
{
    char path[sizeof place + 16];
    FILE *file;

    (void)self, (void)ask;
    snprintf(path, sizeof path, "%s.boot_id", place);
    file = fopen(path, "we");
    answer->status = HF_INTERNAL;
    if (!file)
        return;
    fputs("11111111-2222-4333-8444-555555555555\n", file);
    fclose(file);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(path, "/proc/sys/kernel/random/boot_id", NULL, MS_BIND, NULL) != 0) {
        answer->native = errno;
        return;
    }
    answer->status = HF_OK;
}

static void another_boot_seen_in_proc(void **state)
{
    struct actor *holder, *after;
    struct answer answer;
    uint64_t token;

    (void)state;
    need_mounts();
    holder = actor_start();
    after = actor_start_raw();
    OK(actor_do(after, do_see_another_boot, (struct ask){ 0 }));
    token = take(holder, mutex("n"));
    /* While the old world lives, whatever the reason: nobody is let in. */
    answer = actor_do(after, do_open, (struct ask){ 0 });
    assert_true(answer.status == HF_VERSION || answer.status == HF_CORRUPT);
    assert_int_equal(actor_do(holder, do_state, lease_number(0)).number, HF_STATE_HELD);
    actor_kill(holder);
    OK(actor_do(after, do_open, (struct ask){ 0 }));
    assert_true(take(after, mutex("n")) > token);
}

/* ---- lost files -------------------------------------------------------------------- */

static void lost_files_do_not_turn_tokens_back(void **state)
{
    static const char *const lost[] = { "control", "live",           "init",
                                        "leases",  "control leases", "control leases live init",
                                        "reboot",  "reboot leases" };
    uint64_t last = token_of_the_dead();

    (void)state;
    for (size_t round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
            uint64_t token;

            if (strstr(lost[i], "leases"))
                assert_int_equal(unlink(in_place(lease_file())), 0);
            if (strstr(lost[i], "live"))
                assert_int_equal(unlink(in_place("live")), 0);
            if (strstr(lost[i], "init"))
                assert_int_equal(unlink(in_place("init")), 0);
            if (strstr(lost[i], "reboot"))
                change_boot_id();
            if (strstr(lost[i], "control"))
                assert_int_equal(unlink(in_place("control")), 0);
            token = token_of_the_dead();
            if (token <= last)
                fail_msg("after the loss of '%s': token %llu after %llu", lost[i],
                         (unsigned long long)token, (unsigned long long)last);
            last = token;
        }
}

/* Busy, once the holder has registered what it holds. */
static bool is_busy(struct actor *actor, struct ask ask)
{
    hf_status status = try_it(actor, ask);

    assert_true(status == HF_BUSY || status == HF_UNAVAILABLE);
    return status == HF_BUSY;
}

/* The lease file is deleted while its holder lives and has it mapped: the holder keeps its
 * lease. */
static void lease_file_deleted_under_a_holder(void **state)
{
    struct actor *holder = actor_start(), *other = actor_start();
    uint64_t token = take(holder, mutex("n"));

    (void)state;
    assert_int_equal(unlink(in_place(lease_file())), 0);

    struct actor *newcomer = actor_start();

    AWAIT(is_busy(newcomer, mutex("n")));
    AWAIT(is_busy(other, mutex("n")));
    give(holder, 0);
    assert_true(take(newcomer, mutex("n")) > token);
}

/* ---- kill -9 at any instant ------------------------------------------------------------ */

static void do_hammer(struct self *self, const struct ask *ask, struct answer *answer)
{
    struct answer ignored;

    (void)answer;
    for (;;) {
        do_acquire(self, ask, &ignored);
        do_release(self, ask, &ignored);
    }
}

static void tokens_after_kills(void **state)
{
    enum { KILLS = 150 };
    struct actor *watcher = actor_start();
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < KILLS; i++) {
        struct actor *victim = actor_start();
        uint64_t token;

        actor_begin(victim, do_hammer, mutex("n"));
        usleep((useconds_t)(i * 31 % 1500));
        actor_kill(victim);
        token = take(watcher, mutex("n"));
        assert_true(token > last);
        last = token;
        give(watcher, 0);
    }
}

/* ---- the durable file ---------------------------------------------------------------------- */

static void other_version(uint32_t format, hf_status want)
{
    struct answer answer;

    token_of_the_dead();
    scribble("store", offsetof(struct lmdb_store_file, format), &format, sizeof format);
    answer = actor_do(actor_start_raw(), do_open, (struct ask){ 0 });
    assert_int_equal(answer.status, want);
    assert_true(strlen(answer.text) > 0);
    print_message("  %s\n", answer.text);
}

static void newer_version(void **state)
{
    (void)state;
    other_version(LMDB_FORMAT + 1, HF_VERSION);
    assert_true(file_exists("store"));
}

/* The control file of another build, say of a newer version, that somebody uses. */
static void control_of_another_version(void **state)
{
    struct actor *holder = actor_start(), *other = actor_start_raw();
    uint32_t format = LMDB_CONTROL_FORMAT + 1;
    uint64_t token = take(holder, mutex("n"));
    struct answer answer;
    char pid[32];

    (void)state;
    scribble("control", offsetof(struct lmdb_header, format), &format, sizeof format);
    answer = actor_do(other, do_open, (struct ask){ 0 });
    assert_int_equal(answer.status, HF_VERSION);
    snprintf(pid, sizeof pid, "%d", (int)holder->pid);
    assert_non_null(strstr(answer.text, pid));
    actor_kill(holder);
    OK(actor_do(other, do_open, (struct ask){ 0 }));
    assert_true(take(other, mutex("n")) > token);
}

static void damage_mark(bool first, bool second)
{
    struct lmdb_mark garbage;

    memset(&garbage, 0x5a, sizeof garbage);
    if (first)
        scribble("store", offsetof(struct lmdb_store_file, first), &garbage, sizeof garbage);
    if (second)
        scribble("store", offsetof(struct lmdb_store_file, second), &garbage, sizeof garbage);
}

/* Two copies are written in turn; a torn one leaves the other. */
static void one_copy_of_the_mark_is_torn(void **state)
{
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < 6; i++) {
        uint64_t token = token_of_the_dead();
        struct lmdb_store_file file;
        FILE *store;
        bool first;

        assert_true(token > last);
        last = token;
        store = fopen(in_place("store"), "re");
        assert_non_null(store);
        assert_int_equal(fread(&file, sizeof file, 1, store), 1);
        fclose(store);
        /* A power cut tears the copy being written: the older one. */
        first = file.first.sequence < file.second.sequence;
        damage_mark(first, !first);
        change_boot_id();
    }
}

static void both_copies_are_damaged(void **state)
{
    struct answer answer;

    (void)state;
    token_of_the_dead();
    damage_mark(true, true);
    answer = actor_do(actor_start_raw(), do_open, (struct ask){ 0 });
    assert_int_equal(answer.status, HF_CORRUPT);
    assert_non_null(strstr(answer.text, "store"));
    print_message("  %s\n", answer.text);
}

static void store_file_is_something_else(void **state)
{
    struct actor *actor = actor_start_raw();

    (void)state;
    token_of_the_dead();
    assert_int_equal(truncate(in_place("store"), 100), 0);
    assert_int_equal(actor_do(actor, do_open, (struct ask){ 0 }).status, HF_CORRUPT);
    scribble("store", 0, "this is not a store, and long enough to be one................", 60);
    assert_int_equal(truncate(in_place("store"), sizeof(struct lmdb_store_file)), 0);
    assert_int_equal(actor_do(actor, do_open, (struct ask){ 0 }).status, HF_CORRUPT);
}

/* ---- the control file, while somebody lives in it -------------------------------------------- */

static void control_lost_while_somebody_lives(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct actor *holder = actor_start(), *newcomer = actor_start_raw();
        uint64_t token = take(holder, mutex("n"));
        struct answer answer;
        char pid[32];

        if (i == 0)
            assert_int_equal(unlink(in_place("control")), 0);
        else if (i == 1)
            scribble("control", 0, "rubbish!", 8);
        else
            scribble("control", offsetof(struct lmdb_header, boot_id), "rubbish!", 8);
        answer = actor_do(newcomer, do_open, (struct ask){ 0 });
        assert_true(answer.status == HF_CORRUPT || answer.status == HF_VERSION);
        snprintf(pid, sizeof pid, "%d", (int)holder->pid);
        assert_non_null(strstr(answer.text, pid));
        assert_int_equal(actor_do(holder, do_state, lease_number(0)).number, HF_STATE_HELD);
        /* When it is gone, everything is created again. */
        actor_kill(holder);
        OK(actor_do(newcomer, do_open, (struct ask){ 0 }));
        assert_true(take(newcomer, mutex("n")) > token);
        actor_quit(newcomer);
    }
}

/* `live` shows which processes live. If it is replaced that is not known: then no process can open
 * the store. */
static void live_replaced_while_somebody_lives(void **state)
{
    struct actor *holder = actor_start(), *newcomer = actor_start_raw();
    uint64_t token = take(holder, mutex("n"));
    struct answer answer;

    (void)state;
    assert_int_equal(unlink(in_place("live")), 0);
    answer = actor_do(newcomer, do_open, (struct ask){ 0 });
    assert_int_equal(answer.status, HF_CORRUPT);
    print_message("  %s\n", answer.text);
    actor_kill(holder);
    OK(actor_do(newcomer, do_open, (struct ask){ 0 }));
    assert_true(take(newcomer, mutex("n")) > token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(new_boot_voids_leases),
        TEST(same_boot_keeps_detached_leases),
        TEST(another_boot_seen_in_proc),
        TEST(lost_files_do_not_turn_tokens_back),
        TEST(lease_file_deleted_under_a_holder),
        TEST(tokens_after_kills),
        TEST(newer_version),
        TEST(control_of_another_version),
        TEST(one_copy_of_the_mark_is_torn),
        TEST(both_copies_are_damaged),
        TEST(store_file_is_something_else),
        TEST(control_lost_while_somebody_lives),
        TEST(live_replaced_while_somebody_lives),
    };

    return embedded_result(cmocka_run_group_tests_name("reboot", tests, NULL, NULL));
}
