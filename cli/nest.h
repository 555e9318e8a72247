/* SPDX-License-Identifier: MIT */
/*
 * A `run` inside a `run` of the same name re-enters: it runs its command under
 * the lease of the outer one.
 *
 * The outer run makes a pair of connected sockets. One end stays with it; the
 * other is inherited by everything that its command starts, its number and
 * inode in HOLDFAST_RUN_FD. An inner run makes a pair of its own and sends one
 * end of that through the inherited socket, with what it wants to hold. From then on that pair is
 * the connection of the two runs:
 *
 *   outer -> inner   GRANTED token, grace | REFUSED   the answer
 *                    ENDING ms                   the lease ends in `ms`: end your command
 *                    LOST ms                     it has ended: your command has `ms` from TERM to KILL
 *                    SIGNAL n                    the outer run received a signal, and its own
 *                                                command has ended already
 *   hang-up of inner: it has ended. The outer one releases only when all have.
 *   hang-up of outer: it is gone, and the lease ends soon. The outer one would have ended its own command
 *   `grace` ms before the lease ends, and cannot have died later than that without a word (ENDING): so an
 *   inner one that ends its command within `grace` of the hang-up ends it in time.
 *
 * A run of a version without `grace` sends 0 there and ignores what it receives: under such an
 * outer run an inner one uses a grace that fits every ttl (NEST_GRACE_UNTOLD_MS).
 *
 * A process of the command may also ask for the complete URL of the store, whose password is not in
 * its environment (util/handed.h). That connection ends with the answer.
 *
 * An environment variable that outlived its run, or that was set by hand, has no effect: the
 * descriptor must be that very socket, and its other end must answer.
 */
#ifndef CLI_NEST_H
#define CLI_NEST_H

#include "cli.h"
#include "signals.h"
#include "util/handed.h"

#include <sys/types.h>

#define NEST_VARIABLE     "HOLDFAST_RUN_FD"
#define NEST_LOCATION_MAX HFI_HANDED_LOCATION_MAX

#define NEST_GRACE_UNTOLD_MS (HF_TTL_MIN_MS / 3)

enum nest_word {
    NEST_GRANTED = 1,
    NEST_REFUSED,
    NEST_ENDING,
    NEST_LOST,
    NEST_SIGNAL,
    NEST_HUNG_UP = 1000 /* never sent: what nest_hear() makes of a hang-up */
};

struct nest_message {
    uint32_t word;
    uint32_t grace_ms; /* GRANTED: at least 1 */
    uint64_t value;
};

/* What is held, or wanted. The strings are kept by the caller. */
struct nest_hold {
    hf_kind kind;
    const void *name;
    size_t name_len;
    const char *location; /* of the store */
};

/* ---- the outer one ----------------------------------------------------------- */

struct nest {
    int fd;        /* our end; -1: none */
    int inherited; /* the command's end */
    int *inners;   /* connections to inner runs */
    pid_t *pids;   /* of each */
    size_t inner_count;
    uint32_t grace_ms;
    const char *store,
        *handed; /* what the command has as HOLDFAST_STORE, and the complete URL; NULL:
                                   they are the same. Kept by the caller */
};

/* Open the pair and put it into the environment. Without descriptors there is no nesting, and no
 * error. */
void nest_open(struct nest *nest, int64_t grace_ms);
/* The command has inherited its end: close our copy. */
void nest_started(struct nest *nest);
/* Answer the inner runs that have asked: each may share one of the leases that we hold. */
void nest_accept(struct nest *nest, const struct nest_hold *holds, const uint64_t *tokens,
                 size_t count);
/* The inner run at `index` has hung up. */
void nest_remove(struct nest *nest, size_t index);
/* Accept no more inner runs; those inside stay. */
void nest_hang_up(struct nest *nest);
void nest_tell(const struct nest *nest, enum nest_word word, uint64_t value);
void nest_close(struct nest *nest);

/* ---- the inner one ----------------------------------------------------------- */

struct nest_answer {
    int fd; /* the connection; -1: no outer run holds it, acquire as usual */
    uint64_t token;
    int64_t grace_ms;
    struct signal_event ended_by; /* number 0: none */
    bool timed_out;
};

/* Ask the outer runs, the innermost first, for at most wait_ms (HF_FOREVER). */
struct nest_answer nest_ask(const struct nest_hold *wanted, int64_t wait_ms,
                            const struct signals *signals);
/* The next message of the outer run. false: none now. */
bool nest_hear(int fd, struct nest_message *ret_message);

#endif
