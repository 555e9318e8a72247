/* SPDX-License-Identifier: MIT */
/* How a call is described: shorthands for calls_lock.c and calls_prims.c only. `c` is the call, `f` what the blocking form found. */
#ifndef HOLDFAST_FORMS_H
#define HOLDFAST_FORMS_H

#include "binding.h"

#define FORMS(name, blocking, asynchronous)                                                \
    static hf_status block_##name(struct call *c, struct found *f)                         \
    {                                                                                      \
        (void)f;                                                                           \
        return blocking;                                                                   \
    }                                                                                      \
    static hf_status begin_##name(struct call *c, hf_done_fn *done, void *arg, hf_op **op, \
                                  hf_error *err)                                           \
    {                                                                                      \
        return asynchronous;                                                               \
    }

#define NAME  c->name.buf, (size_t)c->name.len
#define BYTES c->bytes.buf, (size_t)c->bytes.len
#define ERR   &f->error
#define LATER done, arg, op, err
#define R     f->result

#define FINE(status) (UINT64_C(1) << (status))

/* name, how it is read, flags, statuses that are results, what it gives */
#define CALL(name_, read_, flags_, fine_, give_)                                                   \
    {                                                                                              \
        .name = #name_, .flags = (flags_), .fine = (fine_), .read = read_, .block = block_##name_, \
        .begin = begin_##name_, .give = give_                                                      \
    }

int read_requests(struct call *call, PyObject *requests, unsigned long long scope);
int read_bytes(PyObject *object, void *buffer);
int read_named(struct call *call);
int read_nothing(struct call *call);

#endif
