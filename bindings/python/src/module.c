/* SPDX-License-Identifier: MIT */
/* The module: its functions, its numbers, and errors as exceptions. */
#include "binding.h"

#include <stdio.h>

static PyObject *error_classes, *error_base; /* {status: class}, and the class of all others */

/* ---- errors ------------------------------------------------------------------------------------- */

PyObject *make_error(const hf_error *error)
{
    PyObject *status = PyLong_FromLong((long)error->status), *class, *text, *made = NULL;

    if (!status)
        return NULL;
    class = error_classes ? PyDict_GetItemWithError(error_classes, status) : NULL;
    if (!class && !PyErr_Occurred())
        class = error_base ? error_base : PyExc_RuntimeError;
    text = class ? text_of(error->text) : NULL;
    if (text)
        made = PyObject_CallFunction(class, "OiO", status, error->native, text);
    Py_XDECREF(text);
    Py_DECREF(status);
    return made;
}

PyObject *raise_error(const hf_error *error)
{
    PyObject *made = make_error(error);

    if (made) {
        PyErr_SetObject((PyObject *)Py_TYPE(made), made);
        Py_DECREF(made);
    }
    return NULL;
}

PyObject *raise_status(hf_status status, const char *what)
{
    hf_error error = { .status = status };

    snprintf(error.text, sizeof error.text, "%s: %s", what, hf_status_text(status));
    return raise_error(&error);
}

/* ---- functions ------------------------------------------------------------------------------------ */

const struct call_type *call_type_get(size_t index)
{
    size_t i = 0;

    for (; lock_calls[i].name; i++)
        if (i == index)
            return &lock_calls[i];
    for (size_t j = 0; prim_calls[j].name; j++)
        if (i + j == index)
            return &prim_calls[j];
    return NULL;
}

static PyObject *engine_of(const hf_engine_info *e)
{
    return Py_BuildValue("(NNNKiNNNNNNNNNN)", text_of(e->name), text_of(e->schemes),
                         PyBool_FromLong(e->available), (unsigned long long)e->caps, (int)e->tokens,
                         text_of(e->on_crash), text_of(e->on_pause), text_of(e->on_clock_jump),
                         text_of(e->on_server_loss), text_of(e->on_partition), text_of(e->fairness),
                         text_of(e->wakeup), text_of(e->why_not), text_of(e->choice),
                         lacks_of(e->lacks));
}

static PyObject *module_engines(PyObject *module, PyObject *none)
{
    PyObject *list = PyList_New(0);
    const hf_engine_info *one;

    (void)module, (void)none;
    for (size_t i = 0; list && hf_engine_get(i); i++)
        for (size_t mode = 0; list && (one = hf_engine_get_mode(i, mode)); mode++)
            if (!list_add(list, engine_of(one)))
                Py_CLEAR(list);
    return list;
}

static PyObject *module_op_cancel(PyObject *module, PyObject *op)
{
    void *handle = PyLong_AsVoidPtr(op);

    (void)module;
    if (!handle && PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    hf_op_cancel(handle); /* one that has ended is answered and not touched */
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *module_status(PyObject *module, PyObject *args)
{
    int number;

    (void)module;
    if (!PyArg_ParseTuple(args, "i", &number))
        return NULL;
    return Py_BuildValue("(ss)", hf_status_name((hf_status)number),
                         hf_status_text((hf_status)number));
}

/* (class of leases, {status: class of errors}, class of other errors) */
static PyObject *module_register(PyObject *module, PyObject *args)
{
    PyObject *lease, *classes, *base;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O", &PyType_Type, &lease, &PyDict_Type, &classes, &base))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)lease, &lease_type)) {
        PyErr_SetString(PyExc_TypeError, "not a class of leases");
        return NULL;
    }
    Py_INCREF(lease);
    Py_INCREF(classes);
    Py_INCREF(base);
    Py_XSETREF(lease_class, lease);
    Py_XSETREF(error_classes, classes);
    Py_XSETREF(error_base, base);
    Py_RETURN_NONE;
}

static PyObject *module_set_main(PyObject *module, PyObject *thread)
{
    unsigned long ident = PyLong_AsUnsignedLong(thread);

    (void)module;
    if (PyErr_Occurred())
        return NULL;
    wait_set_main(ident);
    callbacks_forked();
    Py_RETURN_NONE;
}

static PyObject *module_stop(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    callbacks_stop();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "call", module_call, METH_VARARGS, "call(which, on, cancel, *args): the blocking form" },
    { "begin", module_begin, METH_VARARGS,
      "begin(which, on, callback, *args): the asynchronous form" },
    { "op_cancel", module_op_cancel, METH_O, "hf_op_cancel()" },
    { "engines", module_engines, METH_NOARGS, "hf_engine_get_mode() of all" },
    { "status", module_status, METH_VARARGS, "hf_status_name() and hf_status_text()" },
    { "bound_ms", module_bound_ms, METH_O, "hf_histogram_bound_ms()" },
    { "quantile_ms", module_quantile_ms, METH_VARARGS,
      "hf_histogram_quantile_ms() of (buckets, share)" },
    { "register", module_register, METH_VARARGS, "the classes of leases and errors" },
    { "set_main", module_set_main, METH_O, "which thread runs signal handlers; also after fork" },
    { "stop", module_stop, METH_NOARGS, "no callback enters the interpreter any more" },
    { NULL, NULL, 0, NULL }
};

/* ---- the module -------------------------------------------------------------------------------------- */

static bool add_type(PyObject *module, const char *name, PyTypeObject *type)
{
    if (PyType_Ready(type) != 0)
        return false;
    Py_INCREF(
        type); /* which AddObject() steals only if it succeeds; a static type is never freed anyway */
    return PyModule_AddObject(module, name, (PyObject *)type) == 0;
}

/* CELL_GET = its number, and so on. */
static bool add_calls(PyObject *module)
{
    const struct call_type *type;
    char name[64];

    for (size_t i = 0; (type = call_type_get(i)); i++) {
        size_t len = strlen(type->name);

        for (size_t at = 0; at <= len; at++)
            name[at] = (char)Py_TOUPPER((unsigned char)type->name[at]);
        if (PyModule_AddIntConstant(module, name, (long)i) != 0)
            return false;
    }
    return true;
}

/* In each interpreter that imports it. Callbacks of the library enter the main one (PyGILState_Ensure), and our types are of one. */
static int fill(PyObject *module)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "holdfast works only in the main interpreter");
        return -1;
    }
    if (add_type(module, "Store", &store_type) && add_type(module, "Lease", &lease_type) &&
        add_type(module, "Request", &request_type) && add_type(module, "Cancel", &cancel_type) &&
        add_calls(module) && PyModule_AddStringConstant(module, "VERSION", hf_version()) == 0)
        return 0;
    return -1;
}

static PyModuleDef_Slot slots[] = { { Py_mod_exec, fill }, { 0, NULL } };
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_holdfast",
    .m_doc = "libholdfast for the modules of the package holdfast; not for programs.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__holdfast(void)
{
    return PyModuleDef_Init(&definition);
}
