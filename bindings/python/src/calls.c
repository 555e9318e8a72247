/* SPDX-License-Identifier: MIT */
/* A call from its arguments to its result: see binding.h. With the GIL. */
#include "binding.h"

#include <stdio.h>

/* ---- reading arguments ----------------------------------------------------------------------- */

/* A name: text or bytes. Both are immutable, and the arguments of the call keep them. */
int read_name(PyObject *object, void *buffer)
{
    Py_buffer *name = buffer;

    if (PyUnicode_Check(object)) {
        name->buf = (void *)PyUnicode_AsUTF8AndSize(object, &name->len);
        return name->buf != NULL;
    }
    if (PyBytes_Check(object)) {
        name->buf = PyBytes_AS_STRING(object);
        name->len = PyBytes_GET_SIZE(object);
        return 1;
    }
    PyErr_Format(PyExc_TypeError, "a name is str or bytes, not %.100s", Py_TYPE(object)->tp_name);
    return 0;
}

/* A text that ends with a NUL; None: NULL. */
int read_text(PyObject *object, void *text)
{
    const char **ret_text = text;
    Py_ssize_t len;

    *ret_text = NULL;
    if (object == Py_None)
        return 1;
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "expected str or None, not %.100s", Py_TYPE(object)->tp_name);
        return 0;
    }
    *ret_text = PyUnicode_AsUTF8AndSize(object, &len);
    if (*ret_text && strlen(*ret_text) != (size_t)len) {
        PyErr_SetString(PyExc_ValueError, "embedded null character");
        return 0;
    }
    return *ret_text != NULL;
}

/* A number that is not negative and at most `max`: Invalid, as the library says it of numbers that it does not like. */
static int read_up_to(PyObject *object, unsigned long long max, unsigned long long *ret_number)
{
    PyObject *index = PyNumber_Index(object);
    hf_error error = { .status = HF_INVALID };

    if (!index)
        return 0;
    *ret_number = PyLong_AsUnsignedLongLong(index);
    Py_DECREF(index);
    if (!PyErr_Occurred() && *ret_number <= max)
        return 1;
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_OverflowError))
        return 0;
    PyErr_Clear();
    snprintf(error.text, sizeof error.text, "a number must be from 0 to %llu", max);
    raise_error(&error);
    return 0;
}

int read_u32(PyObject *object, void *number)
{
    unsigned long long found;

    if (!read_up_to(object, UINT32_MAX, &found))
        return 0;
    *(unsigned int *)number = (unsigned int)found;
    return 1;
}

int read_u64(PyObject *object, void *number)
{
    return read_up_to(object, UINT64_MAX, number);
}

/* ---- the life of a call ------------------------------------------------------------------------ */

static bool has_ended(struct call *call)
{
    if (call->lease ? call->handle != NULL : call->store->handle != NULL)
        return false;
    raise_status(HF_INVALID, call->lease ? "the lease has been released" : "the store is closed");
    return true;
}

struct call *call_new(const struct call_type *type, PyObject *on, PyObject *args, Py_ssize_t skip)
{
    struct call *call = PyMem_RawMalloc(sizeof *call);

    if (!call)
        return (struct call *)PyErr_NoMemory();
    memset(call, 0,
           offsetof(struct call, found)); /* the rest is large, and written before it is read */
    call->type = type;
    if (PyObject_TypeCheck(on, &lease_type)) {
        call->lease = (LeaseObject *)on;
        call->handle = call->before = call->lease->handle;
        call->store = call->lease->store;
    } else {
        call->store = (StoreObject *)on;
    }
    call->at = call->store ? call->store->handle : NULL;
    Py_XINCREF(call->lease);
    Py_XINCREF(call->store);
    /* The lease may be released while the call waits. The library calls back for what comes after that too. */
    if (call->lease && call->store && (type->flags & CALL_CHANGES))
        call->kept = listener_get(call->store, call->handle);
    call->args = PyTuple_GetSlice(args, skip, PyTuple_GET_SIZE(args));
    if (call->args && !has_ended(call) && type->read(call))
        return call;
    call_free(call);
    return NULL;
}

void call_free(struct call *call)
{
    for (size_t i = 0; i < 3; i++)
        Py_XDECREF(call->raised[i]);
    Py_XDECREF(call->kept);
    Py_XDECREF(call->callback);
    Py_XDECREF(call->args);
    Py_XDECREF(call->lease);
    Py_XDECREF(call->store);
    PyMem_RawFree(call->requests);
    PyMem_RawFree(call->asked);
    PyMem_RawFree(call->leases);
    PyMem_RawFree(call->handles);
    PyMem_RawFree(call->items);
    PyMem_RawFree(call);
}

/* ---- the result ----------------------------------------------------------------------------------- */

static bool is_fine(const struct call *call, hf_status status)
{
    return status == HF_OK || (status < 64 && (call->type->fine >> status & 1));
}

/* hf_yield() has given the lease away and not got it back, unless it did nothing. */
static void lose_yielded(struct call *call, hf_status status)
{
    if (status == HF_INVALID || status == HF_LOST || status == HF_FORKED || status == HF_IN_USE)
        return;
    if (call->lease->handle == call->before)
        call->lease->handle = NULL;
    listener_drop(call->store, call->before);
}

PyObject *call_finish(struct call *call, const hf_result *result)
{
    if (call->raised[0]) { /* by the function of hf_cell_update() */
        PyErr_Restore(call->raised[0], call->raised[1], call->raised[2]);
        memset(call->raised, 0, sizeof call->raised);
        return NULL;
    }
    if (is_fine(call, result->status))
        return call->type->give(call, result);
    if (call->type->flags & CALL_YIELDS)
        lose_yielded(call, result->status);
    return raise_error(result->error);
}

static void give_back(hf_lease *lease)
{
    Py_BEGIN_ALLOW_THREADS;
    hf_release(lease, NULL);
    Py_END_ALLOW_THREADS;
}

/* What hf_yield() and hf_convert() made of a lease that its owner has not waited for. */
static void discard_changed(struct call *call, const hf_result *result)
{
    bool is_ours = call->lease->handle == call->before;

    if (result->lease == call->before)
        return; /* nothing has changed */
    if (call->type->flags & CALL_YIELDS) {
        call->lease->handle = is_ours ? NULL : call->lease->handle;
        listener_drop(call->store, call->before);
        if (result->lease)
            give_back(result->lease);
    } else if (is_ours && result->lease) {
        call->lease->handle = result->lease;
        listener_move(call->store, call->before, result->lease);
    } else if (result->lease) {
        give_back(result->lease);
    }
}

void call_discard(struct call *call, const hf_result *result)
{
    if (call->type->flags & CALL_CHANGES) {
        discard_changed(call, result);
        return;
    }
    if (result->lease)
        give_back(result->lease);
    for (size_t i = 0; result->leases && i < result->count; i++)
        give_back(result->leases[i]);
    hf_free(result->bytes);
    hf_free(result->view);
    hf_free(result->report);
    hf_free(result->deadlocks);
    hf_free(result->leader);
    hf_free(result->members);
}
