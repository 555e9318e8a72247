/* SPDX-License-Identifier: MIT */
/*
 * The limit for hand-offs: a bare ticket lock on futexes. FIFO; each waiter sleeps on a word of its
 * own and the one who leaves wakes only the next. It knows no names, owners or deaths: a holder that
 * is killed blocks it for ever.
 */
#ifndef BENCH_TICKET_H
#define BENCH_TICKET_H

#include <stdatomic.h>
#include <stdint.h>

#define TICKET_SLOTS 64 /* more waiters than that cannot be */

struct ticket_lock {
    _Alignas(64) _Atomic uint32_t next; /* the next ticket to be drawn */
    int shared;                         /* between processes; set before use */
    struct {
        _Alignas(64) _Atomic uint32_t turn; /* futex: the ticket that may go on here */
    } slots[TICKET_SLOTS];
};

/* In zeroed memory, shared if `shared`. */
void ticket_init(struct ticket_lock *lock, int shared);
uint32_t ticket_acquire(struct ticket_lock *lock); /* returns our ticket */
void ticket_release(struct ticket_lock *lock, uint32_t ticket);

#endif
