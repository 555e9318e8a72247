/* SPDX-License-Identifier: MIT */
/*
 * The lease file is damaged while processes hold and wait. It is rebuilt from what the live
 * processes know: holders keep their leases, nobody else gets them, waiters keep their places, and
 * nothing is granted before every process that had records has registered or is dead.
 */
#include "embedded.h"

#include "engine/lmdb/layout.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- kinds of damage --------------------------------------------------------------- */

static unsigned seed;

static void fill(off_t from, size_t len, bool garbage)
{
    unsigned char *bytes = malloc(len);

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = garbage ? (unsigned char)rand_r(&seed) : 0;
    scribble(lease_file(), from, bytes, len);
    free(bytes);
}

/* LMDB keeps two pages that say where all is; data follows. A small store uses some ten pages. */
#define DATA (2 * LMDB_PAGE)
#define USED (14 * LMDB_PAGE)

static void zero_all(void)
{
    fill(0, USED, false);
}

static void garbage_all(void)
{
    fill(0, USED, true);
}

static void zero_meta(void)
{
    fill(0, DATA, false);
}

static void garbage_meta(void)
{
    fill(0, DATA, true);
}

static void zero_data(void)
{
    fill(DATA, USED, false);
}

static void garbage_data(void)
{
    fill(DATA, USED, true);
}

/* Page headers stay: LMDB walks into pages whose offsets are nonsense. */
static void garbage_in_pages(void)
{
    for (off_t page = DATA; page < USED; page += LMDB_PAGE)
        fill(page + 16, LMDB_PAGE - 16, true);
}

static void garbage_offsets(void)
{
    for (off_t page = DATA; page < USED; page += LMDB_PAGE)
        fill(page + 16, 8, true);
}

static void zero_tail_of_pages(void)
{
    for (off_t page = DATA; page < USED; page += LMDB_PAGE)
        fill(page + 64, LMDB_PAGE - 64, false);
}

/* One bit in twenty places. */
static void flipped_bits(void)
{
    int fd = open(in_place(lease_file()), O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    for (int i = 0; i < 20; i++) {
        off_t at = DATA + rand_r(&seed) % (USED - DATA);
        unsigned char byte;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte = (unsigned char)(byte ^ 1u << rand_r(&seed) % 8);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
}

/* In both of LMDB's first pages: the last page in use, behind the end of the file. */
static void pages_beyond_the_end(void)
{
    enum { LAST_PAGE = 136 };
    uint64_t number = UINT64_C(1) << 50;

    scribble(lease_file(), LAST_PAGE, &number, sizeof number);
    scribble(lease_file(), LMDB_PAGE + LAST_PAGE, &number, sizeof number);
}

static void deleted(void)
{
    assert_int_equal(unlink(in_place(lease_file())), 0);
}

static const struct {
    const char *name;
    void (*damage)(void);
} kinds[] = {
    { "zero_all", zero_all },           { "garbage_all", garbage_all },
    { "zero_meta", zero_meta },         { "garbage_meta", garbage_meta },
    { "zero_data", zero_data },         { "garbage_data", garbage_data },
    { "in_pages", garbage_in_pages },   { "offsets", garbage_offsets },
    { "tails", zero_tail_of_pages },    { "bits", flipped_bits },
    { "beyond", pages_beyond_the_end }, { "deleted", deleted },
};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* ---- living holders and waiters ------------------------------------------------------- */

/* Never a grant of what somebody holds; "not now" is as good as "busy". */
static void refused(struct actor *actor, struct ask ask)
{
    hf_status status = try_it(actor, ask);

    if (status != HF_BUSY && status != HF_UNAVAILABLE)
        fail_msg("a held name: %s", hf_status_name(status));
}

struct company {
    struct actor *mutex_holder, *readers[2], *first, *second, *author, *other;
    uint64_t token;
};

static void gather(struct company *c)
{
    c->mutex_holder = actor_start();
    c->first = actor_start();
    c->second = actor_start();
    c->author = actor_start();
    c->other = actor_start();
    c->token = take(c->mutex_holder, mutex("m"));
    for (int i = 0; i < 2; i++)
        take(c->readers[i] = actor_start(), reader("rw"));
    wait_for(c->first, mutex("m"));
    wait_for(c->second, mutex("m"));
    wait_for(c->author, writer("rw"));
}

static void all_is_as_before(struct company *c)
{
    refused(c->other, mutex("m"));
    refused(c->other, writer("rw"));
    assert_int_equal(actor_do(c->mutex_holder, do_state, lease_number(0)).number, HF_STATE_HELD);
    assert_false(actor_answered(c->first) || actor_answered(c->second) ||
                 actor_answered(c->author));

    give(c->mutex_holder, 0);
    assert_true(granted(c->first) > c->token);
    refused(c->other, mutex("m"));
    assert_false(actor_answered(c->second));
    give(c->first, 0);
    granted(c->second);
    give(c->second, 0);

    give(c->readers[0], 0);
    refused(c->other, writer("rw"));
    assert_false(actor_answered(c->author));
    give(c->readers[1], 0);
    granted(c->author);
    refused(c->other, reader("rw"));
    give(c->author, 0);
    take(c->other, mutex("m"));
}

/* Whoever comes first finds it: a living process here. */
static void damaged_under_the_living(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < KINDS; i++) {
            struct company company;

            if (strcmp(kinds[i].name, "deleted") == 0)
                continue; /* processes that have it mapped do not notice */
            place_teardown(NULL);
            place_setup(NULL);
            seed = (unsigned)(round * 1000 + (int)i);
            print_message("  %s, seed %u\n", kinds[i].name, seed);
            gather(&company);
            kinds[i].damage();
            all_is_as_before(&company);
        }
}

/* A newcomer finds it. */
static void damaged_before_a_newcomer(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct company company;

        place_teardown(NULL);
        place_setup(NULL);
        seed = (unsigned)i;
        print_message("  %s\n", kinds[i].name);
        gather(&company);
        kinds[i].damage();
        refused(actor_start(), mutex("m"));
        all_is_as_before(&company);
    }
}

/* While all processes sleep: the file is too short for a process that opens it, and no other reads
 * it. */
static void cut_short_before_a_newcomer(void **state)
{
    struct company company;

    (void)state;
    gather(&company);
    assert_int_equal(truncate(in_place(lease_file()), 5000), 0);
    refused(actor_start(), mutex("m"));
    all_is_as_before(&company);
}

/* Nobody lives: nothing to keep, and it just works again. */
static void damaged_while_nobody_lives(void **state)
{
    uint64_t last = 0;

    (void)state;
    for (size_t i = 0; i <= KINDS; i++) {
        struct actor *holder = actor_start(), *after;
        uint64_t token = take(holder, mutex("m"));

        seed = (unsigned)i;
        assert_true(token > last);
        actor_kill(holder);
        if (i < KINDS)
            kinds[i].damage();
        else
            assert_int_equal(truncate(in_place(lease_file()), 5000), 0);
        after = actor_start();
        last = take(after, mutex("m"));
        assert_true(last > token);
        actor_quit(after);
    }
}

/* ---- a process that cannot answer ------------------------------------------------------- */

static void nothing_before_the_stopped(bool killed)
{
    struct actor *stopped = actor_start(), *other = actor_start(), *holder = actor_start();
    struct actor *waiter = actor_start();
    struct ask fresh = mutex("fresh");
    struct answer answer;
    char pid[32];

    take(stopped, mutex("s"));
    take(holder, mutex("m"));
    wait_for(waiter, mutex("m"));
    actor_stop(stopped);
    observer_quit();
    zero_all();

    snprintf(pid, sizeof pid, "process %d ", (int)stopped->pid);
    fresh.wait_ms = 0;
    answer = actor_do(other, do_acquire, fresh);
    assert_int_equal(answer.status, HF_UNAVAILABLE);
    if (!strstr(answer.text, pid))
        fail_msg("'%s' does not name process %d", answer.text, (int)stopped->pid);
    refused(other, mutex("s"));
    /* A release is possible, but what it frees is not granted yet. */
    give(holder, 0);
    assert_false(actor_answered_within(waiter, 2 * HEARTBEAT_MS));

    if (killed)
        actor_kill(stopped);
    else
        actor_continue(stopped);
    granted(waiter);
    take(other, mutex("fresh"));
    if (!killed) {
        refused(holder, mutex("s"));
        assert_int_equal(actor_do(stopped, do_state, lease_number(0)).number, HF_STATE_HELD);
        give(stopped, 0);
    }
    take(holder, mutex("s"));
}

static void nothing_before_the_stopped_goes_on(void **state)
{
    (void)state;
    nothing_before_the_stopped(false);
}

static void nothing_before_the_stopped_is_dead(void **state)
{
    (void)state;
    nothing_before_the_stopped(true);
}

/* A process that waited before the damage is ahead of one that came after it, although it registers
 * later. */
static void stopped_waiter_keeps_his_place(void **state)
{
    struct actor *holder = actor_start(), *early = actor_start(), *early2 = actor_start();
    struct actor *late = actor_start(), *late2 = actor_start();

    (void)state;
    take(holder, mutex("m"));
    wait_for(early, mutex("m"));
    wait_for(early2, mutex("m"));
    actor_stop(early);
    actor_stop(early2);
    zero_all();
    refused(late, mutex("m"));
    actor_begin(late, do_acquire, mutex("m"));
    AWAIT(actor_do(holder, do_count_waiters, mutex("m")).number >= 1);
    actor_begin(late2, do_acquire, mutex("m"));
    AWAIT(actor_do(holder, do_count_waiters, mutex("m")).number >= 2);
    actor_continue(early);
    actor_continue(early2);
    AWAIT(waiters_of("m") == 4);
    give(holder, 0);
    granted(early);
    give(early, 0);
    granted(early2);
    give(early2, 0);
    granted(late);
    give(late, 0);
    granted(late2);
}

/* A detached lease has no process that could say so: the store stays closed until it must be over. */
static void detached_leases_are_waited_for(void **state)
{
    struct actor *gone = actor_start(), *other;
    struct ask detached = mutex("d");
    struct answer answer;
    int64_t taken_ns, granted_ns;

    (void)state;
    detached.flags = HF_FLAG_DETACHED | HF_FLAG_NO_RENEW;
    detached.ttl_ms = 4000;
    taken_ns = now_ns();
    take(gone, detached);
    actor_kill(gone);
    zero_all();
    other = actor_start();
    detached = mutex("d");
    detached.wait_ms = 0;
    answer = actor_do(other, do_acquire, detached);
    assert_int_equal(answer.status, HF_UNAVAILABLE);
    print_message("  %s\n", answer.text);
    detached.wait_ms = HF_FOREVER;
    answer = actor_do(other, do_acquire, detached);
    OK(answer);
    granted_ns = answer.done_ns;
    /* Deadlines are whole milliseconds, counted from the one that had begun. */
    assert_true(granted_ns - taken_ns >= INT64_C(3999) * 1000000);
}

/* Again and again, while processes are busy. */
static void do_hammer(struct self *self, const struct ask *ask, struct answer *answer)
{
    int64_t until = now_ms() + (int64_t)ask->number;

    while (now_ms() < until) {
        struct answer inner = { 0 };

        do_acquire(self, ask, &inner);
        if (inner.status == HF_OK) {
            int fd = open(in_place("../inside"), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);

            if (fd < 0) {
                answer->status = HF_INTERNAL; /* somebody else is inside */
                return;
            }
            close(fd);
            unlink(in_place("../inside"));
            do_release(self, ask, &inner);
            answer->number++;
        } else if (inner.status != HF_UNAVAILABLE && inner.status != HF_TIMEOUT &&
                   inner.status != HF_UNKNOWN && inner.status != HF_CORRUPT) {
            *answer = inner;
            return;
        }
    }
}

/* Damage the file between two transactions. What is overwritten in the middle of one, behind its checks, liblmdb may
 * follow out of the map: no process can defend itself against that. */
static void fill_between(struct lmdb_header *header, bool garbage)
{
    int error = pthread_mutex_lock(&header->mutex);

    assert_int_equal(error, 0); /* nobody died in a transaction */
    fill(0, USED, garbage);
    pthread_mutex_unlock(&header->mutex);
}

static struct lmdb_header *map_header(void)
{
    int fd = open(in_place("control"), O_RDWR | O_CLOEXEC);
    struct lmdb_header *header = mmap(NULL, LMDB_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    close(fd);
    assert_true(header != MAP_FAILED);
    return header;
}

static void damaged_while_busy(void **state)
{
    enum { BUSY = 4, FOR_MS = 6000 };
    struct actor *busy[BUSY];
    struct lmdb_header *header;
    struct ask ask = mutex("m");
    int64_t until;
    int rounds = 0;

    (void)state;
    ask.number = FOR_MS;
    ask.wait_ms = 2000;
    for (int i = 0; i < BUSY; i++)
        busy[i] = actor_start();
    header = map_header();
    for (int i = 0; i < BUSY; i++)
        actor_begin(busy[i], do_hammer, ask);
    until = now_ms() + FOR_MS - 1000;
    while (now_ms() < until) {
        nap_ms(50);
        seed = (unsigned)rounds++;
        fill_between(header, rounds % 2 == 0);
    }
    munmap(header, LMDB_PAGE);
    for (int i = 0; i < BUSY; i++) {
        struct answer answer = actor_answer(busy[i]);

        OK(answer);
        print_message("  %lld turns, %d times damaged\n", (long long)answer.number, rounds);
        assert_true(answer.number > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(damaged_under_the_living),
        TEST(damaged_before_a_newcomer),
        TEST(cut_short_before_a_newcomer),
        TEST(damaged_while_nobody_lives),
        TEST(nothing_before_the_stopped_goes_on),
        TEST(nothing_before_the_stopped_is_dead),
        TEST(stopped_waiter_keeps_his_place),
        TEST(detached_leases_are_waited_for),
        TEST(damaged_while_busy),
    };

    return cmocka_run_group_tests_name("damage", tests, NULL, NULL);
}
