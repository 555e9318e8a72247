/* SPDX-License-Identifier: MIT */
/* See ticket.h. */
#include "ticket.h"

#include "futex.h"

void ticket_init(struct ticket_lock *lock, int shared)
{
    lock->shared = shared;
    lock->next = 1;
    lock->slots[1].turn = 1; /* ticket 1 need not wait; 0 is no ticket */
}

uint32_t ticket_acquire(struct ticket_lock *lock)
{
    uint32_t ticket = atomic_fetch_add(&lock->next, 1);
    _Atomic uint32_t *word = &lock->slots[ticket % TICKET_SLOTS].turn;
    uint32_t turn;

    while ((turn = atomic_load(word)) != ticket)
        futex_wait(word, turn, lock->shared);
    return ticket;
}

/* Who drew the next ticket after we looked at `next` finds its turn set and does not sleep. */
void ticket_release(struct ticket_lock *lock, uint32_t ticket)
{
    uint32_t following = ticket + 1;
    _Atomic uint32_t *word = &lock->slots[following % TICKET_SLOTS].turn;

    atomic_store(word, following);
    if (atomic_load(&lock->next) != following)
        futex_wake(word, 1, lock->shared);
}
