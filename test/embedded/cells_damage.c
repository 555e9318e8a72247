/* SPDX-License-Identifier: MIT */
/*
 * Single bytes of cells.mdb are changed, thousands of times: while nobody has the file open, and under a process that
 * uses it. Whatever is changed, a cell that is read has the value that was written, or the answer is HF_CORRUPT;
 * none is silently another, none silently gone, and nobody dies of it.
 *
 * CELLS_CHANGES and CELLS_SEED choose how many and which; the test prints both.
 */
#include "calls.h"
#include "embedded.h"
#include "holdfast/primitives.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CELLS   64
#define FEW     8
#define PAGE    4096
#define CHANGES 600 /* while closed; a third as many in use */

enum { FINE, REFUSED, WRONG, GONE, ODD, ENDS }; /* exit codes of a child, the worst that it saw */

struct counts {
    unsigned fine, refused, wrong, gone, odd, signals;
};

static unsigned seed;
static unsigned char *good; /* the file, sound */
static size_t good_len;

static unsigned changes(void)
{
    const char *text = getenv("CELLS_CHANGES");

    return text ? (unsigned)atoi(text) : CHANGES;
}

/* Small ones, and some that need pages of their own. Every fourth has an end that does not come. */
static size_t value_of(int i, char bytes[3 * PAGE])
{
    size_t len = i % 16 == 5 ? 2 * PAGE + 100 : (size_t)(8 + i * 5 % 90);

    for (size_t k = 0; k < len; k++)
        bytes[k] = (char)('a' + (k + (size_t)i) % 26);
    return len;
}

static void name_of(int i, char name[16])
{
    snprintf(name, 16, "cell-%d", i);
}

static void do_fill(struct self *self, const struct ask *ask, struct answer *answer)
{
    char name[16], bytes[3 * PAGE];
    hf_error err = { 0 };

    (void)ask;
    for (int i = 0; i < CELLS + 8 && answer->status == HF_OK; i++) {
        size_t len = value_of(i, bytes);

        name_of(i, name);
        answer->status = call_cell_set(self->store, name, HF_CSTRING, bytes, len,
                                       i % 4 ? 0 : 86400000, NULL, &err);
    }
    for (int i = CELLS; i < CELLS + 8; i++) { /* so that there are free pages */
        hf_cell cell = HF_CELL_INIT;

        name_of(i, name);
        if (hf_cell_get(self->store, name, HF_CSTRING, &cell, NULL) == HF_OK)
            IGNORE(hf_cell_delete(self->store, name, HF_CSTRING, cell.version, NULL));
        hf_free(cell.bytes);
    }
}

/* A tree of one page. */
static void do_fill_few(struct self *self, const struct ask *ask, struct answer *answer)
{
    char name[16];

    (void)ask;
    for (int i = 0; i < FEW && answer->status == HF_OK; i++) {
        name_of(i, name);
        answer->status = call_cell_set(self->store, name, HF_CSTRING, "few", 3, 0, NULL, NULL);
    }
}

static void make_good(actor_fn *fill)
{
    struct actor *actor = actor_start();
    FILE *file;
    struct stat st;

    OK(actor_do(actor, fill, (struct ask){ 0 }));
    actor_quit(actor);
    file = fopen(in_place("cells.mdb"), "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    free(good);
    good_len = (size_t)st.st_size;
    good = malloc(good_len);
    assert_int_equal(fread(good, 1, good_len, file), good_len);
    fclose(file);
}

static void restore(int fd)
{
    assert_int_equal(ftruncate(fd, (off_t)good_len), 0);
    assert_int_equal(pwrite(fd, good, good_len, 0), (ssize_t)good_len);
}

/* ---- the child ----------------------------------------------------------------------------- */

static int worse(int one, int two)
{
    return one > two ? one : two;
}

/* Read them all; `put`: that one was written again; `gone`: that one was deleted. */
static int read_all(hf_store *store, int put, int gone)
{
    char name[16], bytes[3 * PAGE];
    int worst = FINE;

    for (int i = 0; i < CELLS; i++) {
        hf_cell cell = HF_CELL_INIT;
        size_t len = value_of(i, bytes);
        hf_status status;

        name_of(i, name);
        status = hf_cell_get(store, name, HF_CSTRING, &cell, NULL);
        if (i == gone && status != HF_CORRUPT) {
            worst = worse(worst, status == HF_NOT_FOUND ? FINE : WRONG);
        } else if (status == HF_OK) {
            bool same = cell.len == len && memcmp(cell.bytes, bytes, len) == 0;
            bool newer = i == put && cell.len == 3 && memcmp(cell.bytes, "new", 3) == 0;

            worst = worse(worst, same || newer ? FINE : WRONG);
        } else {
            worst = worse(worst, status == HF_CORRUPT     ? REFUSED
                                 : status == HF_NOT_FOUND ? GONE
                                                          : ODD);
        }
        hf_free(cell.bytes);
    }
    return worst;
}

static int outcome(hf_status status)
{
    return status == HF_OK ? FINE : status == HF_CORRUPT ? REFUSED : ODD;
}

#define OPENED UINT32_MAX /* only read: before the change */

/* Put one, and delete the next. */
static int use(hf_store *store, unsigned turn)
{
    int put = (int)(turn % CELLS), gone = (int)((turn + 1) % CELLS);
    int worst = read_all(store, -1, -1);
    hf_cell cell = HF_CELL_INIT;
    char name[16];
    hf_status status;

    if (turn == OPENED)
        return worst;
    name_of(put, name);
    worst = worse(worst, outcome(call_cell_set(store, name, HF_CSTRING, "new", 3, 0, NULL, NULL)));
    name_of(gone, name);
    status = hf_cell_get(store, name, HF_CSTRING, &cell, NULL);
    if (status == HF_OK)
        status = hf_cell_delete(store, name, HF_CSTRING, cell.version, NULL);
    hf_free(cell.bytes);
    worst = worse(worst, outcome(status));
    return worse(worst, read_all(store, put, status == HF_OK ? gone : -1));
}

static pid_t begin_child(void)
{
    static const int deadly[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    const struct rlimit no_core = { 0, 0 };
    pid_t pid = fork();

    if (pid == 0) {
        for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
            signal(deadly[i], SIG_DFL); /* which cmocka catches */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setrlimit(RLIMIT_CORE, &no_core);
        alarm(LIMIT_MS / 1000);
    }
    return pid;
}

static void count(struct counts *counts, pid_t pid, const char *what, size_t at, unsigned char now)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        counts->signals++;
    else if (WEXITSTATUS(status) == WRONG)
        counts->wrong++;
    else if (WEXITSTATUS(status) == GONE)
        counts->gone++;
    else if (WEXITSTATUS(status) == REFUSED)
        counts->refused++;
    else if (WEXITSTATUS(status) != FINE)
        counts->odd++;
    else
        counts->fine++;
    if (WIFSIGNALED(status) || WEXITSTATUS(status) > REFUSED)
        print_message("  %s, byte %zu (page %zu, %zu) %02x -> %02x: %s %d\n", what, at, at / PAGE,
                      at % PAGE, good[at], now, WIFSIGNALED(status) ? "signal" : "code",
                      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* Half of them among the first bytes of a page, where LMDB keeps what it trusts. */
static size_t choose(void)
{
    size_t page = (size_t)rand_r(&seed) % (good_len / PAGE);
    size_t within = rand_r(&seed) % 2 ? (size_t)rand_r(&seed) % 160 : (size_t)rand_r(&seed) % PAGE;

    return page * PAGE + within;
}

static unsigned char change(size_t at)
{
    unsigned now = good[at];

    now =
        rand_r(&seed) % 2 ? now ^ 1u << rand_r(&seed) % 8 : now + 1 + (unsigned)rand_r(&seed) % 255;
    return (unsigned char)(now & 0xff);
}

static void report(const char *what, const struct counts *c, unsigned tried)
{
    print_message("  %s: %u changes: %u without effect, %u refused, %u wrong values, %u said to be "
                  "gone, %u odd answers, "
                  "%u ended by a signal\n",
                  what, tried, c->fine, c->refused, c->wrong, c->gone, c->odd, c->signals);
    assert_int_equal(c->wrong + c->gone + c->odd + c->signals, 0);
    assert_int_equal(c->fine + c->refused, tried);
    assert_true(c->refused > 0 && c->fine > 0);
}

static void begin(void)
{
    seed = getenv("CELLS_SEED") ? (unsigned)atoi(getenv("CELLS_SEED")) : 1;
    print_message("  seed %u\n", seed);
    make_good(do_fill);
}

/* ---- cases ------------------------------------------------------------------------------------ */

static void changed_while_closed(void **state)
{
    struct counts counts = { 0 };
    int fd;

    (void)state;
    begin();
    fd = open(in_place("cells.mdb"), O_RDWR | O_CLOEXEC);
    for (unsigned i = 0; i < changes(); i++) {
        size_t at = choose();
        unsigned char now = change(at);
        pid_t pid;

        restore(fd);
        assert_int_equal(pwrite(fd, &now, 1, (off_t)at), 1);
        pid = begin_child();
        if (pid == 0) {
            hf_store *store;

            if (hf_open(place_url, NULL, &store, NULL) != HF_OK)
                _exit(ODD);
            _exit(use(store, i));
        }
        count(&counts, pid, "closed", at, now);
    }
    close(fd);
    report("closed", &counts, changes());
}

/* A child has it open and mapped, and has read all; then the file is changed, and the child uses it. `len` 0: it becomes that
 * long. */
static void change_under_a(int (*body)(hf_store *, unsigned), struct counts *counts, int fd,
                           unsigned turn, size_t at, uint64_t value, size_t len)
{
    int ready[2], go[2];
    pid_t pid;
    char byte;

    restore(fd);
    assert_true(pipe(ready) == 0 && pipe(go) == 0);
    pid = begin_child();
    if (pid == 0) {
        hf_store *store;

        if (hf_open(place_url, NULL, &store, NULL) != HF_OK || body(store, OPENED) != FINE)
            _exit(ENDS);
        (void)!write(ready[1], "", 1);
        (void)!read(go[0], &byte, 1);
        _exit(body(store, turn));
    }
    close(ready[1]);
    close(go[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    if (len)
        assert_int_equal(pwrite(fd, &value, len, (off_t)at), (ssize_t)len);
    else
        assert_int_equal(ftruncate(fd, (off_t)at), 0);
    assert_int_equal(write(go[1], "", 1), 1);
    close(ready[0]);
    close(go[1]);
    count(counts, pid, "in use", at, (unsigned char)value);
}

static void change_under(struct counts *counts, int fd, unsigned turn, size_t at, uint64_t value,
                         size_t len)
{
    change_under_a(use, counts, fd, turn, at, value, len);
}

/* Tries to write each of the few. */
static int put_few(hf_store *store, unsigned turn)
{
    hf_cell cell = HF_CELL_INIT;
    int worst = FINE;
    char name[16];

    if (turn == OPENED)
        worst = outcome(hf_cell_get(store, "cell-0", HF_CSTRING, &cell, NULL));
    hf_free(cell.bytes);
    for (int i = 0; turn != OPENED && i < FEW; i++) {
        name_of(i, name);
        worst =
            worse(worst, outcome(call_cell_set(store, name, HF_CSTRING, "new", 3, 0, NULL, NULL)));
    }
    return worst;
}

static void changed_in_use(void **state)
{
    struct counts counts = { 0 };
    unsigned rounds = changes() / 3;
    int fd;

    (void)state;
    begin();
    fd = open(in_place("cells.mdb"), O_RDWR | O_CLOEXEC);
    for (unsigned i = 0; i < rounds; i++) {
        size_t at = choose();

        change_under(&counts, fd, i, at, change(at), 1);
    }
    close(fd);
    report("in use", &counts, rounds);
}

/* Not to nothing: that is how a new file begins. */
static void shortened_in_use(void **state)
{
    static const size_t lengths[] = { 100, PAGE, 2 * PAGE, 3 * PAGE, 5 * PAGE + 7 };
    struct counts counts = { 0 };
    int fd;

    (void)state;
    begin();
    fd = open(in_place("cells.mdb"), O_RDWR | O_CLOEXEC);
    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        change_under(&counts, fd, i, lengths[i], 0, 0);
    close(fd);
    assert_int_equal(counts.refused, sizeof lengths / sizeof lengths[0]);
}

/* As LMDB 0.9 has them: offsets in a meta page, and in a page with one node. */
enum {
    PAGE_SIZE_AT = 40,
    FREE_ROOT_AT = 80,
    MAIN_DEPTH_AT = 94,
    MAIN_ROOT_AT = 128,
    LAST_PAGE_AT = 136,
    TXN_AT = 144
};

static uint64_t number_at(size_t at)
{
    uint64_t number;

    memcpy(&number, good + at, sizeof number);
    return number;
}

/* Where the list of free pages begins in the file: how many, then each. */
static size_t free_list_at(size_t meta)
{
    size_t page = (size_t)number_at(meta + FREE_ROOT_AT) * PAGE;
    uint16_t node;

    memcpy(&node, good + page + 16, sizeof node);
    return page + node + 8 + 8; /* its header, its key */
}

/* What LMDB believes and acts on: division by a page size of 0, pages that are not there, a page that is in use handed out
 * as free, an old state for the newest. All are refused, and nothing is written. */
static void what_lmdb_would_trust(void **state)
{
    size_t newest, list;
    struct {
        const char *what;
        size_t at;
        uint64_t value;
        size_t len;
    } edits[9];
    size_t edit_count = 0;
    int fd;

    (void)state;
    begin();
    newest = number_at(TXN_AT) > number_at(PAGE + TXN_AT) ? 0 : PAGE;
    list = free_list_at(newest);
    assert_true(number_at(list) > 0 && number_at(list) < good_len / PAGE);
#define EDIT(...) \
    memcpy(&edits[edit_count++], &(__typeof__(edits[0])){ __VA_ARGS__ }, sizeof edits[0])
    EDIT("page size 0", newest + PAGE_SIZE_AT, 0, 4);
    EDIT("page size 0, the older meta page", PAGE - newest + PAGE_SIZE_AT, 0, 4);
    EDIT("root behind the end", newest + MAIN_ROOT_AT, 1u << 20, 8);
    EDIT("root of the free pages behind the end", newest + FREE_ROOT_AT, 1u << 20, 8);
    EDIT("too deep", newest + MAIN_DEPTH_AT, 9, 2);
    EDIT("last page behind the map", newest + LAST_PAGE_AT, UINT64_C(1) << 40, 8);
    EDIT("the older state", PAGE - newest + TXN_AT, 1u << 20, 8);
    EDIT("more free pages than there are", list, UINT64_C(1) << 40, 8);
    EDIT("a page in use among the free ones", list + 8, number_at(newest + MAIN_ROOT_AT), 8);
#undef EDIT
    fd = open(in_place("cells.mdb"), O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < edit_count; i++) {
        static unsigned char now[64 * PAGE], then[64 * PAGE];
        struct counts counts = { 0 };
        pid_t pid;

        restore(fd);
        assert_int_equal(pwrite(fd, &edits[i].value, edits[i].len, (off_t)edits[i].at),
                         (ssize_t)edits[i].len);
        assert_true(good_len <= sizeof now);
        assert_int_equal(pread(fd, now, good_len, 0), (ssize_t)good_len);
        pid = begin_child();
        if (pid == 0) {
            hf_store *store;

            if (hf_open(place_url, NULL, &store, NULL) != HF_OK)
                _exit(ODD);
            _exit(use(store, 1));
        }
        count(&counts, pid, edits[i].what, edits[i].at, 0);
        print_message("  %s\n", edits[i].what);
        assert_int_equal(counts.refused, 1);
        assert_int_equal(pread(fd, then, good_len, 0), (ssize_t)good_len);
        assert_memory_equal(now, then, good_len);
        counts.refused = 0;
        change_under(&counts, fd, 1, edits[i].at, edits[i].value, edits[i].len);
        assert_int_equal(counts.refused, 1);
        assert_int_equal(pread(fd, then, good_len, 0), (ssize_t)good_len);
        assert_memory_equal(now, then, good_len);
    }
    close(fd);
}

static uint16_t half_at(size_t at)
{
    uint16_t number;

    memcpy(&number, good + at, sizeof number);
    return number;
}

/* A node is not where its page says, or not as long: none of the cells of that page is written, though the way to most of
 * them does not touch that node. */
static void no_write_to_a_damaged_page(void **state)
{
    static unsigned char then[64 * PAGE];
    struct counts counts = { 0 };
    size_t newest, root;
    int fd;

    (void)state;
    seed = 1;
    make_good(do_fill_few);
    newest = number_at(TXN_AT) > number_at(PAGE + TXN_AT) ? 0 : PAGE;
    root = (size_t)number_at(newest + MAIN_ROOT_AT) * PAGE;
    assert_int_equal(half_at(newest + MAIN_DEPTH_AT), 1);
    assert_true(good_len <= sizeof then);
    fd = open(in_place("cells.mdb"), O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < 2 * FEW; i++) {
        size_t at = root + 16 + i / 2 * 2;

        if (i % 2)
            at = root + half_at(at); /* the length of its value */
        change_under_a(put_few, &counts, fd, 0, at, i % 2 ? half_at(at) + 2u : 0xfffe, 2);
        assert_int_equal(pread(fd, then, good_len, 0), (ssize_t)good_len);
        then[at] = good[at];
        then[at + 1] = good[at + 1];
        assert_memory_equal(good, then, good_len);
    }
    close(fd);
    assert_int_equal(counts.refused, 2 * FEW);
}

/*
 * The root takes another page for one of its own: one that it also has elsewhere, or an old copy, which LMDB
 * leaves behind at every write and whose records are all sound. Under a process that has the file open.
 */
static void another_page_of_the_tree(void **state)
{
    struct counts counts = { 0 };
    unsigned tried = 0;
    size_t newest, root;
    int fd;

    (void)state;
    begin();
    newest = number_at(TXN_AT) > number_at(PAGE + TXN_AT) ? 0 : PAGE;
    root = (size_t)number_at(newest + MAIN_ROOT_AT) * PAGE;
    assert_int_equal(half_at(newest + MAIN_DEPTH_AT), 2);
    fd = open(in_place("cells.mdb"), O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < (size_t)(half_at(root + 12) - 16) / 2; i++) {
        size_t node = root + half_at(root + 16 + 2 * i);

        for (uint16_t page = 2; page < good_len / PAGE; page++) {
            if (half_at((size_t)page * PAGE + 10) != 2 || page == half_at(node))
                continue; /* not a leaf; itself */
            change_under(&counts, fd, tried++, node, page, 2);
        }
    }
    close(fd);
    assert_true(tried > 4);
    assert_int_equal(counts.refused, tried);
}

static int last_level;
static char last_text[HF_ERROR_TEXT_MAX];

static void on_finding(hf_check_level level, const char *topic, const char *text, void *arg)
{
    (void)arg;
    if (strcmp(topic, "cells") == 0) {
        last_level = (int)level;
        snprintf(last_text, sizeof last_text, "%s", text);
    }
}

static void do_doctor(struct self *self, const struct ask *ask, struct answer *answer)
{
    (void)ask;
    answer->status = call_store_check(self->store, on_finding, NULL, NULL);
    answer->number = last_level;
    snprintf(answer->text, sizeof answer->text, "%s", last_text);
}

static void do_get(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_cell cell = HF_CELL_INIT;
    hf_error err = { 0 };

    answer->status = hf_cell_get(self->store, ask->name, HF_CSTRING, &cell, &err);
    memcpy(answer->text, err.text, sizeof answer->text);
    hf_free(cell.bytes);
}

/* One byte of one value: that cell is refused by name, the others are as they were, and the doctor says which. */
static void damage_is_named(void **state)
{
    static const char word[] = "cell-7";
    struct ask seven = { .name = "cell-7" }, eight = { .name = "cell-8" };
    struct answer answer;
    size_t at = 0;
    int fd;

    (void)state;
    begin();
    assert_int_equal(actor_do(actor_start(), do_doctor, (struct ask){ 0 }).number,
                     HF_CHECK_LEVEL_OK);
    fd = open(in_place("cells.mdb"), O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i + sizeof word < good_len; i++)
        if (memcmp(good + i, word, sizeof word - 1) == 0 && good[i + sizeof word - 1] != '0')
            at = i + sizeof word + 3;
    assert_true(at > 0);
    assert_int_equal(pwrite(fd, "J", 1, (off_t)at), 1);
    close(fd);
    answer = actor_do(actor_start(), do_get, seven);
    assert_int_equal(answer.status, HF_CORRUPT);
    print_message("  %s\n", answer.text);
    assert_non_null(strstr(answer.text, "cell-7"));
    assert_non_null(strstr(answer.text, "cells.mdb"));
    OK(actor_do(actor_start(), do_get, eight));
    answer = actor_do(actor_start(), do_doctor, (struct ask){ 0 });
    assert_int_equal(answer.number, HF_CHECK_LEVEL_BAD);
    print_message("  %s\n", answer.text);
    assert_non_null(strstr(answer.text, "cell-7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(changed_while_closed),     TEST(changed_in_use),
        TEST(shortened_in_use),         TEST(no_write_to_a_damaged_page),
        TEST(another_page_of_the_tree), TEST(what_lmdb_would_trust),
        TEST(damage_is_named),
    };

    return cmocka_run_group_tests_name("cells_damage", tests, NULL, NULL);
}
