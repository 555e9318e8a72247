/* SPDX-License-Identifier: MIT */
/*
 * Blocking calls that signals can interrupt.
 *
 * Python runs signal handlers on the main thread only. The library's calls go on after EINTR, as they must: a request that
 * left its queue at each SIGCHLD would lose its place. So the main thread does not block in the library itself: a thread of
 * ours makes the call, and the main thread sleeps in poll(2) on a pipe. The end of the call writes to that pipe, and so does
 * Python's signal handler (signal.set_wakeup_fd()), whichever thread the signal came to. If a Python handler raises, the call is
 * cancelled by its hf_cancel, and its end is awaited: it may have been granted at that moment, and then is given back.
 *
 * A call that can be tried without waiting is tried on the main thread first: a free lock costs no thread. A server that does
 * not answer would hold such a try for seconds, so watch.c cancels one of an acquire after TRY_MS, and the thread goes on with
 * it. Other threads call the library directly, because no signal handler runs on them.
 *
 * The library knows a caller by its thread, for reentrancy and deadlocks. The main thread must be the same one whichever
 * thread calls for it: it has a scope, main_scope.
 */
#include "binding.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

uint64_t main_scope;
static unsigned long main_thread;

enum { RUNNING, DONE, ABANDONED };

struct job {
    struct call *call;
    int pipe[2];
    atomic_int state;
};

void wait_set_main(unsigned long thread)
{
    struct timespec now;

    main_thread = thread;
    clock_gettime(CLOCK_REALTIME, &now);
    /* Not a number that a program would choose for a scope of its own. */
    main_scope = ((uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec << 8 ^ (uint64_t)getpid()) |
                 UINT64_C(1) << 63;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void set_wait(struct call *call, int64_t wait_ms)
{
    call->wait_ms = wait_ms;
    for (size_t i = 0; call->requests && i < call->many; i++)
        call->requests[i].wait_ms = wait_ms;
}

static void set_cancel(struct call *call, hf_cancel *cancel)
{
    call->cancel = cancel;
    for (size_t i = 0; call->requests && i < call->many; i++)
        call->requests[i].cancel = cancel;
}

static void end_job(struct job *job)
{
    close(job->pipe[0]);
    close(job->pipe[1]);
    PyMem_RawFree(job);
}

/* The caller has gone: the call is ours, and what it got is given back. */
static void end_abandoned(struct job *job)
{
    PyGILState_STATE state;

    if (callback_enter(&state)) {
        call_discard(job->call, &job->call->found.result);
        call_free(job->call);
        callback_leave(state);
    }
    end_job(job);
}

static void *run(void *arg)
{
    struct job *job = arg;
    struct call *call = job->call;
    int running = RUNNING;

    call->found.result.status = call->type->block(call, &call->found);
    if (atomic_compare_exchange_strong(&job->state, &running, DONE)) {
        ssize_t written = write(job->pipe[1], "", 1); /* the job is joined after this */

        (void)written;
    } else {
        end_abandoned(job);
    }
    return NULL;
}

static struct job *start(struct call *call, pthread_t *ret_thread)
{
    struct job *job = PyMem_RawCalloc(1, sizeof *job);
    sigset_t all, before;
    int error;

    if (!job || pipe2(job->pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        PyMem_RawFree(job);
        return NULL;
    }
    job->call = call;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(ret_thread, NULL, run, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        return job;
    end_job(job);
    return NULL;
}

/* signal.set_wakeup_fd(), whose C form programs cannot link before Python 3.13. The one of before. If it fails, a signal that
 * comes to this thread still ends poll(2) by EINTR. */
static int set_wakeup(int fd)
{
    static PyObject *function;
    PyObject *module, *before = NULL;
    int was = -1;

    if (!function && (module = PyImport_ImportModule("_signal"))) {
        function = PyObject_GetAttrString(module, "set_wakeup_fd");
        Py_DECREF(module);
    }
    if (function)
        before = PyObject_CallFunction(function, "i", fd);
    if (before)
        was = (int)PyLong_AsLong(before);
    Py_XDECREF(before);
    PyErr_Clear();
    return was;
}

/* Sleep until the call has ended. Signal handlers run meanwhile; false: one has raised. */
static bool sleep_until_done(struct job *job)
{
    char bytes[64];
    PyObject *raised[3];
    int before = set_wakeup(job->pipe[1]), now;
    bool quiet = true;

    while (quiet && atomic_load(&job->state) != DONE) {
        struct pollfd fd = { .fd = job->pipe[0], .events = POLLIN };

        quiet = PyErr_CheckSignals() == 0;
        if (!quiet)
            break;
        Py_BEGIN_ALLOW_THREADS;
        if (poll(&fd, 1, -1) > 0)
            while (read(fd.fd, bytes, sizeof bytes) > 0)
                ;
        Py_END_ALLOW_THREADS;
    }
    /* An event loop that runs here has its own; a handler may have set another. */
    PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
    now = set_wakeup(before);
    if (now != job->pipe[1])
        set_wakeup(now);
    PyErr_Restore(raised[0], raised[1], raised[2]);
    return quiet;
}

/* A handler has raised. Nothing can cancel hf_yield() and hf_convert(): these go on, and end without us. */
static bool abandon(struct job *job)
{
    int running = RUNNING;

    if (job->call->cancel) {
        hf_cancel_fire(job->call->cancel);
        return false;
    }
    return atomic_compare_exchange_strong(&job->state, &running, ABANDONED);
}

static bool block_interruptibly(struct call *call)
{
    pthread_t thread;
    struct job *job = start(call, &thread);
    bool quiet;

    if (!job) {
        Py_BEGIN_ALLOW_THREADS;
        call->found.result.status = call->type->block(call, &call->found);
        Py_END_ALLOW_THREADS;
        return true;
    }
    quiet = sleep_until_done(job);
    if (!quiet && abandon(job)) {
        call->abandoned = true;
        pthread_detach(thread);
        return false;
    }
    Py_BEGIN_ALLOW_THREADS;
    pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS;
    end_job(job);
    return quiet;
}

/* ---- from another thread: holdfast.Cancel ---------------------------------------------------- */

static bool follow(CancelObject *cancel, hf_cancel *one)
{
    PyObject *number = PyLong_FromVoidPtr(one);
    bool ok = number && PySet_Add(cancel->open, number) == 0;

    Py_XDECREF(number);
    if (ok && cancel->fired)
        hf_cancel_fire(one);
    return ok;
}

static void unfollow(CancelObject *cancel, hf_cancel *one)
{
    PyObject *type, *value, *trace, *number;

    PyErr_Fetch(&type, &value, &trace);
    number = PyLong_FromVoidPtr(one);
    if (!number || PySet_Discard(cancel->open, number) < 0)
        PyErr_Clear();
    Py_XDECREF(number);
    PyErr_Restore(type, value, trace);
}

/* A canceller that has fired stays fired: another one, which also follows `cancel`. */
static bool cancel_anew(struct call *call, CancelObject *cancel)
{
    hf_cancel *one = NULL;
    hf_status status = hf_cancel_open(&one);

    if (status != HF_OK) {
        raise_status(status, "cancel");
        return false;
    }
    if (cancel && !follow(cancel, one)) {
        hf_cancel_close(one);
        return false;
    }
    if (cancel)
        unfollow(cancel, call->cancel);
    hf_cancel_close(call->cancel);
    set_cancel(call, one);
    return true;
}

/* ---- on the main thread --------------------------------------------------------------------- */

/* Is it worth to wait after a try that ended in this way? */
static bool may_come(hf_status status)
{
    return status == HF_BUSY || status == HF_TIMEOUT || status == HF_UNAVAILABLE ||
           status == HF_UNKNOWN;
}

/* The longest that a try of an acquire may keep the main thread from signals. Much longer than a round trip: a second try costs
 * one more. */
#define TRY_MS 300

/* Try without waiting. true: it was cut short because no answer came. Only acquires are: what they may have got without our
 * knowledge is given back by the library, while a repeated limit_take would count twice. */
static bool try_once(struct call *call, int64_t wait_ms)
{
    bool watched = call->requests && call->cancel;

    if (watched)
        watched = watch_begin(call->cancel, wait_ms > 0 && wait_ms < TRY_MS ? wait_ms : TRY_MS);
    set_wait(call, 0);
    Py_BEGIN_ALLOW_THREADS;
    call->found.result.status = call->type->block(call, &call->found);
    Py_END_ALLOW_THREADS;
    set_wait(call, wait_ms);
    return watched && watch_end();
}

static bool block_main(struct call *call, CancelObject *cancel)
{
    int64_t wait_ms = call->wait_ms, began = now_ms();

    /* A wait that is out of range is refused, whether it is free or not. */
    if ((call->type->flags & CALL_TRY_FIRST) && wait_ms >= HF_FOREVER &&
        wait_ms <= HF_DURATION_MAX_MS) {
        bool cut = try_once(call, wait_ms);
        hf_status status = call->found.result.status;
        int64_t left;

        if (!may_come(status) && !(cut && status == HF_CANCELLED))
            return true;
        left = wait_ms - (now_ms() - began);
        if (wait_ms > 0 && left <= 0 && status == HF_UNKNOWN)
            return true; /* no time is left to learn more */
        if (cut && !cancel_anew(call, cancel))
            return false;
        if (wait_ms > 0)
            set_wait(call, left > 1 ? left : 1);
    }
    return block_interruptibly(call);
}

/* ---- the entry ------------------------------------------------------------------------------- */

static bool block_somehow(struct call *call, CancelObject *cancel)
{
    bool is_main = PyThread_get_thread_ident() == main_thread;

    for (size_t i = 0; is_main && call->requests && i < call->many; i++)
        if (call->requests[i].scope == 0)
            call->requests[i].scope = main_scope;
    if (is_main && (call->type->flags & CALL_WAITS) && call->wait_ms != 0)
        return block_main(call, cancel);
    Py_BEGIN_ALLOW_THREADS;
    call->found.result.status = call->type->block(call, &call->found);
    Py_END_ALLOW_THREADS;
    return true;
}

bool call_block(struct call *call, CancelObject *cancel)
{
    hf_cancel *one = NULL;
    bool quiet;

    call->found.result =
        (hf_result){ .size = sizeof call->found.result, .error = &call->found.error };
    if ((call->type->flags & CALL_WAITS) && !(call->type->flags & CALL_CHANGES) &&
        call->wait_ms != 0 && (cancel || PyThread_get_thread_ident() == main_thread)) {
        hf_status status = hf_cancel_open(&one);

        if (status != HF_OK) {
            raise_status(status, "cancel");
            return false;
        }
        set_cancel(call, one);
        if (cancel && !follow(cancel, one)) {
            hf_cancel_close(one);
            return false;
        }
    }
    quiet = block_somehow(call, cancel);
    if (one)
        one = call->cancel; /* cancel_anew() */
    if (one && cancel)
        unfollow(cancel, one);
    if (one)
        hf_cancel_close(one);
    return quiet;
}

/* ---- the type ----------------------------------------------------------------------------------- */

static PyObject *cancel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    CancelObject *self;

    if (PyTuple_GET_SIZE(args) != 0 || (kwargs && PyDict_GET_SIZE(kwargs) != 0)) {
        PyErr_SetString(PyExc_TypeError, "Cancel() takes no arguments");
        return NULL;
    }
    self = (CancelObject *)type->tp_alloc(type, 0);
    if (self && !(self->open = PySet_New(NULL)))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void cancel_dealloc(CancelObject *self)
{
    Py_XDECREF(self->open);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *cancel_fire(CancelObject *self, PyObject *none)
{
    PyObject *all = PySequence_List(self->open);

    (void)none;
    if (!all)
        return NULL;
    self->fired = true;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(all); i++)
        hf_cancel_fire(PyLong_AsVoidPtr(PyList_GET_ITEM(all, i)));
    Py_DECREF(all);
    Py_RETURN_NONE;
}

static PyObject *cancel_fired(CancelObject *self, void *none)
{
    (void)none;
    return PyBool_FromLong(self->fired);
}

static PyMethodDef cancel_methods[] = { { "fire", (PyCFunction)cancel_fire, METH_NOARGS,
                                          "fire()\n--\n\nEnd the waiting of every call that was "
                                          "given this canceller, now and from now on." },
                                        { NULL, NULL, 0, NULL } };
static PyGetSetDef cancel_fields[] = { { "fired", (getter)cancel_fired, NULL, "True after fire().",
                                         NULL },
                                       { NULL, NULL, NULL, NULL, NULL } };

PyTypeObject cancel_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast.Cancel",
    .tp_basicsize = sizeof(CancelObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc =
        "Cancel()\n--\n\nEnds blocking calls from another thread: they raise holdfast.Cancelled.",
    .tp_new = cancel_new,
    .tp_dealloc = (destructor)cancel_dealloc,
    .tp_methods = cancel_methods,
    .tp_getset = cancel_fields,
};
