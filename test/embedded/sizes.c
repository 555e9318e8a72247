/* SPDX-License-Identifier: MIT */
/*
 * A size that was set outlives what is not durable: the processes, the boot, the lease file. Numbers of slots outlive the
 * lease file with their leases.
 */
#include "embedded.h"

#include "engine/lmdb/layout.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void change_boot_id(void)
{
    static unsigned number;
    char id[40] = { 0 };

    snprintf(id, sizeof id, "00000000-0000-4000-8000-%012u", ++number);
    scribble("control", offsetof(struct lmdb_header, boot_id), id, sizeof id);
}

static void zero_lease_file(void)
{
    unsigned char *zeros = calloc(14, LMDB_PAGE);

    assert_non_null(zeros);
    scribble(lease_file(), 0, zeros, (size_t)14 * LMDB_PAGE);
    free(zeros);
}

static int64_t size_of(struct actor *actor, const char *name)
{
    struct answer answer = actor_do(actor, do_size, mutex(name));

    OK(answer);
    return answer.number;
}

static void resize(struct actor *actor, const char *name, uint32_t capacity)
{
    OK(actor_do(actor, do_resize, permits_of(name, capacity, 1)));
}

static off_t sizes_length(void)
{
    struct stat st;

    assert_int_equal(stat(in_place("sizes"), &st), 0);
    return st.st_size;
}

static void outlives_the_boot(void **state)
{
    struct actor *actor = actor_start();
    off_t length;

    (void)state;
    resize(actor, "a", 3);
    resize(actor, "b", 5);
    resize(actor, "gone", 7);
    resize(actor, "gone", 0);
    length = sizes_length();
    resize(actor, "b", 5); /* as it is: nothing is written */
    assert_int_equal(sizes_length(), length);
    actor_kill(actor);
    change_boot_id();

    actor = actor_start();
    assert_int_equal(size_of(actor, "a"), 3);
    assert_int_equal(size_of(actor, "b"), 5);
    assert_int_equal(size_of(actor, "gone"), 0);
    assert_int_equal(try_it(actor, mutex("a")), HF_MISMATCH);
    assert_int_equal(try_it(actor, mutex("gone")), HF_OK);
    actor_quit(actor);
    actor = actor_start();
    assert_int_equal(size_of(actor, "a"), 3);
}

/* Each of them. */
static void many_sizes(void **state)
{
    struct actor *actor = actor_start();
    char name[32];

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "name-%u", i);
        resize(actor, name, i + 1);
    }
    actor_quit(actor);
    change_boot_id();
    actor = actor_start();
    for (unsigned i = 0; i < 300; i += 13) {
        snprintf(name, sizeof name, "name-%u", i);
        assert_int_equal(size_of(actor, name), i + 1);
    }
}

/* The lease file is damaged: sizes, leases and their numbers stay. */
static void outlives_the_lease_file(void **state)
{
    struct actor *one = actor_start(), *two = actor_start(), *three = actor_start();
    struct ask ask = permits_of("s", 9, 1);

    (void)state;
    ask.flags = HF_FLAG_NUMBERED;
    resize(one, "s", 3);
    resize(one, "free", 4);
    take(one, ask);
    take(two, ask);
    take(three, ask);
    assert_int_equal(actor_do(two, do_slot, lease_number(0)).number, 1);
    zero_lease_file();
    assert_int_equal(size_of(one, "s"), 3);
    assert_int_equal(size_of(two, "free"), 4);
    give(two, 0);
    ask.wait_ms = LIMIT_MS; /* until all have registered */
    ask.lease = 1;
    take(three, ask);
    assert_int_equal(actor_do(three, do_slot, lease_number(1)).number, 1); /* 0 and 2 are held */
    assert_int_equal(try_it(two, permits_of("s", 9, 1)), HF_BUSY);
    give(one, 0);
    ask.lease = 0;
    take(two, ask);
    assert_int_equal(actor_do(two, do_slot, lease_number(0)).number, 0);
}

/* A record that was not written to its end counts for nothing, and the next one takes its place. */
static void torn_record(void **state)
{
    struct actor *actor = actor_start();
    off_t length;

    (void)state;
    resize(actor, "a", 3);
    length = sizes_length();
    resize(actor, "a", 4);
    actor_kill(actor);
    assert_int_equal(truncate(in_place("sizes"), sizes_length() - 1), 0);
    change_boot_id();
    actor = actor_start();
    assert_int_equal(size_of(actor, "a"), 3);
    resize(actor, "a", 5);
    assert_int_equal(sizes_length(), 2 * length);
    actor_kill(actor);
    change_boot_id();
    assert_int_equal(size_of(actor_start(), "a"), 5);
}

/* Damage in the middle is an error, and not a guess. */
static void damaged(void **state)
{
    struct actor *actor = actor_start();
    struct answer answer;

    (void)state;
    resize(actor, "a", 3);
    resize(actor, "b", 4);
    actor_kill(actor);
    scribble("sizes", 4, "\x07", 1);
    change_boot_id();
    actor = actor_start_raw();
    answer = actor_do(actor, do_open, mutex(""));
    assert_int_equal(answer.status, HF_CORRUPT);
    assert_non_null(strstr(answer.text, "sizes"));
}

/* An older version would not see the size: the durable file says so from the first size on. */
static void format_tells(void **state)
{
    struct actor *actor = actor_start();
    struct lmdb_store_file file;
    int fd = open(in_place("store"), O_RDONLY | O_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &file, sizeof file, 0), sizeof file);
    assert_int_equal(file.format, LMDB_FORMAT_FIRST);
    resize(actor, "a", 3);
    assert_int_equal(pread(fd, &file, sizeof file, 0), sizeof file);
    assert_int_equal(file.format, LMDB_FORMAT);
    close(fd);
    actor_quit(actor);
    assert_int_equal(size_of(actor_start(), "a"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(outlives_the_boot), TEST(many_sizes), TEST(outlives_the_lease_file),
        TEST(torn_record),       TEST(damaged),    TEST(format_tells),
    };

    return embedded_result(cmocka_run_group_tests_name("sizes", tests, NULL, NULL));
}
