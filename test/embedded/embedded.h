/* SPDX-License-Identifier: MIT */
/*
 * Tests of what the embedded engine promises about processes. The test process only directs: locks
 * are taken by actors, forked processes that open the store themselves and execute one command at a
 * time. So an actor can be killed, stopped, or made to crash while the test watches.
 *
 * Nothing here depends on a time being short: events are waited for, at most for
 * LIMIT_MS, and where a time matters it is compared with the engine's heartbeat.
 */
#ifndef EMBEDDED_H
#define EMBEDDED_H

#include "holdfast/holdfast.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#define LIMIT_MS     60000 /* an event that has not come by then will not come */
#define HEARTBEAT_MS 1000  /* how often a waiter of the engine looks by itself */
#define ACTORS_MAX   8192
#define ACTOR_LEASES 8
#define NAME_ROOM    64

/* ---- the place ------------------------------------------------------------------ */

/* A fresh directory for every test; teardown ends all actors and removes it. */
int place_setup(void **state);
int place_teardown(void **state);
#define TEST(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)

extern char place[256];     /* the store's directory, which does not exist yet */
extern char place_url[300]; /* what actors open; a test may add parameters before it starts any */
char *in_place(const char *file); /* its path; static, good until the next call but three */
bool file_exists(const char *file);
/* Find the lease file of now ("leases.N"). */
const char *lease_file(void);
/* Overwrite bytes of a file of the store. */
void scribble(const char *file, off_t at, const void *bytes, size_t len);

/* A case that this machine does not permit is skipped, for a reason that tools/run-tests.sh knows; need_mounts(): a case
 * that mounts something. embedded_result(), of what cmocka_run_group_tests() said, is what main() returns then:
 * SKIPPED_STATUS and the reason if some case was skipped so and none failed. */
#define SKIPPED_STATUS 77
void skip_for(const char *why);
void need_mounts(void);
int embedded_result(int failed);

/* ---- actors ----------------------------------------------------------------------- */

/* What an actor is asked, and what it answers. Plain data: both cross a socket. */
struct ask {
    hf_kind kind;
    uint32_t capacity, permits;
    uint64_t flags;
    int64_t wait_ms, ttl_ms, lock_delay_ms;
    uint64_t token, number;
    int lease; /* which of its leases, from 0 */
    char name[NAME_ROOM];
};

struct answer {
    hf_status status;
    int native;
    char text[HF_ERROR_TEXT_MAX];
    uint64_t token;
    int64_t number;
    int64_t done_ns; /* when it was done, see now_ns() */
};

/* What an actor has. */
struct self {
    hf_store *store;
    hf_lease *leases[ACTOR_LEASES];
};

/* Something for an actor to do. An actor is a fork of this program: it knows the function. */
typedef void actor_fn(struct self *self, const struct ask *ask, struct answer *answer);

struct actor {
    pid_t pid;
    int fd;
    bool gone; /* it has been waited for */
    int status;
};

struct actor *actor_start(void);     /* and let it open the store: must succeed */
struct actor *actor_start_raw(void); /* it has no store yet */
/* Begin; then wait for the answer (or look whether it is there). */
void actor_begin(struct actor *actor, actor_fn *fn, struct ask ask);
struct answer actor_answer(struct actor *actor);
bool actor_answered(struct actor *actor);
bool actor_answered_within(struct actor *actor, int64_t ms);
struct answer actor_do(struct actor *actor, actor_fn *fn, struct ask ask);

void actor_signal(struct actor *actor, int signal);
void actor_stop(struct actor *actor);     /* SIGSTOP, and wait until it has stopped */
void actor_continue(struct actor *actor); /* SIGCONT */
void actor_kill(struct actor *actor);     /* SIGKILL, and wait for its end */
void actor_wait_end(struct actor *actor);
void actor_gone(struct actor *actor); /* somebody else has waited for it */
void actor_quit(struct actor *actor); /* let it close its store and go */

/* What actors can do. */
actor_fn do_open, do_acquire, do_release, do_state, do_break, do_renew, do_close, do_nothing;
actor_fn do_count_waiters, do_count_holders; /* of ask.name, in answer.number */
actor_fn do_resize;                          /* ask.name to ask.capacity */
actor_fn do_size; /* answer.number: the size of ask.name that was set; 0: none */
actor_fn do_slot; /* answer.number: the first number of the lease; -1: it has none */

/* Shorter. A wait is HF_FOREVER unless said otherwise. */
struct ask mutex(const char *name);
struct ask reader(const char *name);
struct ask writer(const char *name);
struct ask permits_of(const char *name, uint32_t capacity, uint32_t permits);
struct ask lease_number(int lease);

uint64_t take(struct actor *actor, struct ask ask);    /* must succeed; the token */
hf_status try_it(struct actor *actor, struct ask ask); /* once; released if granted */
void wait_for(struct actor *actor, struct ask ask);    /* begin to wait, and see it in the queue */
uint64_t granted(struct actor *actor);     /* what wait_for() began has been granted: the token */
void give(struct actor *actor, int lease); /* must succeed */

/* ---- looking on --------------------------------------------------------------------- */

/* An actor that only inspects; started when first needed. */
struct actor *observer(void);
void observer_quit(void);
int64_t waiters_of(const char *name);
int64_t holders_of(const char *name);

int64_t now_ns(void);
int64_t now_ms(void);
void nap_ms(int64_t ms);
#define AWAIT(truth)                                                \
    do {                                                            \
        int64_t await_until = now_ms() + LIMIT_MS;                  \
        while (!(truth)) {                                          \
            if (now_ms() >= await_until)                            \
                fail_msg("not within %d ms: %s", LIMIT_MS, #truth); \
            nap_ms(2);                                              \
        }                                                           \
    } while (0)
#define OK(call) assert_ok((call), #call, __FILE__, __LINE__)
void assert_ok(struct answer answer, const char *text, const char *file, int line);
int64_t median(int64_t *values, size_t count);

/* Is this a build with a sanitizer? Those neither survive a fork in the middle of an allocation of
 * another thread nor a second copy of the C library. */
bool sanitized(void);

/* A field of /proc/PID/status, -1: none. */
int64_t status_field(pid_t pid, const char *field);
/* Is every thread of it asleep? */
bool asleep(pid_t pid);

#endif
