/* SPDX-License-Identifier: MIT */
/* hf_stats for Python. types.py gives the numbers their names, in the order in which they are written here. */
#include "binding.h"

#include <holdfast/observe.h>

static PyObject *histogram_of(const hf_histogram *histogram)
{
    PyObject *buckets = PyTuple_New(HF_HISTOGRAM_BUCKETS);

    for (Py_ssize_t i = 0; buckets && i < HF_HISTOGRAM_BUCKETS; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(histogram->buckets[i]);

        if (number)
            PyTuple_SET_ITEM(buckets, i, number);
        else
            Py_CLEAR(buckets);
    }
    if (!buckets)
        return NULL;
    return Py_BuildValue("(KKN)", (unsigned long long)histogram->count,
                         (unsigned long long)histogram->sum_ms, buckets);
}

/* {reason: number}. Reasons are appended only: those that the library does not know come last, and all have one name. */
static PyObject *losses_of(const hf_stats *stats)
{
    PyObject *losses = PyDict_New();

    for (int i = HF_LOSS_NONE + 1; losses && i < HF_LOSSES_MAX; i++) {
        const char *name = hf_loss_name((hf_loss)i);
        PyObject *number;

        if (strcmp(name, "unknown") == 0)
            break;
        number = PyLong_FromUnsignedLongLong(stats->losses[i]);
        if (!number || PyDict_SetItemString(losses, name, number) != 0)
            Py_CLEAR(losses);
        Py_XDECREF(number);
    }
    return losses;
}

PyObject *store_stats(StoreObject *self, PyObject *none)
{
    hf_stats s = HF_STATS_INIT;
    hf_store *handle = self->handle;
    hf_status status;

    (void)none;
    if (!handle)
        return raise_status(HF_INVALID, "the store is closed");
    Py_BEGIN_ALLOW_THREADS;
    status = hf_stats_get(handle, &s);
    Py_END_ALLOW_THREADS;
    if (status != HF_OK)
        return raise_status(status, "stats");
    return Py_BuildValue("(KKKKKKKKKKKNKNKKNKKK)", (unsigned long long)s.granted,
                         (unsigned long long)s.busy, (unsigned long long)s.timeouts,
                         (unsigned long long)s.cancelled, (unsigned long long)s.deadlocks,
                         (unsigned long long)s.unknown, (unsigned long long)s.failed,
                         (unsigned long long)s.reentries, (unsigned long long)s.handovers,
                         (unsigned long long)s.passes, (unsigned long long)s.lingered,
                         histogram_of(&s.waits), (unsigned long long)s.held, histogram_of(&s.holds),
                         (unsigned long long)s.renewals, (unsigned long long)s.renewals_failed,
                         losses_of(&s), (unsigned long long)s.releases_unknown,
                         (unsigned long long)s.reconnects, (unsigned long long)s.commands);
}

PyObject *module_bound_ms(PyObject *module, PyObject *bucket)
{
    size_t number = PyLong_AsSize_t(bucket);

    (void)module;
    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromLongLong(hf_histogram_bound_ms(number));
}

PyObject *module_quantile_ms(PyObject *module, PyObject *args)
{
    hf_histogram histogram = { 0 };
    PyObject *buckets;
    double share;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!d", &PyTuple_Type, &buckets, &share))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(buckets) && i < HF_HISTOGRAM_BUCKETS; i++) {
        histogram.buckets[i] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(buckets, i));
        if (PyErr_Occurred())
            return NULL;
        histogram.count += histogram.buckets[i];
    }
    return PyLong_FromLongLong(hf_histogram_quantile_ms(&histogram, share));
}
