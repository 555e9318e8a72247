/* SPDX-License-Identifier: MIT */
/*
 * One process, one place in the store. Handles on one directory share it, however its path
 * is written; closing one leaves the other; closed and opened again is as new. A second
 * copy of the library in one process is refused, and the first does not suffer from it.
 */
#include "embedded.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- several handles ------------------------------------------------------------------- */

static hf_store *second, *third;

static hf_status take_by(hf_store *store, const char *name, hf_lease **ret_lease)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = name;
    request.name_len = HF_CSTRING;
    return hf_acquire(store, &request, ret_lease, NULL);
}

#define CHECK(truth)                                                                 \
    do {                                                                             \
        if (!(truth)) {                                                              \
            snprintf(answer->text, sizeof answer->text, "%d: %s", __LINE__, #truth); \
            answer->status = HF_INTERNAL;                                            \
            return;                                                                  \
        }                                                                            \
    } while (0)

/* Opened three times, by different paths; locks exclude one another across the handles. */
static void do_open_again(struct self *self, const struct ask *ask, struct answer *answer)
{
    char url[2 * sizeof place_url];
    hf_lease *lease;

    (void)ask;
    CHECK(hf_open(place_url, NULL, &second, NULL) == HF_OK);
    snprintf(url, sizeof url, "file:%s/../store/.", place);
    CHECK(hf_open(url, NULL, &third, NULL) == HF_OK);
    CHECK(take_by(self->store, "n", &self->leases[0]) == HF_OK);
    CHECK(take_by(second, "n", &lease) == HF_BUSY);
    CHECK(take_by(third, "n", &lease) == HF_BUSY);
    CHECK(take_by(second, "m", &self->leases[1]) == HF_OK);
}

static void do_close_others(struct self *self, const struct ask *ask, struct answer *answer)
{
    (void)ask;
    CHECK(hf_close(second, 0) == HF_IN_USE);
    CHECK(hf_release(self->leases[1], NULL) == HF_OK);
    CHECK(hf_close(second, 0) == HF_OK);
    CHECK(hf_close(third, 0) == HF_OK);
}

static void opened_several_times(void **state)
{
    struct actor *actor = actor_start(), *other = actor_start();

    (void)state;
    OK(actor_do(actor, do_open_again, (struct ask){ 0 }));
    assert_int_equal(try_it(other, mutex("n")), HF_BUSY);
    assert_int_equal(try_it(other, mutex("m")), HF_BUSY);
    OK(actor_do(actor, do_close_others, (struct ask){ 0 }));
    /* The lease of the handle that is still open is none the worse. */
    assert_int_equal(try_it(other, mutex("n")), HF_BUSY);
    assert_int_equal(try_it(other, mutex("m")), HF_OK);
    actor_kill(actor);
    assert_int_equal(try_it(other, mutex("n")), HF_OK);
}

static int open_files(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) != -1;
    return count;
}

/* Closed and opened again, many times, with leases in between: it works, and nothing piles up. */
static void do_reopen(struct self *self, const struct ask *ask, struct answer *answer)
{
    int files = 0;
    uint64_t last = 0;

    (void)ask;
    for (int i = 0; i < 300; i++) {
        CHECK(take_by(self->store, "n", &self->leases[0]) == HF_OK);
        CHECK(hf_lease_token(self->leases[0]) > last);
        last = hf_lease_token(self->leases[0]);
        if (i % 3 == 0)
            CHECK(hf_release(self->leases[0], NULL) == HF_OK);
        CHECK(hf_close(self->store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
        if (i == 20)
            files = open_files();
        CHECK(i < 20 || open_files() <= files);
        CHECK(hf_open(place_url, NULL, &self->store, NULL) == HF_OK);
    }
}

static void closed_and_opened_again(void **state)
{
    struct actor *actor = actor_start(), *other = actor_start();

    (void)state;
    OK(actor_do(actor, do_reopen, (struct ask){ 0 }));
    assert_int_equal(try_it(other, mutex("n")), HF_OK);
}

/* The last handle is closed while a lease is held: a waiter gets it. */
static void closing_releases(void **state)
{
    struct actor *actor = actor_start(), *waiter = actor_start();

    (void)state;
    take(actor, mutex("n"));
    wait_for(waiter, mutex("n"));
    assert_int_equal(actor_do(actor, do_close, (struct ask){ 0 }).status, HF_IN_USE);
    assert_false(actor_answered(waiter));
    OK(actor_do(actor, do_close, (struct ask){ .flags = HF_CLOSE_FLAG_RELEASE }));
    granted(waiter);
}

/* ---- a second copy --------------------------------------------------------------------------- */

typedef hf_status open_fn(const char *url, const hf_open_options *options, hf_store **ret,
                          hf_error *err);

/* The same library once more, in a namespace of its own: it knows nothing of the first. */
static void do_second_copy(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_error err = { 0 };
    hf_store *store;
    static void *copy; /* there is not room for many */
    open_fn *open_copy;
    Dl_info info;

    (void)self, (void)ask;
    CHECK(dladdr((void *)(uintptr_t)hf_open, &info) != 0);
    if (!copy)
        copy = dlmopen(LM_ID_NEWLM, info.dli_fname, RTLD_NOW | RTLD_LOCAL);
    if (!copy) {
        snprintf(answer->text, sizeof answer->text, "%s", dlerror());
        answer->status = HF_UNSUPPORTED;
        return;
    }
    *(void **)&open_copy = dlsym(copy, "hf_open");
    CHECK(open_copy);
    CHECK((void *)(uintptr_t)open_copy != (void *)(uintptr_t)hf_open);
    answer->status = open_copy(place_url, NULL, &store, &err);
    memcpy(answer->text, err.text, sizeof answer->text);
}

static void second_copy_is_refused(void **state)
{
    struct actor *actor = actor_start(), *other = actor_start(), *waiter = actor_start();
    struct answer answer;

    (void)state;
    if (sanitized())
        skip();
    take(actor, mutex("n"));
    wait_for(waiter, mutex("n"));
    for (int i = 0; i < 3; i++) {
        answer = actor_do(actor, do_second_copy, (struct ask){ 0 });
        if (answer.status != HF_IN_USE)
            fail_msg("%s: %s", hf_status_name(answer.status), answer.text);
        assert_int_equal(try_it(other, mutex("n")), HF_BUSY);
        assert_false(actor_answered_within(waiter, 200));
    }
    print_message("  %s\n", answer.text);
    /* It can go on, close and open again. */
    give(actor, 0);
    granted(waiter);
    OK(actor_do(actor, do_close, (struct ask){ 0 }));
    OK(actor_do(actor, do_open, (struct ask){ 0 }));
    give(waiter, 0);
    take(actor, mutex("n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(opened_several_times),
        TEST(closed_and_opened_again),
        TEST(closing_releases),
        TEST(second_copy_is_refused),
    };

    return cmocka_run_group_tests_name("copies", tests, NULL, NULL);
}
