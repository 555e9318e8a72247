/* SPDX-License-Identifier: MIT */
/* The calls of holdfast.h, each once: its arguments, its two forms, its result. */
#include "forms.h"

/* ---- arguments ----------------------------------------------------------------------------- */

int read_nothing(struct call *c)
{
    return PyArg_ParseTuple(c->args, "");
}

int read_named(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&", read_name, &c->name);
}

int read_bytes(PyObject *object, void *buffer)
{
    Py_buffer *bytes = buffer;

    if (!PyBytes_Check(object)) {
        PyErr_Format(PyExc_TypeError, "expected bytes, not %.100s", Py_TYPE(object)->tp_name);
        return 0;
    }
    bytes->buf = PyBytes_AS_STRING(object);
    bytes->len = PyBytes_GET_SIZE(object);
    return 1;
}

static int read_request(struct call *c, size_t i, PyObject *object, unsigned long long scope)
{
    RequestObject *asked = (RequestObject *)object;

    if (!PyObject_TypeCheck(object, &request_type)) {
        PyErr_Format(PyExc_TypeError, "expected a request, not %.100s", Py_TYPE(object)->tp_name);
        return 0;
    }
    c->asked[i] = asked;
    c->requests[i] = asked->request;
    c->requests[i].wait_ms = c->wait_ms;
    if (c->requests[i].scope == 0)
        c->requests[i].scope = scope;
    return 1;
}

/* `requests`: a tuple of request objects, which c->args keeps. */
int read_requests(struct call *c, PyObject *requests, unsigned long long scope)
{
    size_t count = (size_t)PyTuple_GET_SIZE(requests);

    c->requests = PyMem_RawCalloc(count + 1, sizeof *c->requests);
    c->asked = PyMem_RawCalloc(count + 1, sizeof *c->asked);
    if (!c->requests || !c->asked)
        return PyErr_NoMemory() != NULL;
    for (size_t i = 0; i < count; i++)
        if (!read_request(c, i, PyTuple_GET_ITEM(requests, (Py_ssize_t)i), scope))
            return 0;
    c->many = count;
    return 1;
}

/* (requests, wait_ms, scope) */
static int read_acquire(struct call *c)
{
    unsigned long long scope;
    PyObject *requests;

    return PyArg_ParseTuple(c->args, "O!LO&", &PyTuple_Type, &requests, &c->wait_ms, read_u64,
                            &scope) &&
           read_requests(c, requests, scope);
}

/* (leases): those of one store. */
static int read_release_all(struct call *c)
{
    PyObject *leases;
    size_t count;

    if (!PyArg_ParseTuple(c->args, "O!", &PyTuple_Type, &leases))
        return 0;
    count = (size_t)PyTuple_GET_SIZE(leases);
    c->leases = PyMem_RawCalloc(count + 1, sizeof *c->leases);
    c->handles = PyMem_RawCalloc(count + 1, sizeof *c->handles);
    if (!c->leases || !c->handles)
        return PyErr_NoMemory() != NULL;
    for (size_t i = 0; i < count; i++) {
        PyObject *one = PyTuple_GET_ITEM(leases, (Py_ssize_t)i);

        if (!PyObject_TypeCheck(one, &lease_type)) {
            PyErr_SetString(PyExc_TypeError, "expected leases");
            return 0;
        }
        c->leases[i] = (LeaseObject *)one;
        c->handles[i] = c->leases[i]->handle;
        if (!c->handles[i]) {
            raise_status(HF_INVALID, "the lease has been released");
            return 0;
        }
    }
    c->many = count;
    return 1;
}

static int read_ttl(struct call *c)
{
    return PyArg_ParseTuple(c->args, "L", &c->ttl_ms);
}
static int read_wait(struct call *c)
{
    return PyArg_ParseTuple(c->args, "L", &c->wait_ms);
}
static int read_convert(struct call *c)
{
    return PyArg_ParseTuple(c->args, "iL", &c->kind, &c->wait_ms);
}
static int read_resize(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&", read_name, &c->name, read_u32, &c->count);
}
static int read_ask(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&", read_name, &c->name, read_text, &c->text);
}
static int read_adopt(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&Lp", read_name, &c->name, read_text, &c->text, &c->ttl_ms,
                            &c->flag);
}
static int read_break(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&", read_name, &c->name, read_u64, &c->token);
}
static int read_inspect(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&p", read_name, &c->name, &c->flag);
}
static int read_store_wait(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&L", read_u64, &c->version, &c->wait_ms);
}

/* ---- forms ------------------------------------------------------------------------------------ */

static hf_status found_all(struct call *c, struct found *f, hf_status status)
{
    f->result.leases = status == HF_OK ? f->leases : NULL;
    f->result.count = status == HF_OK ? c->many : 0;
    return status;
}

static hf_status acquire_any(struct call *c, struct found *f)
{
    size_t index = 0;
    hf_status status =
        hf_acquire_any(c->at, c->requests, c->many, &index, &f->result.lease, &f->error);

    f->result.number = (int64_t)index;
    return status;
}

/* The lease that counts after it: the old one if nothing was done. */
static hf_status changed(struct call *c, struct found *f, hf_status status)
{
    f->result.lease = c->handle;
    return status;
}

static const hf_adopt_request *adopt_of(struct call *c, hf_adopt_request *request)
{
    request->name = c->name.buf;
    request->name_len = (size_t)c->name.len;
    request->text = c->text;
    request->ttl_ms = c->ttl_ms;
    request->renew = c->flag;
    return request;
}
#define ADOPT adopt_of(c, &(hf_adopt_request)HF_ADOPT_REQUEST_INIT)

static hf_status store_wait(struct call *c, struct found *f)
{
    uint64_t seq = c->version;
    hf_status status = hf_store_wait(c->at, &seq, c->wait_ms, c->cancel, &f->error);

    f->result.version = seq;
    return status;
}

/* "" means all names. */
#define PATTERN                                                            \
    c->flag && c->name.len == 0 ? NULL : c->name.buf, (size_t)c->name.len, \
        c->flag ? HF_INSPECT_FLAG_PATTERN : 0

FORMS(acquire, hf_acquire(c->at, c->requests, &R.lease, ERR),
      hf_acquire_async(c->at, c->requests, LATER))
FORMS(acquire_all, found_all(c, f, hf_acquire_all(c->at, c->requests, c->many, f->leases, ERR)),
      hf_acquire_all_async(c->at, c->requests, c->many, LATER))
FORMS(acquire_any, acquire_any(c, f), hf_acquire_any_async(c->at, c->requests, c->many, LATER))
FORMS(release, hf_release(c->handle, ERR), hf_release_async(c->handle, LATER))
FORMS(release_all, hf_release_all(c->handles, c->many, ERR),
      hf_release_all_async(c->handles, c->many, LATER))
FORMS(renew, hf_renew(c->handle, c->ttl_ms, ERR), hf_renew_async(c->handle, c->ttl_ms, LATER))
FORMS(give_way, changed(c, f, hf_yield(&c->handle, c->wait_ms, ERR)),
      hf_yield_async(c->handle, c->wait_ms, LATER))
FORMS(convert, changed(c, f, hf_convert(&c->handle, (hf_kind)c->kind, c->wait_ms, ERR)),
      hf_convert_async(c->handle, (hf_kind)c->kind, c->wait_ms, LATER))
FORMS(resize, hf_semaphore_resize(c->at, NAME, c->count, ERR),
      hf_semaphore_resize_async(c->at, NAME, c->count, LATER))
FORMS(ask, hf_ask(c->at, NAME, c->text, ERR), hf_ask_async(c->at, NAME, c->text, LATER))
FORMS(adopt, hf_lease_adopt(c->at, ADOPT, &R.lease, ERR), hf_lease_adopt_async(c->at, ADOPT, LATER))
FORMS(break_lease, hf_lease_break(c->at, NAME, c->token, ERR),
      hf_lease_break_async(c->at, NAME, c->token, LATER))
FORMS(inspect, hf_store_inspect(c->at, PATTERN, &R.view, ERR),
      hf_store_inspect_async(c->at, PATTERN, LATER))
FORMS(store_wait, store_wait(c, f), hf_store_wait_async(c->at, c->version, c->wait_ms, NULL, LATER))
FORMS(check, hf_store_check(c->at, &R.report, ERR), hf_store_check_async(c->at, LATER))
FORMS(deadlocks, hf_deadlock_list(c->at, &R.deadlocks, ERR), hf_deadlock_list_async(c->at, LATER))

const struct call_type lock_calls[] = {
    CALL(acquire, read_acquire, CALL_WAITS | CALL_TRY_FIRST | CALL_HANDS, 0, give_lease),
    CALL(acquire_all, read_acquire, CALL_WAITS | CALL_TRY_FIRST | CALL_HANDS, 0, give_leases),
    CALL(acquire_any, read_acquire, CALL_WAITS | CALL_TRY_FIRST | CALL_HANDS, 0, give_any),
    CALL(release, read_nothing, CALL_ENDS, 0, give_none),
    CALL(release_all, read_release_all, CALL_ENDS, 0, give_none),
    CALL(renew, read_ttl, 0, 0, give_none),
    CALL(give_way, read_wait, CALL_WAITS | CALL_YIELDS | CALL_CHANGES, FINE(HF_YIELDED),
         give_same_lease),
    CALL(convert, read_convert, CALL_WAITS | CALL_CHANGES, 0, give_same_lease),
    CALL(resize, read_resize, 0, 0, give_none),
    CALL(ask, read_ask, 0, 0, give_none),
    CALL(adopt, read_adopt, 0, 0, give_lease),
    CALL(break_lease, read_break, 0, 0, give_none),
    CALL(inspect, read_inspect, 0, 0, give_view),
    CALL(store_wait, read_store_wait, CALL_WAITS, 0, give_version),
    CALL(check, read_nothing, 0, 0, give_report),
    CALL(deadlocks, read_nothing, 0, 0, give_deadlocks),
    { .name = NULL }
};
