/* SPDX-License-Identifier: MIT */
/* holdfast._holdfast.Store, and both forms of every call: call() blocks, begin() does not. */
#include "binding.h"

#include <unistd.h>

/* ---- handles that end with a call ----------------------------------------------------------------- */

/* Taken out of the objects before the call, so that of two releases of one object only one is made. */
static void take_handles(struct call *call)
{
    if (!(call->type->flags & CALL_ENDS))
        return;
    if (call->lease)
        call->lease->handle = NULL;
    for (size_t i = 0; call->leases && i < call->many; i++)
        call->leases[i]->handle = NULL;
}

/* The call was refused, or in a forked child. A handle that a yield or a conversion has ended meanwhile stays out, so that what
 * these bring is given back (give_same_lease()). */
static hf_lease *still(StoreObject *store, hf_lease *handle)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;

    if (hf_lease_get(handle, &info) != HF_INVALID)
        return handle;
    listener_drop(store, handle);
    return NULL;
}

static void put_handles_back(struct call *call)
{
    if (!(call->type->flags & CALL_ENDS))
        return;
    if (call->lease)
        call->lease->handle = still(call->store, call->handle);
    for (size_t i = 0; call->leases && i < call->many; i++)
        call->leases[i]->handle = still(call->leases[i]->store, call->handles[i]);
}

static void drop_listeners(struct call *call)
{
    if (!(call->type->flags & CALL_ENDS))
        return;
    if (call->lease)
        listener_drop(call->store, call->handle);
    for (size_t i = 0; call->leases && i < call->many; i++)
        listener_drop(call->leases[i]->store, call->handles[i]);
}

/* ---- the blocking form ------------------------------------------------------------------------------ */

/* A signal handler has raised. */
static void give_up(struct call *call, PyObject *on)
{
    PyObject *type, *value, *trace;

    if (call->abandoned) {
        if (call->type->flags & CALL_YIELDS)
            ((LeaseObject *)on)->handle = NULL;
        return;
    }
    PyErr_Fetch(&type, &value, &trace);
    call_discard(call, &call->found.result);
    drop_listeners(call);
    call_free(call);
    PyErr_Restore(type, value, trace);
}

static struct call *read_call(PyObject *args, PyObject **ret_on, PyObject **ret_second)
{
    const struct call_type *type;
    unsigned long index;

    if (PyTuple_GET_SIZE(args) < 3) {
        PyErr_SetString(PyExc_TypeError, "expected a call, a store or lease, and one more");
        return NULL;
    }
    index = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(args, 0));
    type = PyErr_Occurred() ? NULL : call_type_get(index);
    *ret_on = PyTuple_GET_ITEM(args, 1);
    *ret_second = PyTuple_GET_ITEM(args, 2);
    if (!type ||
        (!PyObject_TypeCheck(*ret_on, &store_type) && !PyObject_TypeCheck(*ret_on, &lease_type))) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "no such call");
        return NULL;
    }
    return call_new(type, *ret_on, args, 3);
}

/* call(which, store or lease, Cancel or None, *args) */
PyObject *module_call(PyObject *module, PyObject *args)
{
    PyObject *on, *cancel, *value;
    struct call *call = read_call(args, &on, &cancel);

    (void)module;
    if (!call)
        return NULL;
    if (cancel != Py_None && !PyObject_TypeCheck(cancel, &cancel_type)) {
        PyErr_SetString(PyExc_TypeError, "cancel: not a holdfast.Cancel");
        call_free(call);
        return NULL;
    }
    take_handles(call);
    if (!call_block(call, cancel == Py_None ? NULL : (CancelObject *)cancel)) {
        give_up(call, on);
        return NULL;
    }
    value = call_finish(call, &call->found.result);
    if (call->found.result.status == HF_FORKED)
        put_handles_back(call); /* it was not ours, and has not ended */
    else
        drop_listeners(call);
    call_free(call);
    return value;
}

/* ---- the asynchronous form ----------------------------------------------------------------------------- */

static PyObject *take_exception(void)
{
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value && trace)
        PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

/* On the thread that is in hf_store_process(), or in hf_close(). */
static void done(const hf_result *result, void *arg)
{
    struct call *call = arg;
    PyGILState_STATE state;
    PyObject *value, *error = NULL, *told;

    if (!callback_enter(&state))
        return; /* the process ends, and its leases with it */
    value = call_finish(call, result);
    if (!value)
        error = take_exception();
    told = PyObject_CallFunctionObjArgs(call->callback, value ? value : Py_None,
                                        error ? error : Py_None, NULL);
    if (!told)
        PyErr_WriteUnraisable(call->callback);
    Py_XDECREF(told);
    Py_XDECREF(value);
    Py_XDECREF(error);
    drop_listeners(call);
    call_free(call);
    callback_leave(state);
}

/* begin(which, store or lease, callback, *args): the operation, for op_cancel(). callback(result, error) comes once. */
PyObject *module_begin(PyObject *module, PyObject *args)
{
    PyObject *on, *callback;
    struct call *call = read_call(args, &on, &callback);
    hf_op *op = NULL;
    hf_error error;
    hf_status status;

    (void)module;
    if (!call)
        return NULL;
    Py_INCREF(call->callback = callback);
    take_handles(call);
    Py_BEGIN_ALLOW_THREADS;
    status = call->type->begin(call, done, call, &op, &error);
    Py_END_ALLOW_THREADS;
    if (status == HF_OK)
        return PyLong_FromVoidPtr(
            op); /* `call` may be gone: another thread may have called done() */
    put_handles_back(call);
    call_free(call);
    return raise_error(&error);
}

/* ---- the store -------------------------------------------------------------------------------------------- */

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    StoreObject *self = (StoreObject *)type->tp_alloc(type, 0);

    (void)args, (void)kwargs;
    if (self && !(self->listeners = PyDict_New()))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void store_finalize(StoreObject *self)
{
    PyObject *type, *value, *trace;

    if (!self->handle || self->reported || self->pid != getpid())
        return;
    self->reported = true;
    PyErr_Fetch(&type, &value, &trace);
    if (PyErr_ResourceWarning((PyObject *)self, 1, "a store was not closed") < 0 &&
        PyErr_ExceptionMatches(PyExc_Warning))
        PyErr_WriteUnraisable((PyObject *)self);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

static void store_dealloc(StoreObject *self)
{
    hf_store *handle = self->handle;
    bool closed = true;

    if (PyObject_CallFinalizerFromDealloc((PyObject *)self) < 0)
        return;
    if (handle && self->pid == getpid()) {
        /* Without HF_CLOSE_FLAG_RELEASE: what is held and was forgotten stays held. */
        Py_BEGIN_ALLOW_THREADS;
        closed = hf_close(handle, 0) == HF_OK;
        Py_END_ALLOW_THREADS;
    }
    if (closed)
        Py_CLEAR(self->listeners); /* else they may still be told */
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *store_open(StoreObject *self, PyObject *args)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    const char *url, *label;
    unsigned long long flags;
    long long wait_ms;
    hf_store *handle;
    hf_error error;
    hf_status status;

    if (!PyArg_ParseTuple(args, "O&O&LK", read_text, &url, read_text, &label, &wait_ms, &flags))
        return NULL;
    if (self->handle)
        return raise_status(HF_IN_USE, "the store is open");
    options.label = label;
    options.open_wait_ms = wait_ms;
    options.flags = flags;
    Py_BEGIN_ALLOW_THREADS;
    status = hf_open(url, &options, &handle, &error);
    Py_END_ALLOW_THREADS;
    if (status != HF_OK)
        return raise_error(&error);
    self->handle = handle;
    self->pid = getpid();
    Py_RETURN_NONE;
}

static PyObject *store_close(StoreObject *self, PyObject *args)
{
    hf_store *handle = self->handle;
    unsigned long long flags;
    hf_status status;

    if (!PyArg_ParseTuple(args, "K", &flags))
        return NULL;
    if (!handle)
        Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS;
    status = hf_close(handle, flags);
    Py_END_ALLOW_THREADS;
    /* HF_INVALID: another thread was faster, and it is closed. */
    if (status != HF_OK && status != HF_INVALID)
        return raise_status(status,
                            status == HF_IN_USE ? "leases are held, or calls wait" : "close");
    self->handle = NULL;
    PyDict_Clear(self->listeners);
    Py_RETURN_NONE;
}

static PyObject *store_info(StoreObject *self, PyObject *none)
{
    hf_store_info i = HF_STORE_INFO_INIT;
    hf_status status = self->handle ? hf_store_get(self->handle, &i) : HF_INVALID;

    (void)none;
    if (status != HF_OK)
        return raise_status(status, self->handle ? "store" : "the store is closed");
    return Py_BuildValue("(NNKiLLLNN)", text_of(i.engine), text_of(i.location),
                         (unsigned long long)i.caps, (int)i.tokens, (long long)i.default_ttl_ms,
                         (long long)i.min_ttl_ms, (long long)i.max_ttl_ms, lacks_of(i.lacks),
                         text_of(i.source));
}

static PyObject *store_fd(StoreObject *self, PyObject *none)
{
    int fd = self->handle ? hf_store_fd(self->handle) : -1;

    (void)none;
    return PyLong_FromLong(fd);
}

static PyObject *store_timeout(StoreObject *self, PyObject *none)
{
    (void)none;
    return PyLong_FromLong(self->handle ? hf_store_timeout_ms(self->handle) : -1);
}

static PyObject *store_process(StoreObject *self, PyObject *none)
{
    hf_store *handle = self->handle;

    (void)none;
    if (handle) {
        Py_BEGIN_ALLOW_THREADS;
        hf_store_process(handle);
        Py_END_ALLOW_THREADS;
    }
    Py_RETURN_NONE;
}

static PyObject *store_idle_release(StoreObject *self, PyObject *none)
{
    hf_store *handle = self->handle;
    hf_error error;
    hf_status status;

    (void)none;
    if (!handle)
        return raise_status(HF_INVALID, "the store is closed");
    Py_BEGIN_ALLOW_THREADS;
    status = hf_idle_release(handle, &error);
    Py_END_ALLOW_THREADS;
    if (status != HF_OK)
        return raise_error(&error);
    Py_RETURN_NONE;
}

static PyObject *store_is_open(StoreObject *self, void *none)
{
    (void)none;
    return PyBool_FromLong(self->handle != NULL);
}

static PyMethodDef store_methods[] = {
    { "_open", (PyCFunction)store_open, METH_VARARGS, "hf_open()" },
    { "_close", (PyCFunction)store_close, METH_VARARGS, "hf_close()" },
    { "_info", (PyCFunction)store_info, METH_NOARGS, "hf_store_get()" },
    { "_stats", (PyCFunction)store_stats, METH_NOARGS, "hf_stats_get()" },
    { "_fd", (PyCFunction)store_fd, METH_NOARGS, "hf_store_fd()" },
    { "_timeout_ms", (PyCFunction)store_timeout, METH_NOARGS, "hf_store_timeout_ms()" },
    { "_process", (PyCFunction)store_process, METH_NOARGS, "hf_store_process()" },
    { "_idle_release", (PyCFunction)store_idle_release, METH_NOARGS, "hf_idle_release()" },
    { NULL, NULL, 0, NULL }
};
static PyGetSetDef store_fields[] = { { "is_open", (getter)store_is_open, NULL,
                                        "False after close().", NULL },
                                      { NULL, NULL, NULL, NULL, NULL } };

PyTypeObject store_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast._holdfast.Store",
    .tp_basicsize = sizeof(StoreObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "A store handle.",
    .tp_new = store_new,
    .tp_dealloc = (destructor)store_dealloc,
    .tp_finalize = (destructor)store_finalize,
    .tp_methods = store_methods,
    .tp_getset = store_fields,
};
