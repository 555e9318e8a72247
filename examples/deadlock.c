/* SPDX-License-Identifier: MIT */
/*
 * Two threads that acquire two names in opposite orders. Sooner or later each has one and waits for
 * the other: one of them gets HF_DEADLOCK, releases what it has and begins again. hf_acquire_all()
 * avoids that: it acquires names in one order.
 */
#include "example.h"

#include <pthread.h>

static pthread_barrier_t both_have_one;

struct mover {
    hf_store *store;
    const char *from, *to;
    int deadlocks;
};

static hf_acquire_request request_of(const char *name)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = name;
    request.name_len = HF_CSTRING;
    request.wait_ms = HF_FOREVER;
    return request;
}

static void *one_by_one(void *arg)
{
    struct mover *mover = arg;
    hf_acquire_request from = request_of(mover->from), to = request_of(mover->to);
    hf_lease *first, *second;
    hf_error err;
    hf_status status;

    must(hf_acquire(mover->store, &from, &first, &err), &err);
    pthread_barrier_wait(&both_have_one); /* so that it happens at once */
    while ((status = hf_acquire(mover->store, &to, &second, &err)) == HF_DEADLOCK) {
        mover->deadlocks++;
        printf("told: %s\n", err.text);
        must(hf_release(first, &err), &err); /* the other one goes on now */
        must(hf_acquire(mover->store, &from, &first, &err), &err);
    }
    must(status, &err);
    must(hf_release(second, &err), &err);
    must(hf_release(first, &err), &err);
    return NULL;
}

static void *all_at_once(void *arg)
{
    struct mover *mover = arg;
    hf_acquire_request both[2] = { request_of(mover->from), request_of(mover->to) };
    hf_lease *leases[2];
    hf_error err;

    for (int i = 0; i < 20; i++) {
        must(hf_acquire_all(mover->store, both, 2, leases, &err), &err);
        must(hf_release_all(leases, 2, &err), &err);
    }
    return NULL;
}

static int run_both(hf_store *store, void *(*run)(void *))
{
    struct mover movers[2] = { { store, "example/anna", "example/bert", 0 },
                               { store, "example/bert", "example/anna", 0 } };
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        expect(pthread_create(&threads[i], NULL, run, &movers[i]) == 0, "a thread");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return movers[0].deadlocks + movers[1].deadlocks;
}

int main(int argc, char **argv)
{
    hf_store *store;
    int deadlocks;

    needs(url_of(argc, argv), HF_CAP_WAITERS | HF_CAP_TOKEN);
    store = open_store(argc, argv);
    pthread_barrier_init(&both_have_one, NULL, 2);
    deadlocks = run_both(store, one_by_one);
    printf("one by one, in opposite orders: %d deadlock\n", deadlocks);
    expect(deadlocks == 1, "exactly one of the two was told");
    expect(run_both(store, all_at_once) == 0, "none");
    printf("all at once, 40 times: none\n");
    close_store(store);
    return 0;
}
