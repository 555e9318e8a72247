/* SPDX-License-Identifier: MIT */
/*
 * At most three at once. Eight threads want to use something that bears three;
 * they could as well be eight processes. The first holder sets the name's capacity; a request that
 * disagrees while it is held is refused, so two programs with different ideas of the limit find
 * out. Where the store can, each holder has a number from 0 to 2 that no other one has: a port, a
 * device, a directory; and hf_semaphore_resize() sets another limit for all of them.
 */
#include "example.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define LIMIT   3
#define WORKERS 8

static _Atomic int inside, most, at_place[LIMIT];
static bool numbered;

static hf_acquire_request permit_of(uint32_t capacity)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = "example/converter";
    request.name_len = HF_CSTRING;
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = capacity;
    request.permits = 1; /* a heavy job may take more */
    request.wait_ms = HF_FOREVER;
    if (numbered)
        request.flags = HF_FLAG_NUMBERED;
    return request;
}

/* Which of the three devices is ours? */
static uint32_t place_of(hf_lease *lease)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;

    expect(hf_lease_get(lease, &info) == HF_OK, "it is held");
    return numbered ? info.slots[0] : 0;
}

static void *work(void *arg)
{
    hf_store *store = (hf_store *)arg;
    hf_acquire_request request = permit_of(LIMIT);
    hf_lease *lease;
    hf_error err;
    uint32_t place;
    int now, seen;

    must(hf_acquire(store, &request, &lease, &err), &err);
    place = place_of(lease);
    expect(atomic_fetch_add(&at_place[place], 1) == 0 || !numbered, "a place of our own");
    now = atomic_fetch_add(&inside, 1) + 1;
    seen = atomic_load(&most);
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
        ;
    usleep(50 * 1000); /* the work */
    atomic_fetch_sub(&at_place[place], 1);
    atomic_fetch_sub(&inside, 1);
    must(hf_release(lease, &err), &err);
    return NULL;
}

int main(int argc, char **argv)
{
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_store *store;
    hf_acquire_request request = permit_of(LIMIT), other = permit_of(LIMIT + 1);
    pthread_t threads[WORKERS];
    hf_lease *lease, *refused;
    hf_error err;

    needs(url_of(argc, argv), HF_CAP_SEMAPHORE);
    store = open_store(argc, argv);
    expect(hf_store_get(store, &info) == HF_OK, "hf_store_get()");
    numbered = info.caps & HF_CAP_NUMBERED;
    for (int i = 0; i < WORKERS; i++)
        expect(pthread_create(&threads[i], NULL, work, store) == 0, "a thread");
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    printf("%d workers, a limit of %d, and never more than %d at once\n", WORKERS, LIMIT, most);
    expect(most <= LIMIT, "the limit was kept");

    must(hf_acquire(store, &request, &lease, &err), &err);
    expect(hf_acquire(store, &other, &refused, &err) == HF_MISMATCH, "another capacity is refused");
    printf("and somebody who believes in a limit of %d is told: %s\n", LIMIT + 1, err.text);
    if (info.caps & HF_CAP_RESIZE) {
        must(hf_semaphore_resize(store, request.name, HF_CSTRING, LIMIT + 1, &err), &err);
        must(hf_acquire(store, &request, &refused, &err), &err); /* whatever it says */
        printf("until the limit is set to %d for everybody\n", LIMIT + 1);
        must(hf_release(refused, &err), &err);
        must(hf_semaphore_resize(store, request.name, HF_CSTRING, 0, &err), &err);
    }
    must(hf_release(lease, &err), &err);
    close_store(store);
    return 0;
}
