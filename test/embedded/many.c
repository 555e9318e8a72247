/* SPDX-License-Identifier: MIT */
/* A hundred thousand names held at once: by one process, by several, and freed by their death. */
#include "embedded.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define MANY  100000
#define SHARE 4 /* processes, if several */

/* Take ask.number names, beginning with ask.token, and keep them; answer.number: the last token. */
static void do_take_many(struct self *self, const struct ask *ask, struct answer *answer)
{
    uint64_t last = 0;

    for (uint64_t i = 0; i < ask->number; i++) {
        hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
        hf_lease *lease;
        hf_error err;
        char name[NAME_ROOM];

        snprintf(name, sizeof name, "job %llu", (unsigned long long)(ask->token + i));
        request.name = name;
        request.name_len = HF_CSTRING;
        answer->status = hf_acquire(self->store, &request, &lease, &err);
        if (answer->status != HF_OK) {
            snprintf(answer->text, sizeof answer->text, "%s: %.400s", name, err.text);
            return;
        }
        if (hf_lease_token(lease) <= last) {
            answer->status = HF_INTERNAL;
            return;
        }
        last = hf_lease_token(lease);
    }
    answer->token = last;
}

/* How many of all names can be taken? Each is released at once. */
static void do_count_free(struct self *self, const struct ask *ask, struct answer *answer)
{
    for (uint64_t i = 0; i < ask->number; i++) {
        hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
        hf_lease *lease;
        char name[NAME_ROOM];

        snprintf(name, sizeof name, "job %llu", (unsigned long long)(ask->token + i));
        request.name = name;
        request.name_len = HF_CSTRING;
        if (hf_acquire(self->store, &request, &lease, NULL) != HF_OK)
            continue;
        answer->number++;
        hf_release(lease, NULL);
    }
}

static void do_count_all(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_view *view;

    (void)ask;
    answer->status = hf_store_inspect(self->store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, NULL);
    if (answer->status != HF_OK)
        return;
    for (size_t i = 0; i < hf_view_count(view); i++)
        answer->number += (int64_t)hf_view_entry(view, i)->holder_count;
    hf_free(view);
}

static int64_t free_names(struct actor *actor)
{
    return actor_do(actor, do_count_free, (struct ask){ .token = 0, .number = MANY }).number;
}

static void all_held(struct actor *other)
{
    assert_int_equal(actor_do(other, do_count_all, (struct ask){ 0 }).number, MANY);
    assert_int_equal(free_names(other), 0);
}

static void by_one_process(void **state)
{
    struct actor *holder = actor_start(), *other = actor_start(), *waiter = actor_start();
    int64_t start = now_ms();

    (void)state;
    OK(actor_do(holder, do_take_many, (struct ask){ .token = 0, .number = MANY }));
    print_message("  taken in %lld ms\n", (long long)(now_ms() - start));
    all_held(other);
    wait_for(waiter, mutex("job 99999"));
    start = now_ms();
    actor_kill(holder);
    granted(waiter);
    print_message("  granted %lld ms after the death\n", (long long)(now_ms() - start));
    assert_int_equal(free_names(other), MANY - 1);
    print_message("  all free after %lld ms\n", (long long)(now_ms() - start));
}

static void by_several_processes(void **state)
{
    struct actor *holders[SHARE], *other = actor_start();

    (void)state;
    for (int i = 0; i < SHARE; i++)
        actor_begin(
            holders[i] = actor_start(), do_take_many,
            (struct ask){ .token = (uint64_t)(i * (MANY / SHARE)), .number = MANY / SHARE });
    for (int i = 0; i < SHARE; i++)
        OK(actor_answer(holders[i]));
    all_held(other);
    actor_kill(holders[1]);
    assert_int_equal(free_names(other), MANY / SHARE);
    assert_int_equal(actor_do(other, do_count_all, (struct ask){ 0 }).number, MANY - MANY / SHARE);
    for (int i = 0; i < SHARE; i++)
        if (i != 1)
            actor_signal(holders[i], SIGKILL);
    for (int i = 0; i < SHARE; i++)
        if (i != 1)
            actor_wait_end(holders[i]);
    assert_int_equal(free_names(other), MANY);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(by_one_process), TEST(by_several_processes) };

    return cmocka_run_group_tests_name("many", tests, NULL, NULL);
}
