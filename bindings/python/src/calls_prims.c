/* SPDX-License-Identifier: MIT */
/* The calls of primitives.h, each once: its arguments, its two forms, its result. */
#include "forms.h"

/* ---- arguments ---------------------------------------------------------------------------------- */

static int read_cell_set(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&L", read_name, &c->name, read_bytes, &c->bytes,
                            &c->ttl_ms);
}
static int read_cell_swap(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&LO&", read_name, &c->name, read_bytes, &c->bytes,
                            &c->ttl_ms, read_u64, &c->version);
}
static int read_cell_update(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&OLL", read_name, &c->name, &c->fn, &c->ttl_ms, &c->wait_ms);
}
static int read_cell_wait(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&L", read_name, &c->name, read_u64, &c->version,
                            &c->wait_ms);
}
static int read_versioned(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&", read_name, &c->name, read_u64, &c->version);
}

static int read_item(hf_cell_item *item, PyObject *object)
{
    Py_buffer name, bytes = { .buf = NULL };
    long long ttl_ms;
    unsigned long long version;
    int action;

    if (!PyTuple_Check(object) || !PyArg_ParseTuple(object, "O&O&iO&L", read_name, &name, read_u64,
                                                    &version, &action, read_bytes, &bytes, &ttl_ms))
        return 0;
    *item = (hf_cell_item)HF_CELL_ITEM_INIT;
    item->name = name.buf;
    item->name_len = (size_t)name.len;
    item->version = version;
    item->action = (hf_cell_action)action;
    item->bytes = bytes.buf;
    item->len = (size_t)bytes.len;
    item->ttl_ms = ttl_ms;
    return 1;
}

/* (((name, version, action, bytes, ttl_ms), ...)) */
static int read_commit(struct call *c)
{
    PyObject *items;
    size_t count;

    if (!PyArg_ParseTuple(c->args, "O!", &PyTuple_Type, &items))
        return 0;
    count = (size_t)PyTuple_GET_SIZE(items);
    if (count > HF_CELLS_MAX) {
        raise_status(HF_INVALID, "items: more than HF_CELLS_MAX");
        return 0;
    }
    c->items = PyMem_RawCalloc(count + 1, sizeof *c->items);
    if (!c->items)
        return PyErr_NoMemory() != NULL;
    for (size_t i = 0; i < count; i++)
        if (!read_item(&c->items[i], PyTuple_GET_ITEM(items, (Py_ssize_t)i)))
            return 0;
    c->many = count;
    return 1;
}

static int read_number(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&L", read_name, &c->name, &c->number);
}
static int read_numbers(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&LL", read_name, &c->name, &c->number, &c->more_number);
}
static int read_token(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&", read_name, &c->name, read_u64, &c->token);
}
static int read_guard_set(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&O&", read_name, &c->name, read_u64, &c->token, read_bytes,
                            &c->bytes);
}
/* (name, algorithm, rate, per_ms, burst, permits, wait_ms) */
static int read_limit(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&iO&LO&O&L", read_name, &c->name, &c->kind, read_u32,
                            &c->count, &c->ttl_ms, read_u32, &c->burst, read_u32, &c->permits,
                            &c->wait_ms);
}
static int read_count(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&", read_name, &c->name, read_u32, &c->count);
}
static int read_who(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&", read_name, &c->name, read_text, &c->text);
}
/* (name, who, parties, wait_ms, ttl_ms = 0) */
static int read_party(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&O&L|L", read_name, &c->name, read_text, &c->text,
                            read_u32, &c->count, &c->wait_ms, &c->ttl_ms);
}
static int read_wait(struct call *c)
{
    return PyArg_ParseTuple(c->args, "L", &c->wait_ms);
}
static int read_value(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&", read_bytes, &c->bytes);
}
/* (requests, wait_ms, scope, value) */
static int read_campaign(struct call *c)
{
    unsigned long long scope;
    PyObject *requests;

    return PyArg_ParseTuple(c->args, "O!LO&O&", &PyTuple_Type, &requests, &c->wait_ms, read_u64,
                            &scope, read_bytes, &c->bytes) &&
           read_requests(c, requests, scope);
}
static int read_join(struct call *c)
{
    unsigned long long scope;
    PyObject *requests;

    return PyArg_ParseTuple(c->args, "O!LO&O&", &PyTuple_Type, &requests, &c->wait_ms, read_u64,
                            &scope, read_text, &c->text) &&
           read_requests(c, requests, scope);
}
/* (requests, wait_ms, scope, for_ms) */
static int read_once(struct call *c)
{
    unsigned long long scope;
    PyObject *requests;

    return PyArg_ParseTuple(c->args, "O!LO&L", &PyTuple_Type, &requests, &c->wait_ms, read_u64,
                            &scope, &c->ttl_ms) &&
           read_requests(c, requests, scope);
}
/* (name, last or None, wait_ms) */
static int read_watch(struct call *c, const char *capsule, const char *maker)
{
    if (!PyArg_ParseTuple(c->args, "O&OL", read_name, &c->name, &c->capsule, &c->wait_ms))
        return 0;
    if (c->capsule == Py_None)
        return 1;
    if (!PyCapsule_IsValid(c->capsule, capsule)) {
        PyErr_Format(PyExc_TypeError, "last: expected what a call of %s returned", maker);
        return 0;
    }
    c->last = PyCapsule_GetPointer(c->capsule, capsule);
    return 1;
}
static int read_election_watch(struct call *c)
{
    return read_watch(c, LEADER_CAPSULE, "Election");
}
static int read_members_watch(struct call *c)
{
    return read_watch(c, MEMBERS_CAPSULE, "Members");
}
static int read_for(struct call *c)
{
    return PyArg_ParseTuple(c->args, "L", &c->ttl_ms);
}
static int read_lease_cell(struct call *c)
{
    return PyArg_ParseTuple(c->args, "O&O&", read_name, &c->name, read_bytes, &c->bytes);
}

/* ---- requests -------------------------------------------------------------------------------------- */

/* The function of an update: it is told (bytes, version, ttl_ms) or None, and says None (leave), False (delete), or bytes. */
static hf_status apply(struct call *c, const hf_cell *old, hf_cell_change *change)
{
    PyObject *was = Py_None, *said;

    Py_INCREF(Py_None);
    if (old->version)
        was = Py_BuildValue("(y#KL)", old->bytes ? old->bytes : "", (Py_ssize_t)old->len,
                            (unsigned long long)old->version, (long long)old->ttl_ms);
    said = was ? PyObject_CallOneArg(c->fn, was) : NULL;
    Py_XDECREF(was);
    if (!said)
        return HF_CANCELLED;
    Py_XSETREF(c->kept, said);
    if (said == Py_None)
        return HF_OK;
    if (said == Py_False) {
        change->action = HF_CELL_ACTION_DELETE;
        return HF_OK;
    }
    if (!PyBytes_Check(said)) {
        PyErr_SetString(PyExc_TypeError, "the function of an update returns bytes, None or DELETE");
        return HF_CANCELLED;
    }
    change->action = HF_CELL_ACTION_WRITE;
    change->bytes = PyBytes_AS_STRING(said);
    change->len = (size_t)PyBytes_GET_SIZE(said);
    change->ttl_ms = c->ttl_ms;
    return HF_OK;
}

/* Signals are looked at before each try, for the call is made by the thread that asks for it. */
static hf_status update(const hf_cell *old, hf_cell_change *change, void *arg)
{
    struct call *c = arg;
    PyGILState_STATE state;
    hf_status status = HF_CANCELLED;

    if (!callback_enter(&state))
        return HF_CANCELLED;
    if (PyErr_CheckSignals() == 0)
        status = apply(c, old, change);
    if (status != HF_OK && !c->raised[0])
        PyErr_Fetch(&c->raised[0], &c->raised[1], &c->raised[2]);
    PyErr_Clear();
    callback_leave(state);
    return status;
}

static const hf_cell_request *cell_of(struct call *c, hf_cell_request *request)
{
    request->name = c->name.buf;
    request->name_len = (size_t)c->name.len;
    request->bytes = c->bytes.buf;
    request->len = (size_t)c->bytes.len;
    request->ttl_ms = c->ttl_ms;
    request->version = c->version;
    request->fn = update;
    request->fn_arg = c;
    request->wait_ms = c->wait_ms;
    request->cancel = c->cancel;
    return request;
}
#define CELL cell_of(c, &(hf_cell_request)HF_CELL_REQUEST_INIT)

static const hf_limit_request *limit_of(struct call *c, hf_limit_request *request)
{
    request->name = c->name.buf;
    request->name_len = (size_t)c->name.len;
    request->algorithm = (hf_limit_algorithm)c->kind;
    request->rate = c->count;
    request->per_ms = c->ttl_ms;
    request->burst = c->burst;
    request->permits = c->permits;
    request->wait_ms = c->wait_ms;
    request->cancel = c->cancel;
    return request;
}
#define LIMIT limit_of(c, &(hf_limit_request)HF_LIMIT_REQUEST_INIT)

static const hf_party_request *party_of(struct call *c, hf_party_request *request)
{
    request->name = c->name.buf;
    request->name_len = (size_t)c->name.len;
    request->who = c->text;
    request->parties = c->count;
    request->wait_ms = c->wait_ms;
    request->ttl_ms = c->ttl_ms;
    request->cancel = c->cancel;
    return request;
}
#define PARTY party_of(c, &(hf_party_request)HF_PARTY_REQUEST_INIT)

static const hf_election_request *election_of(struct call *c, hf_election_request *request)
{
    request->name = c->name.buf;
    request->name_len = (size_t)c->name.len;
    request->last = c->last;
    request->wait_ms = c->wait_ms;
    request->cancel = c->cancel;
    return request;
}
#define ELECTION election_of(c, &(hf_election_request)HF_ELECTION_REQUEST_INIT)

static const hf_members_request *members_of(struct call *c, hf_members_request *request)
{
    request->name = c->name.buf;
    request->name_len = (size_t)c->name.len;
    request->last = c->last;
    request->wait_ms = c->wait_ms;
    request->cancel = c->cancel;
    return request;
}
#define MEMBERS members_of(c, &(hf_members_request)HF_MEMBERS_REQUEST_INIT)

/* ---- what the blocking forms found, in the shape of the others ------------------------------------------- */

static hf_status found_cell(struct found *f, hf_status status, const hf_cell *cell)
{
    if (status == HF_OK) {
        R.bytes = cell->bytes;
        R.len = cell->len;
        R.version = cell->version;
        R.number = cell->ttl_ms;
    }
    return status;
}
static hf_status cell_get(struct call *c, struct found *f)
{
    hf_cell cell = HF_CELL_INIT;
    hf_status status = hf_cell_get(c->at, NAME, &cell, ERR);

    return found_cell(f, status, &cell);
}
static hf_status lease_cell_get(struct call *c, struct found *f)
{
    hf_cell cell = HF_CELL_INIT;
    hf_status status = hf_lease_cell_get(c->at, NAME, &cell, ERR);

    return found_cell(f, status, &cell);
}
static hf_status commit(struct call *c, struct found *f)
{
    size_t index = 0;
    hf_status status = hf_cells_commit(c->at, c->items, c->many, f->versions, &index, ERR);

    R.versions = f->versions;
    R.count = status == HF_OK ? c->many : 0;
    R.number = (int64_t)index;
    R.version = status == HF_CHANGED && index < c->many ? f->versions[index] : 0;
    return status;
}
static hf_status limit(struct call *c, struct found *f,
                       hf_status (*call)(hf_store *, const hf_limit_request *, hf_limit_result *,
                                         hf_error *))
{
    f->limit = (hf_limit_result)HF_LIMIT_RESULT_INIT;
    R.limit = &f->limit;
    return call(c->at, LIMIT, &f->limit, ERR);
}
static hf_status latch_count_down(struct call *c, struct found *f)
{
    uint32_t left = 0;
    hf_status status = hf_latch_count_down(c->at, NAME, c->text, &left, ERR);

    R.number = left;
    return status;
}
static hf_status latch_get(struct call *c, struct found *f)
{
    uint32_t count = 0, left = 0;
    hf_status status = hf_latch_get(c->at, NAME, &count, &left, ERR);

    R.count = count;
    R.number = left;
    return status;
}
static hf_once_mark *mark_of(struct found *f)
{
    f->mark = (hf_once_mark)HF_ONCE_MARK_INIT;
    f->result.mark = &f->mark;
    return &f->mark;
}

/* ---- forms ------------------------------------------------------------------------------------------- */

FORMS(cell_get, cell_get(c, f), hf_cell_get_async(c->at, NAME, LATER))
FORMS(cell_set, hf_cell_set(c->at, CELL, &R.version, ERR), hf_cell_set_async(c->at, CELL, LATER))
FORMS(cell_swap, hf_cell_swap(c->at, CELL, &R.version, ERR), hf_cell_swap_async(c->at, CELL, LATER))
FORMS(cell_delete, hf_cell_delete(c->at, NAME, c->version, ERR),
      hf_cell_delete_async(c->at, NAME, c->version, LATER))
FORMS(cell_update, hf_cell_update(c->at, CELL, &R.version, ERR),
      hf_cell_update_async(c->at, CELL, LATER))
FORMS(cell_wait, hf_cell_wait(c->at, CELL, &R.version, ERR), hf_cell_wait_async(c->at, CELL, LATER))
FORMS(commit, commit(c, f), hf_cells_commit_async(c->at, c->items, c->many, LATER))
FORMS(counter_add, hf_counter_add(c->at, NAME, c->number, &R.number, ERR),
      hf_counter_add_async(c->at, NAME, c->number, LATER))
FORMS(counter_get, hf_counter_get(c->at, NAME, &R.number, ERR),
      hf_counter_get_async(c->at, NAME, LATER))
FORMS(counter_set, hf_counter_set(c->at, NAME, c->number, ERR),
      hf_counter_set_async(c->at, NAME, c->number, LATER))
FORMS(counter_swap, hf_counter_swap(c->at, NAME, c->number, c->more_number, &R.number, ERR),
      hf_counter_swap_async(c->at, NAME, c->number, c->more_number, LATER))
FORMS(counter_delete, hf_counter_delete(c->at, NAME, ERR),
      hf_counter_delete_async(c->at, NAME, LATER))
FORMS(guard_claim, hf_guard_claim(c->at, NAME, c->token, &R.bytes, &R.len, ERR),
      hf_guard_claim_async(c->at, NAME, c->token, LATER))
FORMS(guard_set, hf_guard_set(c->at, NAME, c->token, BYTES, ERR),
      hf_guard_set_async(c->at, NAME, c->token, BYTES, LATER))
FORMS(limit_take, limit(c, f, hf_limit_take), hf_limit_take_async(c->at, LIMIT, LATER))
FORMS(limit_get, limit(c, f, hf_limit_get), hf_limit_get_async(c->at, LIMIT, LATER))
FORMS(limit_set, limit(c, f, hf_limit_set), hf_limit_set_async(c->at, LIMIT, LATER))
FORMS(latch_create, hf_latch_create(c->at, NAME, c->count, ERR),
      hf_latch_create_async(c->at, NAME, c->count, LATER))
FORMS(latch_count_down, latch_count_down(c, f),
      hf_latch_count_down_async(c->at, NAME, c->text, LATER))
FORMS(latch_join, hf_latch_join(c->at, PARTY, &R.lease, ERR),
      hf_latch_join_async(c->at, PARTY, LATER))
FORMS(latch_wait, hf_latch_wait(c->at, PARTY, ERR), hf_latch_wait_async(c->at, PARTY, LATER))
FORMS(latch_get, latch_get(c, f), hf_latch_get_async(c->at, NAME, LATER))
FORMS(latch_delete, hf_latch_delete(c->at, NAME, ERR), hf_latch_delete_async(c->at, NAME, LATER))
FORMS(barrier_wait, hf_barrier_wait(c->at, PARTY, ERR), hf_barrier_wait_async(c->at, PARTY, LATER))
FORMS(barrier_enter, hf_barrier_enter(c->at, PARTY, &R.lease, ERR),
      hf_barrier_enter_async(c->at, PARTY, LATER))
FORMS(barrier_leave, hf_barrier_leave(c->handle, c->wait_ms, c->cancel, ERR),
      hf_barrier_leave_async(c->handle, c->wait_ms, NULL, LATER))
FORMS(campaign, hf_election_campaign(c->at, c->requests, BYTES, &R.lease, ERR),
      hf_election_campaign_async(c->at, c->requests, BYTES, LATER))
FORMS(election_set, hf_election_set(c->handle, BYTES, ERR),
      hf_election_set_async(c->handle, BYTES, LATER))
FORMS(resign, hf_election_resign(c->handle, ERR), hf_election_resign_async(c->handle, LATER))
FORMS(election_wait, hf_election_wait(c->at, ELECTION, &R.leader, ERR),
      hf_election_wait_async(c->at, ELECTION, LATER))
FORMS(lease_cell_set, hf_lease_cell_set(c->handle, NAME, BYTES, ERR),
      hf_lease_cell_set_async(c->handle, NAME, BYTES, LATER))
FORMS(lease_cell_get, lease_cell_get(c, f), hf_lease_cell_get_async(c->at, NAME, LATER))
FORMS(join, hf_member_join(c->at, c->requests, c->text, &R.lease, ERR),
      hf_member_join_async(c->at, c->requests, c->text, LATER))
FORMS(leave, hf_member_leave(c->handle, ERR), hf_member_leave_async(c->handle, LATER))
FORMS(members_wait, hf_members_wait(c->at, MEMBERS, &R.members, ERR),
      hf_members_wait_async(c->at, MEMBERS, LATER))
FORMS(once_begin, hf_once_begin(c->at, c->requests, c->ttl_ms, &R.lease, mark_of(f), ERR),
      hf_once_begin_async(c->at, c->requests, c->ttl_ms, LATER))
FORMS(once_get, hf_once_get(c->at, NAME, mark_of(f), ERR), hf_once_get_async(c->at, NAME, LATER))
FORMS(once_claim, hf_once_claim(c->handle, c->ttl_ms, mark_of(f), ERR),
      hf_once_claim_async(c->handle, c->ttl_ms, LATER))
FORMS(once_finish, hf_once_finish(c->handle, ERR), hf_once_finish_async(c->handle, LATER))
FORMS(once_delete, hf_once_delete(c->at, NAME, ERR), hf_once_delete_async(c->at, NAME, LATER))

#define REFUSED (FINE(HF_BUSY) | FINE(HF_TIMEOUT))

const struct call_type prim_calls[] = {
    CALL(cell_get, read_named, 0, FINE(HF_NOT_FOUND), give_cell),
    CALL(cell_set, read_cell_set, 0, 0, give_version),
    CALL(cell_swap, read_cell_swap, 0, FINE(HF_CHANGED), give_version),
    CALL(cell_delete, read_versioned, 0, FINE(HF_CHANGED), give_swapped),
    CALL(cell_update, read_cell_update, 0, 0, give_version),
    CALL(cell_wait, read_cell_wait, CALL_WAITS, 0, give_version),
    CALL(commit, read_commit, 0, FINE(HF_CHANGED), give_commit),
    CALL(counter_add, read_number, 0, 0, give_number),
    CALL(counter_get, read_named, 0, 0, give_number),
    CALL(counter_set, read_number, 0, 0, give_none),
    CALL(counter_swap, read_numbers, 0, FINE(HF_CHANGED), give_swapped),
    CALL(counter_delete, read_named, 0, 0, give_none),
    CALL(guard_claim, read_token, 0, 0, give_bytes),
    CALL(guard_set, read_guard_set, 0, 0, give_none),
    CALL(limit_take, read_limit, CALL_WAITS | CALL_TRY_FIRST, REFUSED, give_limit),
    CALL(limit_get, read_limit, 0, FINE(HF_NOT_FOUND), give_limit),
    CALL(limit_set, read_limit, 0, 0, give_limit),
    CALL(latch_create, read_count, 0, 0, give_none),
    CALL(latch_count_down, read_who, 0, 0, give_number),
    CALL(latch_join, read_party, CALL_WAITS, 0, give_lease),
    CALL(latch_wait, read_party, CALL_WAITS, 0, give_none),
    CALL(latch_get, read_named, 0, 0, give_latch),
    CALL(latch_delete, read_named, 0, 0, give_none),
    CALL(barrier_wait, read_party, CALL_WAITS, 0, give_none),
    CALL(barrier_enter, read_party, CALL_WAITS, 0, give_lease),
    CALL(barrier_leave, read_wait, CALL_WAITS | CALL_ENDS, 0, give_none),
    CALL(campaign, read_campaign, CALL_WAITS | CALL_TRY_FIRST, 0, give_lease),
    CALL(election_set, read_value, 0, 0, give_none),
    CALL(resign, read_nothing, CALL_ENDS, 0, give_none),
    CALL(election_wait, read_election_watch, CALL_WAITS, FINE(HF_TIMEOUT), give_leader),
    CALL(lease_cell_set, read_lease_cell, 0, 0, give_none),
    CALL(lease_cell_get, read_named, 0, FINE(HF_NOT_FOUND), give_cell),
    CALL(join, read_join, CALL_WAITS | CALL_TRY_FIRST, 0, give_lease),
    CALL(leave, read_nothing, CALL_ENDS, 0, give_none),
    CALL(members_wait, read_members_watch, CALL_WAITS, FINE(HF_TIMEOUT), give_members),
    CALL(once_begin, read_once, CALL_WAITS | CALL_TRY_FIRST, FINE(HF_DONE), give_once),
    CALL(once_get, read_named, 0, FINE(HF_NOT_FOUND), give_mark),
    CALL(once_claim, read_for, 0, FINE(HF_DONE), give_mark),
    CALL(once_finish, read_nothing, 0, 0, give_none),
    CALL(once_delete, read_named, 0, FINE(HF_NOT_FOUND), give_swapped),
    { .name = NULL }
};
