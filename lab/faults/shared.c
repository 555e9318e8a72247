/* SPDX-License-Identifier: MIT */
/* The memory that all processes of a run share; see shared.h. */
#include "shared.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const wrong_names[WRONGS] = { "none", "validity", "early" };

struct shared *shared_map(int fd)
{
    void *map = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED)
        return NULL;
    return map;
}

struct shared *shared_new(int *ret_fd)
{
    int fd = memfd_create("faults", MFD_CLOEXEC);
    struct shared *shared = NULL;

    if (fd >= 0 && ftruncate(fd, sizeof *shared) == 0)
        shared = shared_map(fd);
    if (shared)
        *ret_fd = fd;
    else if (fd >= 0)
        close(fd);
    return shared;
}

/* The log is the large part of it: only what was used is wiped. */
void shared_reset(struct shared *shared)
{
    struct history *history = &shared->history;
    size_t counts = offsetof(struct shared, ledgers) - offsetof(struct shared, trouble);

    memset((char *)shared + offsetof(struct shared, trouble), 0, counts);
    memset(shared->ledgers, 0, sizeof shared->ledgers);
    for (unsigned i = 0; i < LANES_MAX; i++)
        memset(&history->lane[i], 0, offsetof(struct lane, events));
    memset(history, 0, offsetof(struct history, lane));
    history->lanes = WORKERS;
    history->capacities[LOCK_MUTEX] = 1;
    history->capacities[LOCK_BUSY] = 1;
    history->capacities[LOCK_RW] = UINT32_MAX;
    history->capacities[LOCK_SEMAPHORE] = SEMAPHORE_CAPACITY;
    history->ties = true; /* of leases that do not exclude each other: Redlock */
    history->doubles =
        true; /* count them: whether they are allowed is not the checker's question */
}

void shared_free(struct shared *shared, int fd)
{
    munmap(shared, sizeof *shared);
    close(fd);
}

void ledger_note(struct ledger *ledger, int64_t number)
{
    atomic_fetch_add(&ledger->done, 1);
    if (number >= 0 && number < LEDGER_ROOM && atomic_fetch_add(&ledger->seen[number], 1) > 0)
        atomic_fetch_add(&ledger->lost, 1);
}

unsigned chance(uint64_t *state, unsigned n)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) % n);
}
