/* SPDX-License-Identifier: MIT */
/*
 * The contract suite: what every engine must do, seen through the public API.
 *
 * The program is one for all engines. `contract URL GROUP` runs one group of
 * cases against the store at URL, in which `{dir}` becomes a fresh directory and
 * `{id}` a fresh word for every case. What the store declares decides what is
 * expected of it: a declared capability must hold, an undeclared one must answer
 * HF_UNSUPPORTED. With `--processes` a peer is another process, else it is
 * another handle on a thread of its own.
 *
 * No case depends on a time being short: they wait for events, at most for
 * LIMIT_MS, and compare times only with bounds that noise cannot break.
 */
#ifndef CONTRACT_H
#define CONTRACT_H

#include "holdfast/holdfast.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LIMIT_MS 60000 /* an event that has not come by then will not come */

/* ---- the store under test ---------------------------------------------------- */

/* Say what store is tested; once, on the main thread. */
void contract_begin(const char *url, bool processes);

extern bool contract_processes;     /* peers are processes */
extern bool contract_alone;         /* no cmocka here: a failed check ends the program with 1 */
extern hf_store_info contract_info; /* of the store under test */

const char *contract_url(void); /* of this case */
void contract_param(
    const char *param);                /* "key=value" for the URL of this case, before it is used */
const char *contract_server(void);     /* of a store in memory: the name of its server */
const char *url_port(const char *url); /* where the port stands in a URL with one host */
bool has(uint64_t cap);                /* HF_CAP_*: all of them */
bool several_nodes(void);              /* Redlock: its nodes answer one after the other */
/* Every case that needs a capability says so first; returns false after it has checked that a
 * plain call answers HF_UNSUPPORTED where the case names one. */
#define NEEDS(caps)     \
    do {                \
        if (!has(caps)) \
            return;     \
    } while (0)

/* ---- checking, on any thread -------------------------------------------------- */

extern _Thread_local hf_error contract_error; /* pass &contract_error; a failed EXPECT prints it */

#define CHECK(truth) check_true((truth), #truth, __FILE__, __LINE__)
#define FAIL(text)   check_true(false, text, __FILE__, __LINE__)
#define EXPECT(status, call) \
    (contract_error.text[0] = 0, check_status((status), (call), #call, __FILE__, __LINE__))
void check_true(bool truth, const char *text, const char *file, int line);
void check_status(hf_status want, hf_status got, const char *text, const char *file, int line);

int64_t now_ms(void); /* the library's clock */
void nap_ms(int64_t ms);
/* Poll the condition until it is true; fail after LIMIT_MS. */
#define AWAIT(truth)                                                                    \
    do {                                                                                \
        int64_t await_until = now_ms() + LIMIT_MS;                                      \
        while (!(truth)) {                                                              \
            check_true(now_ms() < await_until, "in time: " #truth, __FILE__, __LINE__); \
            nap_ms(2);                                                                  \
        }                                                                               \
    } while (0)

/* ---- stores and leases ---------------------------------------------------------- */

hf_store *open_store(void);
void close_store(hf_store *store);

hf_acquire_request mutex_request(const char *name);                 /* try once */
hf_acquire_request waiting_request(const char *name);               /* a mutex, at most LIMIT_MS */
hf_lease *take(hf_store *store, const hf_acquire_request *request); /* must succeed */
/* For a lease that ends soon: again, if it was over before it could be given to us. */
hf_lease *take_short(hf_store *store, const hf_acquire_request *request);
void give(hf_lease *lease); /* must succeed */
/* Try it, release if it was granted, say what the answer was. */
hf_status probe(hf_store *store, const hf_acquire_request *request);

/* How many waiters (holders) the store shows for the name. */
size_t count_waiters(hf_store *store, const char *name);
size_t count_holders(hf_store *store, const char *name);

/* Wait until a lease's descriptor says that it is lost. */
void await_lost(hf_lease *lease);

/* An acquire on a thread of its own. */
struct attempt {
    hf_store *store;
    hf_acquire_request request;
    hf_lease *lease;
    hf_status status;
    int64_t ended_ms;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};
void attempt_start(struct attempt *attempt, hf_store *store, const hf_acquire_request *request);
/* Wait until its thread sleeps in the library (or is through with it). */
void attempt_settled(struct attempt *attempt);
/* The same for any thread that sets *tid before and *ended after its call. */
void thread_settled(const _Atomic int *tid, const _Atomic bool *ended);
/* The same for all threads of this process except the calling one. */
void others_settled(void);
int thread_id(void);
hf_status attempt_join(struct attempt *attempt);

/* ---- groups ------------------------------------------------------------------------ */

int contract_setup(void **state);
int contract_teardown(void **state);
#define CASE(function) cmocka_unit_test_setup_teardown(function, contract_setup, contract_teardown)

struct contract_group {
    const char *name;
    int (*run)(void);
};
/* clang-format off */
#define CONTRACT_GROUPS(X) \
    X(commit) \
    X(caps) X(acquire) X(permits) X(fifo) X(lease) X(loss) X(reentry) \
    X(local) X(inspect) X(names) X(input) X(async) X(misuse) X(closing) \
    X(forked) X(detached) X(watch) X(guard) X(counters) X(limits) X(agree) X(cells) X(process) X(hammer) X(deadlock) X(several) X(any) X(members) X(bound) \
    X(handover) X(crowd) X(wanted) X(yield) X(linger) X(convert) X(numbered) X(resize) X(stats)
/* clang-format on */
#define CONTRACT_DECLARE(name) int contract_##name(void);
CONTRACT_GROUPS(CONTRACT_DECLARE)
#undef CONTRACT_DECLARE

/* ---- both forms of a call ---------------------------------------------------------- */

/*
 * With `--async` these calls begin their asynchronous form and pump hf_store_process() until it is done: the same cases, the
 * other form. (hf_renew)(...) is always the blocking one. A lease must be of a store of open_store().
 */
extern bool contract_pumped;

/* The outcome of a call; the thread that pumps sets it. Pass both_done, with this, to the
 * asynchronous form. */
struct both {
    _Atomic bool done;
    hf_result result;
    hf_error error;
    hf_lease *leases[HF_ACQUIRE_ALL_MAX];
};
void both_done(const hf_result *result, void *arg);
/* Pump `store` (NULL: all) until it is done. Returns its status, or `begun` if it did not begin. */
hf_status both_end(hf_store *store, hf_status begun, struct both *both, hf_error *err);

hf_status both_renew(hf_lease *lease, int64_t ttl_ms, hf_error *err);
hf_status both_convert(hf_lease **lease, hf_kind kind, int64_t wait_ms, hf_error *err);
hf_status both_break(hf_store *store, const void *name, size_t name_len, uint64_t token,
                     hf_error *err);
hf_status both_resize(hf_store *store, const void *name, size_t name_len, uint32_t capacity,
                      hf_error *err);
hf_status both_inspect(hf_store *store, const void *name, size_t name_len, uint64_t flags,
                       hf_view **ret_view, hf_error *err);
hf_status both_wait(hf_store *store, uint64_t *seq, int64_t wait_ms, hf_cancel *cancel,
                    hf_error *err);
hf_status both_adopt(hf_store *store, const hf_adopt_request *request, hf_lease **ret_lease,
                     hf_error *err);
hf_status both_check(hf_store *store, hf_report **ret_report, hf_error *err);
hf_status both_deadlocks(hf_store *store, hf_deadlocks **ret_deadlocks, hf_error *err);

hf_status both_acquire_all(hf_store *store, const hf_acquire_request *requests, size_t count,
                           hf_lease **ret_leases, hf_error *err);
hf_status both_acquire_any(hf_store *store, const hf_acquire_request *requests, size_t count,
                           size_t *ret_index, hf_lease **ret_lease, hf_error *err);
hf_status both_release_all(hf_lease *const *leases, size_t count, hf_error *err);

#define hf_acquire_all(...)      both_acquire_all(__VA_ARGS__)
#define hf_acquire_any(...)      both_acquire_any(__VA_ARGS__)
#define hf_release_all(...)      both_release_all(__VA_ARGS__)
#define hf_renew(...)            both_renew(__VA_ARGS__)
#define hf_convert(...)          both_convert(__VA_ARGS__)
#define hf_lease_break(...)      both_break(__VA_ARGS__)
#define hf_semaphore_resize(...) both_resize(__VA_ARGS__)
#define hf_store_inspect(...)    both_inspect(__VA_ARGS__)
#define hf_store_wait(...)       both_wait(__VA_ARGS__)
#define hf_lease_adopt(...)      both_adopt(__VA_ARGS__)
#define hf_store_check(...)      both_check(__VA_ARGS__)
#define hf_deadlock_list(...)    both_deadlocks(__VA_ARGS__)

#endif
