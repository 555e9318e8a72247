/* SPDX-License-Identifier: MIT */
/*
 * Results as Python objects: numbers, bytes, leases, and plain tuples that the Python modules name (holdfast/types.py). With the GIL.
 * What a result owns is taken over or freed here, whatever happens. Strings may come from strangers: they are decoded with
 * replacement.
 */
#include "binding.h"

PyObject *text_of(const char *text)
{
    return PyUnicode_DecodeUTF8(text ? text : "", (Py_ssize_t)strlen(text ? text : ""), "replace");
}

bool list_add(PyObject *list, PyObject *value)
{
    bool ok = list && value && PyList_Append(list, value) == 0;

    Py_XDECREF(value);
    return ok;
}

PyObject *give_none(struct call *call, const hf_result *result)
{
    (void)call, (void)result;
    Py_RETURN_NONE;
}

/* ---- leases -------------------------------------------------------------------------------- */

static PyObject *take_lease(struct call *call, hf_lease *handle, size_t of)
{
    PyObject *callback = call->asked && of < call->many ? call->asked[of]->on_event : NULL;
    PyObject *lease;

    if (callback && listener_add(call->store, handle, callback) < 0)
        goto failed;
    lease = lease_make(call->store, handle);
    if (lease) {
        ((LeaseObject *)lease)->untaken = !call->callback && (call->type->flags & CALL_HANDS);
        return lease;
    }
failed:
    Py_BEGIN_ALLOW_THREADS;
    hf_release(handle, NULL);
    Py_END_ALLOW_THREADS;
    return NULL;
}

PyObject *give_lease(struct call *call, const hf_result *result)
{
    return take_lease(call, result->lease, 0);
}

PyObject *give_any(struct call *call, const hf_result *result)
{
    PyObject *lease = take_lease(call, result->lease, (size_t)result->number);

    return lease ? Py_BuildValue("(LN)", (long long)result->number, lease) : NULL;
}

PyObject *give_leases(struct call *call, const hf_result *result)
{
    PyObject *list = PyList_New(0);
    bool ok = list != NULL;

    /* One that fails has been given back; the others go with the list, as forgotten ones. */
    for (size_t i = 0; i < result->count; i++)
        ok = list_add(list, take_lease(call, result->leases[i], i)) && ok;
    if (!ok)
        Py_CLEAR(list);
    return list;
}

/* hf_yield(), hf_convert(): True if it was given away in between. */
PyObject *give_same_lease(struct call *call, const hf_result *result)
{
    if (call->lease->handle == call->before) {
        listener_move(call->store, call->before, result->lease);
        call->lease->handle = result->lease;
    } else if (result->lease != call->before) { /* released meanwhile */
        call_discard(call, result);
        return raise_status(HF_INVALID, "the lease was released meanwhile");
    }
    return PyBool_FromLong(result->status == HF_YIELDED);
}

/* ---- numbers and bytes --------------------------------------------------------------------------- */

/* None: it was changed, and nothing was done. */
PyObject *give_version(struct call *call, const hf_result *result)
{
    (void)call;
    if (result->status != HF_OK)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(result->version);
}

PyObject *give_number(struct call *call, const hf_result *result)
{
    (void)call;
    return PyLong_FromLongLong(result->number);
}

/* (was it done, number) */
PyObject *give_swapped(struct call *call, const hf_result *result)
{
    (void)call;
    return Py_BuildValue("(NL)", PyBool_FromLong(result->status == HF_OK),
                         (long long)result->number);
}

PyObject *give_bytes(struct call *call, const hf_result *result)
{
    PyObject *bytes =
        result->bytes ? PyBytes_FromStringAndSize(result->bytes, (Py_ssize_t)result->len) : NULL;

    (void)call;
    if (!result->bytes)
        Py_RETURN_NONE;
    hf_free(result->bytes);
    return bytes;
}

/* (bytes, version, ttl_ms); None: there is no such cell. */
PyObject *give_cell(struct call *call, const hf_result *result)
{
    PyObject *cell;

    (void)call;
    if (result->status != HF_OK)
        Py_RETURN_NONE;
    cell = Py_BuildValue("(y#KL)", result->bytes ? result->bytes : "", (Py_ssize_t)result->len,
                         (unsigned long long)result->version, (long long)result->number);
    hf_free(result->bytes);
    return cell;
}

/* (versions or None, index, version) */
PyObject *give_commit(struct call *call, const hf_result *result)
{
    PyObject *versions;

    (void)call;
    if (result->status != HF_OK)
        return Py_BuildValue("(OLK)", Py_None, (long long)result->number,
                             (unsigned long long)result->version);
    versions = PyList_New(0);
    for (size_t i = 0; versions && i < result->count; i++)
        if (!list_add(versions, PyLong_FromUnsignedLongLong(result->versions[i])))
            Py_CLEAR(versions);
    return versions ? Py_BuildValue("(Nii)", versions, 0, 0) : NULL;
}

/* ---- inspection ------------------------------------------------------------------------------------ */

static PyObject *slots_of(const uint32_t *slots, uint32_t count)
{
    PyObject *list = PyList_New(0), *tuple;

    for (uint32_t i = 0; list && i < count && i < HF_SLOTS_MAX; i++)
        if (!list_add(list, PyLong_FromUnsignedLong(slots[i])))
            Py_CLEAR(list);
    tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

static PyObject *holder_of(const hf_holder *h)
{
    PyObject *slots = slots_of(h->slots, h->slot_count), *label = text_of(h->label);

    if (!slots || !label) {
        Py_XDECREF(slots);
        Py_XDECREF(label);
        return NULL;
    }
    return Py_BuildValue(
        "(KKINLLLLNKNNNN)", (unsigned long long)h->token, (unsigned long long)h->first, h->permits,
        PyBool_FromLong(h->detached), (long long)h->age_ms, (long long)h->ttl_ms, (long long)h->pid,
        (long long)h->tid, label, (unsigned long long)h->session, PyBool_FromLong(h->lingers),
        PyBool_FromLong(h->idle), PyBool_FromLong(h->watched), slots);
}

static PyObject *waiter_of(const hf_waiter *w)
{
    PyObject *label = text_of(w->label);

    return label ? Py_BuildValue("(IIiLLNK)", w->position, w->permits, (int)w->kind,
                                 (long long)w->age_ms, (long long)w->pid, label,
                                 (unsigned long long)w->session)
                 : NULL;
}

static PyObject *entry_of(const hf_entry *e)
{
    PyObject *holders = PyList_New(0), *waiters = PyList_New(0);
    bool ok = holders && waiters;

    for (size_t i = 0; ok && i < e->holder_count; i++)
        ok = list_add(holders, holder_of(hf_entry_holder(e, i)));
    for (size_t i = 0; ok && i < e->waiter_count; i++)
        ok = list_add(waiters, waiter_of(hf_entry_waiter(e, i)));
    if (!ok) {
        Py_XDECREF(holders);
        Py_XDECREF(waiters);
        return NULL;
    }
    return Py_BuildValue("(y#iIILNNN)", (const char *)e->name, (Py_ssize_t)e->name_len,
                         (int)e->kind, e->capacity, e->taken, (long long)e->closed_ms,
                         PyBool_FromLong(e->resized), holders, waiters);
}

/* (are waiters known, [entry, ...]) */
PyObject *give_view(struct call *call, const hf_result *result)
{
    PyObject *entries = PyList_New(0),
             *tracked = PyBool_FromLong(hf_view_waiters_tracked(result->view));

    (void)call;
    for (size_t i = 0; entries && i < hf_view_count(result->view); i++)
        if (!list_add(entries, entry_of(hf_view_entry(result->view, i))))
            Py_CLEAR(entries);
    hf_free(result->view);
    if (!entries)
        return NULL;
    return Py_BuildValue("(NN)", tracked, entries);
}

PyObject *give_report(struct call *call, const hf_result *result)
{
    PyObject *list = PyList_New(0);

    (void)call;
    for (size_t i = 0; list && i < hf_report_count(result->report); i++) {
        const hf_finding *one = hf_report_item(result->report, i);

        if (!list_add(list, Py_BuildValue("(iNNN)", (int)one->level, text_of(one->topic),
                                          text_of(one->text), PyBool_FromLong(one->note))))
            Py_CLEAR(list);
    }
    hf_free(result->report);
    return list;
}

static PyObject *cycle_of(const hf_deadlock *deadlock)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < deadlock->waiter_count; i++) {
        const hf_deadlock_waiter *w = hf_deadlock_get_waiter(deadlock, i);

        if (!list_add(list,
                      Py_BuildValue("(y#KKLLN)", (const char *)w->name, (Py_ssize_t)w->name_len,
                                    (unsigned long long)w->token, (unsigned long long)w->session,
                                    (long long)w->age_ms, (long long)w->pid, text_of(w->label))))
            Py_CLEAR(list);
    }
    return list;
}

PyObject *give_deadlocks(struct call *call, const hf_result *result)
{
    PyObject *list = PyList_New(0);

    (void)call;
    for (size_t i = 0; list && i < hf_deadlock_count(result->deadlocks); i++)
        if (!list_add(list, cycle_of(hf_deadlock_item(result->deadlocks, i))))
            Py_CLEAR(list);
    hf_free(result->deadlocks);
    return list;
}

PyObject *lacks_of(const hf_engine_lack *lacks)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && lacks && lacks[i].why; i++)
        if (!list_add(list, Py_BuildValue("(KN)", (unsigned long long)lacks[i].caps,
                                          text_of(lacks[i].why))))
            Py_CLEAR(list);
    return list;
}

/* ---- observers ---------------------------------------------------------------------------------------- */

static void free_last(PyObject *capsule)
{
    hf_free(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
}

/* (capsule, token, value or None, label, version); None: nothing new. */
PyObject *give_leader(struct call *call, const hf_result *result)
{
    const hf_leader *leader = result->leader;
    PyObject *capsule;

    (void)call;
    if (result->status != HF_OK)
        Py_RETURN_NONE;
    capsule = PyCapsule_New(result->leader, LEADER_CAPSULE, free_last);
    if (!capsule) {
        hf_free(result->leader);
        return NULL;
    }
    return Py_BuildValue("(NKy#NK)", capsule, (unsigned long long)leader->token,
                         leader->leads ? (leader->value ? (const char *)leader->value : "") : NULL,
                         (Py_ssize_t)leader->value_len, text_of(leader->label),
                         (unsigned long long)leader->version);
}

/* (capsule, [(token, value, age_ms, ttl_ms, pid), ...]); None: nothing new. */
PyObject *give_members(struct call *call, const hf_result *result)
{
    PyObject *list, *capsule;

    (void)call;
    if (result->status != HF_OK)
        Py_RETURN_NONE;
    capsule = PyCapsule_New(result->members, MEMBERS_CAPSULE, free_last);
    if (!capsule) {
        hf_free(result->members);
        return NULL;
    }
    list = PyList_New(0);
    for (size_t i = 0; list && i < hf_members_count(result->members); i++) {
        const hf_member *m = hf_members_item(result->members, i);

        if (!list_add(list,
                      Py_BuildValue("(KNLLL)", (unsigned long long)m->token, text_of(m->value),
                                    (long long)m->age_ms, (long long)m->ttl_ms, (long long)m->pid)))
            Py_CLEAR(list);
    }
    if (!list) {
        Py_DECREF(capsule);
        return NULL;
    }
    return Py_BuildValue("(NN)", capsule, list);
}

/* ---- limits, latches, once ------------------------------------------------------------------------------- */

/* (status, left, refill_ms, waited_ms, retry_ms, at_us, rate, per_ms, burst, algorithm, is_set); None: not found. */
PyObject *give_limit(struct call *call, const hf_result *result)
{
    const hf_limit_result *l = result->limit;

    (void)call;
    if (!l || result->status == HF_NOT_FOUND)
        Py_RETURN_NONE;
    return Py_BuildValue("(iKLLLLILIiN)", (int)result->status, (unsigned long long)l->left,
                         (long long)l->refill_ms, (long long)l->waited_ms, (long long)l->retry_ms,
                         (long long)l->at_us, l->rate, (long long)l->per_ms, l->burst,
                         (int)l->algorithm, PyBool_FromLong(l->is_set));
}

/* (count, left) */
PyObject *give_latch(struct call *call, const hf_result *result)
{
    (void)call;
    return Py_BuildValue("(nL)", (Py_ssize_t)result->count, (long long)result->number);
}

static PyObject *mark_of(const hf_once_mark *mark)
{
    return Py_BuildValue("(KLLN)", (unsigned long long)mark->token, (long long)mark->at_ms,
                         (long long)mark->ttl_ms, text_of(mark->label));
}

/* The mark; None: it has not been done. */
PyObject *give_mark(struct call *call, const hf_result *result)
{
    bool is_done =
        result->status == (call->lease ? HF_DONE : HF_OK); /* hf_once_claim(), hf_once_get() */

    if (!is_done || !result->mark)
        Py_RETURN_NONE;
    return mark_of(result->mark);
}

/* A lease, or the mark. */
PyObject *give_once(struct call *call, const hf_result *result)
{
    return result->status == HF_OK ? give_lease(call, result) : mark_of(result->mark);
}
