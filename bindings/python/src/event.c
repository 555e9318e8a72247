/* SPDX-License-Identifier: MIT */
/*
 * Callbacks of the library that enter the interpreter: from its own threads (events of leases that were acquired by a blocking
 * call) and from hf_store_process().
 *
 * A thread that asks for the GIL after the interpreter has ended never comes back, with whatever it holds. So callbacks are
 * counted, and an atexit function ends them: no new one enters, and those that run are waited for.
 */
#include "binding.h"

#include <time.h>

#define STOP_WAIT_MS 5000

static atomic_int inside;
static atomic_bool stopped;

bool callback_enter(PyGILState_STATE *ret_state)
{
    atomic_fetch_add(&inside, 1);
    if (atomic_load(&stopped)) {
        atomic_fetch_sub(&inside, 1);
        return false;
    }
    *ret_state = PyGILState_Ensure();
    return true;
}

void callback_leave(PyGILState_STATE state)
{
    PyGILState_Release(state);
    atomic_fetch_sub(&inside, 1);
}

void callbacks_stop(void)
{
    struct timespec pause = { .tv_nsec = 1000000 };

    atomic_store(&stopped, true);
    Py_BEGIN_ALLOW_THREADS;
    /* A callback that never ends must not keep the process from ending. */
    for (int i = 0; i < STOP_WAIT_MS && atomic_load(&inside) > 0; i++)
        nanosleep(&pause, NULL);
    Py_END_ALLOW_THREADS;
}

/* The threads that were inside are the parent's. */
void callbacks_forked(void)
{
    atomic_store(&inside, 0);
}

void event_happened(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    PyGILState_STATE state;
    PyObject *callback = arg, *told, *words;

    (void)lease;
    if (!callback_enter(&state))
        return;
    Py_INCREF(callback); /* a release from within it must not free it under its feet */
    words = text_of(text ? text : "");
    told = words ? PyObject_CallFunction(callback, "iO", (int)event, words) : NULL;
    if (!told)
        PyErr_WriteUnraisable(callback);
    Py_XDECREF(told);
    Py_XDECREF(words);
    Py_DECREF(callback);
    callback_leave(state);
}
