/* SPDX-License-Identifier: MIT */
/*
 * Lists holders and waiters: for people, for monitoring, and to find out why nothing proceeds. The
 * label is what others see of us.
 */
#include "example.h"

#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

static hf_acquire_request by(const char *label, int64_t wait_ms)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = "example/printer";
    request.name_len = HF_CSTRING;
    request.label = label;
    request.wait_ms = wait_ms;
    request.flags = HF_FLAG_STRICT; /* wait in the store itself, not behind our own thread */
    return request;
}

static void *wait_for_it(void *arg)
{
    hf_store *store = (hf_store *)arg;
    hf_acquire_request request = by("bob, 3 pages", HF_FOREVER);
    hf_lease *lease;
    hf_error err;

    must(hf_acquire(store, &request, &lease, &err), &err);
    must(hf_release(lease, &err), &err);
    return NULL;
}

static void print_entry(const hf_entry *entry)
{
    printf("%.*s\n", (int)entry->name_len, (const char *)entry->name);
    for (size_t i = 0; i < entry->holder_count; i++) {
        const hf_holder *holder = hf_entry_holder(entry, i);

        printf("  held by    %-14s token %" PRIu64 ", for %" PRId64 " ms, pid %" PRId64 "\n",
               holder->label, holder->token, holder->age_ms, holder->pid);
    }
    for (size_t i = 0; i < entry->waiter_count; i++) {
        const hf_waiter *waiter = hf_entry_waiter(entry, i);

        printf("  waiting %" PRIu32 "  %-14s for %" PRId64 " ms\n", waiter->position, waiter->label,
               waiter->age_ms);
    }
}

/* Print what a pattern finds; returns how many wait. */
static size_t look(hf_store *store, const char *pattern, size_t *ret_names)
{
    size_t waiters = 0;
    hf_view *view;
    hf_error err;

    must(hf_store_inspect(store, pattern, strlen(pattern), HF_INSPECT_FLAG_PATTERN, &view, &err),
         &err);
    for (size_t i = 0; i < hf_view_count(view); i++) {
        print_entry(hf_view_entry(view, i));
        waiters += hf_view_entry(view, i)->waiter_count;
    }
    *ret_names = hf_view_count(view);
    hf_free(view);
    return waiters;
}

int main(int argc, char **argv)
{
    hf_store *store;
    hf_acquire_request request = by("alice, 120 pages", 0);
    size_t names = 0, waiters = 0;
    uint64_t seq = 0;
    pthread_t thread;
    hf_lease *lease;
    hf_error err;

    needs(url_of(argc, argv), HF_CAP_INSPECT | HF_CAP_WAITERS);
    store = open_store(argc, argv);
    must(hf_acquire(store, &request, &lease, &err), &err);
    expect(pthread_create(&thread, NULL, wait_for_it, store) == 0, "a thread");

    /* Sleep until something in the store changes, then look again. */
    for (int i = 0; i < 50 && waiters == 0; i++) {
        hf_store_wait(store, &seq, 100, NULL, NULL);
        waiters = look(store, "example/p*", &names);
    }
    expect(names == 1 && waiters == 1, "one name, one waiter");

    must(hf_release(lease, &err), &err);
    pthread_join(thread, NULL);
    expect(look(store, "example/p*", &names) == 0 && names == 0, "nothing is left");
    close_store(store);
    return 0;
}
