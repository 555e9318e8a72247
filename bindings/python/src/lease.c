/* SPDX-License-Identifier: MIT */
/*
 * holdfast._holdfast.Lease: the owner of one hold of a lease, and Request: what an acquire asks for.
 *
 * A lease that is forgotten is reported (ResourceWarning) and not released: the code that it protects may still run. In a forked
 * child nothing is reported, for the lease is the parent's. The exception is a lease that never reached its caller: a signal
 * handler may raise after the call has returned and before Python code has stored its result. Nothing relies on such a lease,
 * and it is given back.
 */
#include "binding.h"

PyObject *lease_class;

/* ---- callbacks of leases -------------------------------------------------------------------------- */

/* A reentrant lease has one handle and several owners; the callback of the first is told. */
int listener_add(StoreObject *store, hf_lease *handle, PyObject *callback)
{
    PyObject *key = PyLong_FromVoidPtr(handle), *entry = NULL, *was;
    long holds = 1;
    int failed = -1;

    if (!key)
        return -1;
    was = PyDict_GetItemWithError(store->listeners, key);
    if (was) {
        callback = PyTuple_GET_ITEM(was, 0);
        holds = PyLong_AsLong(PyTuple_GET_ITEM(was, 1)) + 1;
    }
    if (!PyErr_Occurred())
        entry = Py_BuildValue("(Ol)", callback, holds);
    if (entry)
        failed = PyDict_SetItem(store->listeners, key, entry);
    Py_XDECREF(entry);
    Py_DECREF(key);
    return failed;
}

void listener_drop(StoreObject *store, hf_lease *handle)
{
    PyObject *type, *value, *trace, *key, *was, *entry = NULL;
    long holds;

    if (!store->listeners || PyDict_GET_SIZE(store->listeners) == 0)
        return;
    PyErr_Fetch(&type, &value, &trace);
    key = PyLong_FromVoidPtr(handle);
    was = key ? PyDict_GetItemWithError(store->listeners, key) : NULL;
    if (was) {
        holds = PyLong_AsLong(PyTuple_GET_ITEM(was, 1)) - 1;
        if (holds == 0)
            PyDict_DelItem(store->listeners, key);
        else if ((entry = Py_BuildValue("(Ol)", PyTuple_GET_ITEM(was, 0), holds)))
            PyDict_SetItem(store->listeners, key, entry);
    }
    Py_XDECREF(entry);
    Py_XDECREF(key);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

PyObject *listener_get(StoreObject *store, hf_lease *handle)
{
    PyObject *key, *was, *callback = NULL;

    if (!store->listeners || PyDict_GET_SIZE(store->listeners) == 0)
        return NULL;
    key = PyLong_FromVoidPtr(handle);
    was = key ? PyDict_GetItemWithError(store->listeners, key) : NULL;
    if (was)
        Py_INCREF(callback = PyTuple_GET_ITEM(was, 0));
    Py_XDECREF(key);
    PyErr_Clear();
    return callback;
}

void listener_move(StoreObject *store, hf_lease *from, hf_lease *to)
{
    PyObject *key, *was, *callback;

    if (from == to || PyDict_GET_SIZE(store->listeners) == 0)
        return;
    key = PyLong_FromVoidPtr(from);
    was = key ? PyDict_GetItemWithError(store->listeners, key) : NULL;
    if (was) {
        callback = PyTuple_GET_ITEM(was, 0);
        Py_INCREF(callback);
        if (listener_add(store, to, callback) == 0)
            listener_drop(store, from); /* else it stays, and is never freed */
        Py_DECREF(callback);
    }
    Py_XDECREF(key);
    PyErr_Clear();
}

/* ---- leases --------------------------------------------------------------------------------------- */

PyObject *lease_make(StoreObject *store, hf_lease *handle)
{
    PyTypeObject *type = (PyTypeObject *)lease_class;
    LeaseObject *lease = (LeaseObject *)type->tp_alloc(type, 0); /* it has no __init__ */

    if (!lease)
        return NULL;
    Py_INCREF(store);
    lease->store = store;
    lease->handle = handle;
    return (PyObject *)lease;
}

static void give_back(LeaseObject *self)
{
    hf_lease *handle = self->handle;

    self->handle = NULL;
    Py_BEGIN_ALLOW_THREADS;
    hf_release(handle, NULL);
    Py_END_ALLOW_THREADS;
    listener_drop(self->store, handle);
}

static void lease_finalize(LeaseObject *self)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;
    PyObject *type, *value, *trace, *name;

    if (self->reported || !self->handle || self->exported || !self->store || !self->store->handle ||
        hf_lease_get(self->handle, &info) != HF_OK) /* HF_FORKED: it is the parent's */
        return;
    self->reported = true;
    if (self->untaken) {
        give_back(self);
        return;
    }
    PyErr_Fetch(&type, &value, &trace);
    name = PyUnicode_DecodeUTF8((const char *)info.name, (Py_ssize_t)info.name_len, "replace");
    if (name &&
        PyErr_ResourceWarning(
            (PyObject *)self, 1,
            "the lease of '%U' was forgotten; it stays held until its store is closed "
            "or the process ends",
            name) < 0 &&
        PyErr_ExceptionMatches(PyExc_Warning))
        PyErr_WriteUnraisable((PyObject *)self);
    PyErr_Clear();
    Py_XDECREF(name);
    PyErr_Restore(type, value, trace);
}

/* A store may have its own leases among its attributes. tp_finalize comes first, so it has its store. */
static int lease_traverse(LeaseObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->store);
    return 0;
}

static int lease_clear(LeaseObject *self)
{
    Py_CLEAR(self->store);
    return 0;
}

static void lease_dealloc(LeaseObject *self)
{
    if (PyObject_CallFinalizerFromDealloc((PyObject *)self) < 0)
        return;
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->store);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *lease_info(LeaseObject *self, PyObject *none)
{
    hf_lease_info i = HF_LEASE_INFO_INIT;
    hf_status status = self->handle ? hf_lease_get(self->handle, &i) : HF_INVALID;
    PyObject *slots, *tuple;

    (void)none;
    if (status != HF_OK)
        return raise_status(status, self->handle ? "lease" : "the lease has been released");
    slots = PyList_New(0);
    for (uint32_t n = 0; slots && n < i.slot_count && n < HF_SLOTS_MAX; n++)
        if (!list_add(slots, PyLong_FromUnsignedLong(i.slots[n])))
            Py_CLEAR(slots);
    tuple = slots ? PyList_AsTuple(slots) : NULL;
    Py_XDECREF(slots);
    return tuple ? Py_BuildValue("(KiILLLy#NIiN)", (unsigned long long)i.token, (int)i.state,
                                 i.holds, (long long)i.remaining_ms, (long long)i.age_ms,
                                 (long long)i.ttl_ms, (const char *)i.name, (Py_ssize_t)i.name_len,
                                 PyBool_FromLong(i.wanted), i.asks, (int)i.kind, tuple)
                 : NULL;
}

static PyObject *lease_fence(LeaseObject *self, PyObject *none)
{
    uint64_t token;
    hf_error error;

    (void)none;
    if (!self->handle)
        return raise_status(HF_INVALID, "the lease has been released");
    if (hf_lease_fence(self->handle, &token, &error) != HF_OK)
        return raise_error(&error);
    return PyLong_FromUnsignedLongLong(token);
}

static PyObject *lease_export(LeaseObject *self, PyObject *none)
{
    char text[HF_LEASE_TEXT_MAX];
    hf_status status = self->handle ? hf_lease_export(self->handle, text) : HF_INVALID;

    (void)none;
    if (status != HF_OK)
        return raise_status(status, "export");
    self->exported = true;
    return PyUnicode_FromString(text);
}

static PyObject *lease_session(LeaseObject *self, PyObject *args)
{
    char text[HF_SESSION_TEXT_MAX];
    const char *around;
    hf_error error;

    if (!PyArg_ParseTuple(args, "O&", read_text, &around))
        return NULL;
    if (!self->handle)
        return raise_status(HF_INVALID, "the lease has been released");
    if (hf_session_get(self->handle, around, text, &error) != HF_OK)
        return raise_error(&error);
    return PyUnicode_FromString(text);
}

static PyObject *lease_fileno(LeaseObject *self, PyObject *none)
{
    int fd = self->handle ? hf_lease_fd(self->handle) : -1;

    (void)none;
    if (fd < 0)
        return raise_status(HF_INVALID, "the lease has no descriptor");
    return PyLong_FromLong(fd);
}

static PyObject *lease_token(LeaseObject *self, void *none)
{
    (void)none;
    return PyLong_FromUnsignedLongLong(self->handle ? hf_lease_token(self->handle) : 0);
}
static PyObject *lease_state(LeaseObject *self, void *none)
{
    (void)none;
    return PyLong_FromLong(self->handle ? (long)hf_lease_state(self->handle) : (long)HF_STATE_LOST);
}
static PyObject *lease_remaining(LeaseObject *self, void *none)
{
    (void)none;
    return PyLong_FromLongLong(self->handle ? hf_lease_remaining_ms(self->handle) : 0);
}
static PyObject *lease_wanted(LeaseObject *self, void *none)
{
    (void)none;
    return PyBool_FromLong(self->handle && hf_lease_wanted(self->handle));
}
static PyObject *lease_owned(LeaseObject *self, void *none)
{
    (void)none;
    return PyBool_FromLong(self->handle != NULL);
}
static PyObject *lease_store(LeaseObject *self, void *none)
{
    PyObject *store = self->store ? (PyObject *)self->store : Py_None;

    (void)none;
    Py_INCREF(store);
    return store;
}

static PyObject *lease_taken(LeaseObject *self, void *none)
{
    (void)none;
    return PyBool_FromLong(!self->untaken);
}
static int lease_set_taken(LeaseObject *self, PyObject *value, void *none)
{
    (void)none;
    self->untaken = value != Py_True;
    return 0;
}

static PyMethodDef lease_methods[] = {
    { "_info", (PyCFunction)lease_info, METH_NOARGS, "hf_lease_get()" },
    { "_fence", (PyCFunction)lease_fence, METH_NOARGS, "hf_lease_fence()" },
    { "_export", (PyCFunction)lease_export, METH_NOARGS, "hf_lease_export()" },
    { "_session", (PyCFunction)lease_session, METH_VARARGS, "hf_session_get()" },
    { "fileno", (PyCFunction)lease_fileno, METH_NOARGS,
      "fileno()\n--\n\nA descriptor that is readable when something has happened to the lease "
      "since info() was called, and "
      "always once it is lost." },
    { NULL, NULL, 0, NULL }
};
static PyGetSetDef lease_fields[] = {
    { "token", (getter)lease_token, NULL,
      "The fencing token; 0: the lease has ended, or its engine has none.", NULL },
    { "_state", (getter)lease_state, NULL, "hf_lease_state()", NULL },
    { "_remaining_ms", (getter)lease_remaining, NULL, "hf_lease_remaining_ms()", NULL },
    { "wanted", (getter)lease_wanted, NULL, "With watch: do others wait for it?", NULL },
    { "owned", (getter)lease_owned, NULL,
      "False: this object has released it, or lost it in yield_().", NULL },
    { "_taken", (getter)lease_taken, (setter)lease_set_taken,
      "False: nobody has it yet, and it is given back if it goes away.", NULL },
    { "store", (getter)lease_store, NULL, "The store that it is of.", NULL },
    { NULL, NULL, NULL, NULL, NULL }
};

PyTypeObject lease_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast._holdfast.Lease",
    .tp_basicsize = sizeof(LeaseObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "One hold of a lease. Made by acquiring.",
    .tp_traverse = (traverseproc)lease_traverse,
    .tp_clear = (inquiry)lease_clear,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = (destructor)lease_dealloc,
    .tp_finalize = (destructor)lease_finalize,
    .tp_methods = lease_methods,
    .tp_getset = lease_fields,
};

/* ---- requests --------------------------------------------------------------------------------------- */

static int request_read(RequestObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name",        "kind",          "capacity",    "permits",
                             "flags",       "ttl_ms",        "max_hold_ms", "min_valid_ms",
                             "min_hold_ms", "lock_delay_ms", "linger_ms",   "scope",
                             "label",       "session",       "on_event",    NULL };
    hf_acquire_request *r = &self->request;
    long long ttl = 0, max_hold = 0, min_valid = 0, min_hold = 0, delay = 0, linger = 0;
    unsigned long long flags = 0, scope = 0;
    unsigned int capacity = 0, permits = 0;
    PyObject *label = Py_None, *session = Py_None, *on_event = Py_None;
    Py_buffer name;
    int kind = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oi|O&O&KLLLLLLO&OOO", names, &self->name, &kind,
                                     read_u32, &capacity, read_u32, &permits, &flags, &ttl,
                                     &max_hold, &min_valid, &min_hold, &delay, &linger, read_u64,
                                     &scope, &label, &session, &on_event))
        return self->name = NULL, -1;
    Py_INCREF(self->name);
    Py_INCREF(self->label = label);
    Py_INCREF(self->session = session);
    if (on_event != Py_None)
        Py_INCREF(self->on_event = on_event);
    if (!read_name(self->name, &name) || !read_text(label, (void *)&r->label) ||
        !read_text(session, (void *)&r->session))
        return -1;
    *r = (hf_acquire_request){ .size = sizeof *r,
                               .name = name.buf,
                               .name_len = (size_t)name.len,
                               .kind = (hf_kind)kind,
                               .capacity = capacity,
                               .permits = permits,
                               .flags = flags,
                               .ttl_ms = ttl,
                               .max_hold_ms = max_hold,
                               .min_valid_ms = min_valid,
                               .min_hold_ms = min_hold,
                               .lock_delay_ms = delay,
                               .linger_ms = linger,
                               .scope = scope,
                               .label = r->label,
                               .session = r->session,
                               .on_event = self->on_event ? event_happened : NULL,
                               .on_event_arg = self->on_event };
    return 0;
}

static PyObject *request_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    RequestObject *self = (RequestObject *)type->tp_alloc(type, 0);

    if (self && request_read(self, args, kwargs) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int request_traverse(RequestObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->on_event);
    return 0;
}

static int request_clear(RequestObject *self)
{
    Py_CLEAR(self->on_event);
    return 0;
}

static void request_dealloc(RequestObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->name);
    Py_XDECREF(self->label);
    Py_XDECREF(self->session);
    Py_XDECREF(self->on_event);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject request_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast._holdfast.Request",
    .tp_basicsize = sizeof(RequestObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "hf_acquire_request, but for wait_ms and cancel, which each call has anew.",
    .tp_new = request_new,
    .tp_dealloc = (destructor)request_dealloc,
    .tp_traverse = (traverseproc)request_traverse,
    .tp_clear = (inquiry)request_clear,
};
