/* SPDX-License-Identifier: MIT */
/*
 * The extension module holdfast._holdfast: what its files share.
 *
 * Every call of the library is one struct call_type: how its arguments are read, its blocking form, its asynchronous form, and
 * what becomes of the result. Both forms end in one hf_result, so each call is described once (calls_lock.c, calls_prims.c).
 * store.c runs them, wait.c lets signals interrupt the blocking form, lease.c has the objects that own handles, give.c makes
 * Python objects of results.
 *
 * The GIL is released around every call of the library that may block or may run a callback; callbacks take it (event.c). Fields
 * of Python objects are read and written with the GIL only.
 */
#ifndef HOLDFAST_BINDING_H
#define HOLDFAST_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <holdfast/holdfast.h>
#include <holdfast/primitives.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define ALL_MAX HF_ACQUIRE_ALL_MAX

/* ---- objects ------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD hf_store *handle; /* NULL: closed, or not open yet */
    pid_t pid;
    bool reported; /* as not closed */
    PyObject
        *listeners; /* {lease handle: (callback, holds)}: what on_event_arg points to stays alive */
} StoreObject;

typedef struct {
    PyObject_HEAD hf_lease *handle; /* NULL: it has ended for this object */
    StoreObject *store;
    bool exported; /* it lives on without us: not forgotten */
    bool reported; /* as forgotten */
    bool untaken;  /* an exception may yet come between the call and its caller */
} LeaseObject;

/* What an acquire asks for. The struct points into the objects. */
typedef struct {
    PyObject_HEAD hf_acquire_request request;
    PyObject *name, *label, *session, *on_event;
} RequestObject;

/* Ends blocking calls from another thread. Each call has an hf_cancel of its own, for signals end one call and not all. */
typedef struct {
    PyObject_HEAD bool fired;
    PyObject *open; /* set of the hf_cancel handles of the calls that wait */
} CancelObject;

extern PyTypeObject store_type, lease_type, request_type, cancel_type;

/* ---- one call -------------------------------------------------------------------------- */

struct call_type;

/* What a blocking form returned, in the shape of the asynchronous one. */
struct found {
    hf_result result;
    hf_error error;
    hf_lease *leases[ALL_MAX];
    uint64_t versions[HF_CELLS_MAX];
    hf_limit_result limit;
    hf_once_mark mark;
};

/* Inputs of a call, and what it needs until its end. Pointers point into `args`. */
struct call {
    const struct call_type *type;
    PyObject *args; /* keeps the inputs alive */
    StoreObject *store;
    hf_store *at;       /* its handle */
    LeaseObject *lease; /* calls of a lease: the object, ... */
    hf_lease *handle,
        *before; /* ... and what it had when the call began; hf_yield() and hf_convert() write the first */
    Py_buffer name, bytes;
    const char *text, *more_text;
    unsigned long long token, version;
    long long number, more_number, wait_ms, ttl_ms;
    unsigned int count, burst, permits;
    int kind, flag;
    hf_cancel *cancel;
    hf_acquire_request *requests;
    RequestObject **asked; /* what `requests` was made of */
    LeaseObject **leases;
    hf_lease **handles;
    hf_cell_item *items;
    size_t many;       /* of these arrays */
    PyObject *capsule; /* what an observer saw last, ... */
    const void *last;  /* ... and what is in it */
    PyObject *fn;      /* hf_cell_update() */
    PyObject *kept;    /* what its last answer points to; CALL_CHANGES: the callback of its lease */
    PyObject *raised[3];
    PyObject *callback; /* asynchronous form: is called with (result, error) */
    bool abandoned;     /* the thread that makes the call owns it now */
    struct found found; /* blocking form */
};

#define CALL_WAITS 1u /* it may block for as long as it likes: signals must interrupt it */
#define CALL_TRY_FIRST \
    2u                   /* wait_ms 0 has no effect if it is refused, so it can be tried directly */
#define CALL_ENDS    4u  /* the handles of its leases end */
#define CALL_YIELDS  8u  /* hf_yield() */
#define CALL_CHANGES 16u /* its lease gets another handle; it takes no hf_cancel */
#define CALL_HANDS   32u /* Python code says when it has taken the leases that it gives */

struct call_type {
    const char *name;
    unsigned flags;
    uint64_t fine; /* beside HF_OK: bits of the statuses that are results and no errors */
    int (*read)(struct call *call); /* its arguments; 0: the exception is set */
    hf_status (*block)(struct call *call, struct found *found);
    hf_status (*begin)(struct call *call, hf_done_fn *done, void *arg, hf_op **ret_op,
                       hf_error *err);
    PyObject *(*give)(struct call *call, const hf_result *result);
};

extern const struct call_type lock_calls[], prim_calls[]; /* the end: a NULL name */
/* Number `index` of both lists; NULL past the last. */
const struct call_type *call_type_get(size_t index);

/* calls.c */
struct call *call_new(const struct call_type *type, PyObject *on, PyObject *args, Py_ssize_t skip);
void call_free(struct call *call);
/* With the GIL. The result as an object; NULL: the exception is set. */
PyObject *call_finish(struct call *call, const hf_result *result);
/* With the GIL. The waiter has gone: give back what the result owns. */
void call_discard(struct call *call, const hf_result *result);
int read_name(PyObject *object, void *buffer);
int read_text(PyObject *object, void *text);
/* An unsigned int, an unsigned long long. The formats "I" and "K" of PyArg_ParseTuple() wrap what does not fit: -1, 2**32 + 2. */
int read_u32(PyObject *object, void *number);
int read_u64(PyObject *object, void *number);

/* wait.c: make the call; the status is in call->found.result. false: a signal handler raised, and the caller discards the
 * result, unless it is `abandoned`: then it does not touch the call any more. */
bool call_block(struct call *call, CancelObject *cancel);
void wait_set_main(unsigned long thread);
extern uint64_t main_scope;

/* watch.c: on the main thread, fire `cancel` after `after_ms` unless watch_end() comes before. false: no memory for it. */
bool watch_begin(hf_cancel *cancel, int64_t after_ms);
/* true: it was fired. */
bool watch_end(void);

/* give.c */
PyObject *text_of(const char *text);
PyObject *give_none(struct call *call, const hf_result *result);
PyObject *give_lease(struct call *call, const hf_result *result);
PyObject *give_leases(struct call *call, const hf_result *result);
PyObject *give_any(struct call *call, const hf_result *result);
PyObject *give_same_lease(struct call *call, const hf_result *result);
PyObject *give_version(struct call *call, const hf_result *result);
PyObject *give_number(struct call *call, const hf_result *result);
PyObject *give_swapped(struct call *call, const hf_result *result);
PyObject *give_bytes(struct call *call, const hf_result *result);
PyObject *give_cell(struct call *call, const hf_result *result);
PyObject *give_commit(struct call *call, const hf_result *result);
PyObject *give_view(struct call *call, const hf_result *result);
PyObject *give_report(struct call *call, const hf_result *result);
PyObject *give_deadlocks(struct call *call, const hf_result *result);
PyObject *give_leader(struct call *call, const hf_result *result);
PyObject *give_members(struct call *call, const hf_result *result);
PyObject *give_limit(struct call *call, const hf_result *result);
PyObject *give_mark(struct call *call, const hf_result *result);
PyObject *give_once(struct call *call, const hf_result *result);
PyObject *give_latch(struct call *call, const hf_result *result);
PyObject *lacks_of(const hf_engine_lack *lacks);
/* The value is stolen, also if this fails. false: the exception is set. */
bool list_add(PyObject *list, PyObject *value);
/* What an observer has seen: of two types, so of two names. */
#define LEADER_CAPSULE  "holdfast.leader"
#define MEMBERS_CAPSULE "holdfast.members"

/* lease.c */
extern PyObject *lease_class; /* holdfast.Lease */
PyObject *lease_make(StoreObject *store, hf_lease *handle);
/* The lease `handle` uses `callback` from now on, once more. */
int listener_add(StoreObject *store, hf_lease *handle, PyObject *callback);
void listener_drop(StoreObject *store, hf_lease *handle);
PyObject *listener_get(StoreObject *store, hf_lease *handle); /* NULL: none */
void listener_move(StoreObject *store, hf_lease *from, hf_lease *to);

/* event.c */
void event_happened(hf_lease *lease, hf_event event, const char *text, void *arg);
/* A callback may enter the interpreter; false: it is ending. Then leave(). */
bool callback_enter(PyGILState_STATE *ret_state);
void callback_leave(PyGILState_STATE state);
void callbacks_stop(void);
void callbacks_forked(void);

/* store.c */
PyObject *module_call(PyObject *module, PyObject *args);
PyObject *module_begin(PyObject *module, PyObject *args);

/* stats.c */
PyObject *store_stats(StoreObject *self, PyObject *none);
PyObject *module_bound_ms(PyObject *module, PyObject *bucket);
PyObject *module_quantile_ms(PyObject *module, PyObject *args);

/* module.c */
PyObject *raise_error(const hf_error *error);
PyObject *raise_status(hf_status status, const char *what);
PyObject *make_error(const hf_error *error); /* a new exception object */

#endif
