/* SPDX-License-Identifier: MIT */
/*
 * A worker that acquires the locks. It logs what it asked for and what it certainly held, and under
 * the mutex it increments the two counters, with a pause between reading and writing in which it
 * may be stopped.
 */
#include "faults.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const lock_names[LOCKS] = { "mutex", "read-write", "semaphore" };

struct worker {
    struct faults *faults;
    unsigned index;
    uint64_t chance;
    hf_store *store;
    struct vault vault;
};

unsigned chance(uint64_t *state, unsigned n)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) % n);
}

static void note(struct worker *w, struct event event, enum event_kind kind)
{
    event.kind = (uint8_t)kind;
    if (event.at_ns == 0)
        event.at_ns = history_now_ns();
    CHECK(history_add(w->faults->history, w->index, event));
}

/* It holds now, for sure: the time first, then the question. */
static bool certain(struct worker *w, struct event event, hf_lease *lease, enum event_kind kind)
{
    event.at_ns = history_now_ns();
    if (hf_lease_remaining_ms(lease) <= 0)
        return false;
    note(w, event, kind);
    return true;
}

static hf_acquire_request choose(struct worker *w, struct event *ret_event)
{
    unsigned dice = chance(&w->chance, 10), lock = dice < 5 ? LOCK_MUTEX : dice < 7 ? LOCK_RW : 2;
    hf_acquire_request request = with_ttl(mutex_request(lock_names[lock]), TTL_MS);

    if (lock == LOCK_RW)
        request.kind = chance(&w->chance, 3) ? HF_KIND_SHARED : HF_KIND_EXCLUSIVE;
    if (lock == LOCK_SEMAPHORE) {
        request.kind = HF_KIND_SEMAPHORE;
        request.capacity = SEMAPHORE_CAPACITY;
        request.permits = chance(&w->chance, 8) ? 1 : SEMAPHORE_CAPACITY;
    }
    dice = chance(&w->chance, 8);
    request.wait_ms = dice == 0 ? 0 : dice < 3 ? 1 + chance(&w->chance, 50) : 3000;
    if (chance(&w->chance, 8) == 0)
        request.flags |= HF_FLAG_NO_RENEW;
    *ret_event = (struct event){ .name = (uint8_t)lock,
                                 .lock = (uint8_t)request.kind,
                                 .permits = request.permits ? request.permits : 1,
                                 .ttl = 1 };
    return request;
}

static void think(struct worker *w)
{
    unsigned how = chance(&w->chance, 10);

    if (how > 2)
        usleep(chance(&w->chance, how > 8 ? 8000 : 1000));
}

static void count(struct worker *w, hf_lease *lease)
{
    struct faults *f = w->faults;
    struct counting counting;
    uint64_t token;
    hf_status status = hf_lease_fence(lease, &token, &contract_error);

    if (status == HF_LOST)
        return;
    EXPECT(HF_OK, status);
    counting = count_begin(&w->vault, token);
    f->inside[w->index] = 1;
    think(w);
    f->inside[w->index] = 0;
    if (count_end(&w->vault, counting) == HF_OK)
        f->guarded++;
    else
        f->fenced++;
    f->plain++;
}

static bool refused_honestly(hf_status status)
{
    return status == HF_BUSY || status == HF_TIMEOUT || status == HF_UNKNOWN ||
           status == HF_UNAVAILABLE || status == HF_TOO_SHORT;
}

static void once(struct worker *w)
{
    struct history *history = w->faults->history;
    struct event event;
    hf_acquire_request request = choose(w, &event);
    hf_lease *lease;
    hf_status status;
    bool held;

    event.number = atomic_fetch_add(&history->lane[w->index].number, 1) + 1;
    note(w, event, EV_ASK);
    status = hf_acquire(w->store, &request, &lease, &contract_error);
    atomic_fetch_add(&history->lane[w->index].progress, 1);
    if (status != HF_OK) {
        if (!refused_honestly(status)) {
            fprintf(stderr, "worker %u: %s: %s\n", w->index, hf_status_name(status),
                    contract_error.text);
            FAIL("an acquire that is refused for a reason that is none");
        }
        w->faults->failed[status]++;
        return;
    }
    event.token = hf_lease_token(lease);
    held = certain(w, event, lease, EV_GOT);
    if (event.name == LOCK_MUTEX)
        count(w, lease);
    else
        think(w);
    held = held && certain(w, event, lease, EV_STILL);
    note(w, event, held ? EV_LETTING : EV_LOST);
    event.status = (uint8_t)hf_release(lease, &contract_error);
    note(w, event, EV_LET);
}

/* Many open a fresh cluster at once, and one of them starts it. */
static hf_store *open_patiently(const char *url)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store = NULL;

    options.open_wait_ms = LIMIT_MS;
    EXPECT(HF_OK, hf_open(url, &options, &store, &contract_error));
    return store;
}

int fault_worker(struct faults *faults, unsigned index)
{
    struct worker w = { .faults = faults, .index = index };

    contract_alone = true;
    w.chance = faults->seed * 1009 + index;
    while (!faults->go)
        nap_ms(1);
    w.store = open_patiently(faults->url);
    vault_open(&w.vault, faults->vault);
    atomic_fetch_add(&faults->go, 1);
    while (!faults->history->stop)
        once(&w);
    close_hard(w.store);
    vault_close(&w.vault);
    return 0;
}
