/* SPDX-License-Identifier: MIT */
/*
 * Test engines in memory: proof that an engine of any kind drops into core.
 *
 *   memevent:NAME   HFI_EVENT, everything declared but HF_CAP_PROCESS and scripts. Like Redis: a
 *                   connection that may lose, delay or repeat messages (see mem_fault()).
 *   memblock:NAME   HFI_BLOCKING, like SQL: no barge, no lock_delay, no local passing, no watch.
 *   membare:NAME    HFI_EVENT, like memcached: mutexes with a ttl, cells that nobody is told of,
 *                   and nothing else.
 *
 * All opens of one NAME in this process see the same server, also across schemes. Parameters:
 * `call=500ms` is how long an answer may take before the outcome counts as unknown; `late=1ms`
 * (memblock) is how long an acquire takes from submit() to the server.
 */
#ifndef MEM_ENGINE_H
#define MEM_ENGINE_H

#include "engine/engine.h"
#include "mem_server.h"

/* Make the three schemes known to core. Any number of times. */
void mem_engine_register(void);

/* Forget every server that no store is open on. */
void mem_engine_reset(void);

/* ---- faults, by server name; they hit the connections of EVENT engines ------ */

enum mem_fault {
    MEM_LOSE_REQUEST,
    MEM_LOSE_REPLY,
    MEM_DELAY_REQUEST, /* by delay_ms; what is sent later may overtake it */
    MEM_DELAY_REPLY,
    MEM_REPEAT_REQUEST, /* at once, and again after delay_ms */
    MEM_REPEAT_REPLY,
    MEM_LOSE_PUSH, /* grants and losses that the server tells unasked; `verb` is ignored */
    MEM_DELAY_PUSH,
    MEM_FAULTS
};

/* The next `count` messages about `verb` (MEM_VERBS: any) suffer `fault`. A rule replaces the
 * earlier one of the same fault. */
void mem_fault(const char *server, enum mem_fault fault, enum mem_verb verb, unsigned count,
               int64_t delay_ms);
/* Every message suffers something in `percent` of the cases, late ones by up to late_ms. */
void mem_chaos(const char *server, uint64_t seed, unsigned percent, int64_t late_ms);
/* No more faults; what is delayed still comes. */
void mem_heal(const char *server);
/* Cut (or mend) all connections: new requests are HF_UNAVAILABLE, those under way unknown. */
void mem_cut(const char *server, bool cut);

/* How many requests of that kind have reached the server. */
unsigned long mem_count(const char *server, enum mem_verb verb);
/* The most requests of that kind that came as one message. */
unsigned long mem_largest(const char *server, enum mem_verb verb);
/* See mem_server_forget() and mem_server_set_token(). */
void mem_forget(const char *server);
/* Tell core, on every connection, that its leases are in doubt. `between`, if it is not NULL, runs once when core uncorks what it
 * sends on that account. Without other callers. */
void mem_doubt(const char *server, void (*between)(void *arg), void *arg);
void mem_set_block(const char *server, uint32_t tokens);
void mem_set_token(const char *server, uint64_t token);

#endif
