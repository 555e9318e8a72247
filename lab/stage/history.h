/* SPDX-License-Identifier: MIT */
/*
 * What happened in one play: a list of events in memory that all processes of the play share. So it keeps what a process wrote before it
 * was killed. Events of one process are in order; between processes their times decide (CLOCK_BOOTTIME).
 *
 * When an event is noted matters: a client notes GOT after the answer has come, and LET before it asks for the release. In between it
 * certainly believed to hold.
 */
#ifndef LAB_HISTORY_H
#define LAB_HISTORY_H

#include "../phrase.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_kind {
    EV_NONE,
    /* noted by clients, in their lane. If there are several locks, `other` of ASK, TRY, GOT, LET and GAVE_UP says which: the
     * lane of its server; else it is -1 */
    EV_ASK,     /* wants the lock from now on */
    EV_TRY,     /* asked, and was refused */
    EV_GOT,     /* believes to hold it; token, or 0 */
    EV_LET,     /* does not any more: is about to give it back */
    EV_LOST,    /* was told that it is lost */
    EV_GAVE_UP, /* does not want it any more: timeout, deadlock, an error */
    EV_READ,    /* lane `other`, value */
    EV_WRITE,   /* the same: accepted; token, or 0 */
    EV_REFUSED, /* a write was refused; token: ours, value: the highest that was seen */
    EV_CLAIM,   /* presented its token to the resource `other` */
    EV_DONE,    /* its work has an end, a good one */
    EV_STEP,    /* step `value` of the experiment happens here; any lane */
    EV_USES,    /* from now on it asks the server of lane `other` only; without it, all servers */
    EV_SIGNAL,  /* for stage_await() and await(): value says which; not drawn */
    /* noted by the director */
    EV_PAUSED,
    EV_RESUMED,
    EV_KILLED,
    EV_STARTED, /* again */
    EV_NOTE,    /* text, in any lane */
    /* noted by observers, in a server's lane */
    EV_OWNER, /* the server says: lane `other` has it (-1: nobody); token, or 0; text: why a client that still believes has it no more */
    EV_VALUE, /* a resource: its value, as it was at the begin, or as seen by an observer */
};

struct event {
    int64_t at_ns;
    int64_t value;
    uint64_t token;
    /* static: the same address in all processes; of WRITE and REFUSED: the arrow's label */
    const struct phrase *text;
    int16_t lane, other;
    uint8_t kind;
    bool bad; /* a step, note or write that is drawn in red */
    _Atomic bool ready;
};

#define HISTORY_EVENTS 16384
#define HISTORY_LANES  32 /* of which beliefs are counted */

struct history {
    _Atomic uint32_t count;
    _Atomic uint32_t told; /* raised after each event: what waiters sleep on */
    _Atomic bool stopped;  /* the play is over, or has failed: nobody waits any more */
    int64_t begin_ns;
    struct event events[HISTORY_EVENTS];
};

/* In memory that forked children share. NULL: errno. */
struct history *history_new(void);
void history_free(struct history *history);
void history_clear(struct history *history); /* and begin now */
/* Append, at this moment; a full history drops it. Any process. */
void history_add(struct history *history, struct event event);
/* Wait until `lane` (-1: any) has noted `count` events of this kind, at most limit_ms. false: it did not come. */
bool history_await(struct history *history, int lane, enum event_kind kind, unsigned count,
                   int64_t limit_ms);
bool history_await_signal(struct history *history, int64_t value, int64_t limit_ms);
void history_stop(struct history *history);
int64_t history_now_ns(void);

/* For readers, when all is over: events in the order of their times. The list is freed by free(). */
const struct event **history_sorted(const struct history *history, size_t *ret_count);

/* ---- questions of checkers ------------------------------------------------------------------- */

unsigned history_count(const struct history *history, int lane, enum event_kind kind);
/* When `lane` (-1: any) noted the first event of this kind, in milliseconds since the begin; -1: never. */
int64_t history_first_ms(const struct history *history, int lane, enum event_kind kind);
/* The last value that was written to, read from or seen in the resource `lane`; `none` if there is no such event. */
int64_t history_last_value(const struct history *history, int lane, int64_t none);
/* How many clients believed to hold at the same time, at most; a belief lasts from GOT to LET, LOST or KILLED. */
unsigned history_holders(const struct history *history);
/* For how long more than `capacity` believed so, in all. */
int64_t history_overlap_ms(const struct history *history, unsigned capacity);

#endif
