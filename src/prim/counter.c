/* SPDX-License-Identifier: MIT */
/*
 * hf_counter_add() and the others: a 64-bit number under a name. The calling thread does it all.
 *
 * An engine with HFI_NATIVE_COUNTER does each of them in one step of its own (Redis: INCRBY). Elsewhere
 * a counter is a cell: its bytes are "N" and the number in decimal digits, written in one way only.
 * Each call that changes it reads, computes, and swaps what was read at the version that was read; if
 * that moved meanwhile, again, after a pause that is longer each time and no other's: whoever moved it
 * got on. A swap whose outcome is unknown is not sent again: it could count twice.
 */
#include "engine/native.h"

#include "core/op.h"
#include "holdfast/primitives.h"
#include "prim/cell_op.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES_MAX      22 /* "N-9223372036854775808" and a NUL */
#define PAUSE_FIRST_US 50
#define PAUSE_LAST_US  20000

static hf_status run_native(const struct hfi_prim *prim, struct hfi_counter_op *op,
                            hf_error *inner);
static hf_status run_on_cell(const struct hfi_prim *prim, struct hfi_counter_op *op,
                             hf_error *inner);

/* ---- the calls ---------------------------------------------------------------------------- */

static hf_status run(hf_store *at, const void *name, size_t name_len, const char *verb,
                     struct hfi_counter_op *op, hf_error *err)
{
    struct hfi_prim prim;
    hf_error inner = { .status = HF_OK };
    hf_status status = hfi_prim_enter(&prim, at, verb, name, name_len, HF_CAP_CELLS, err);

    if (status != HF_OK)
        return status;
    status = hfi_store_engine(prim.store)->native & HFI_NATIVE_COUNTER
                 ? run_native(&prim, op, &inner)
                 : run_on_cell(&prim, op, &inner);
    if (status == HF_OK)
        hfi_ok(err);
    else
        hfi_prim_error(&prim, status, &inner, err);
    hfi_prim_leave(&prim);
    return status;
}

hf_status hf_counter_add(hf_store *store, const void *name, size_t name_len, int64_t delta,
                         int64_t *ret_value, hf_error *err)
{
    struct hfi_counter_op op = { .verb = HFI_COUNTER_ADD, .value = delta };
    hf_status status = run(store, name, name_len, "count", &op, err);

    if (status == HF_OK && ret_value)
        *ret_value = op.ret_value;
    return status;
}

hf_status hf_counter_get(hf_store *store, const void *name, size_t name_len, int64_t *ret_value,
                         hf_error *err)
{
    struct hfi_counter_op op = { .verb = HFI_COUNTER_GET };
    hf_status status;

    if (!ret_value)
        return hfi_error_set(err, HF_INVALID, 0, "ret_value: NULL");
    status = run(store, name, name_len, "read counter", &op, err);
    if (status == HF_OK)
        *ret_value = op.ret_value;
    return status;
}

hf_status hf_counter_set(hf_store *store, const void *name, size_t name_len, int64_t value,
                         hf_error *err)
{
    struct hfi_counter_op op = { .verb = HFI_COUNTER_SET, .value = value };

    return run(store, name, name_len, "set counter", &op, err);
}

hf_status hf_counter_swap(hf_store *store, const void *name, size_t name_len, int64_t expected,
                          int64_t value, int64_t *ret_current, hf_error *err)
{
    struct hfi_counter_op op = { .verb = HFI_COUNTER_SET_IF, .value = value, .expected = expected };
    hf_status status = run(store, name, name_len, "set counter", &op, err);

    if (ret_current && (status == HF_OK || status == HF_CHANGED))
        *ret_current = status == HF_OK ? value : op.ret_value;
    return status;
}

hf_status hf_counter_delete(hf_store *store, const void *name, size_t name_len, hf_error *err)
{
    struct hfi_counter_op op = { .verb = HFI_COUNTER_DELETE };

    return run(store, name, name_len, "delete counter", &op, err);
}

static hf_status changed(const struct hfi_counter_op *op, hf_error *inner)
{
    return hfi_error_set(inner, HF_CHANGED, 0, "it is %" PRId64 ", and not %" PRId64, op->ret_value,
                         op->expected);
}

/* ---- by the engine itself ------------------------------------------------------------------ */

/* It may be finished after we have given it up, so it has all that it needs in itself. */
struct native {
    struct hfi_job job;
    struct hfi_counter_op op;
    unsigned char name[HF_NAME_MAX];
};

static void late_native(struct hfi_job *job)
{
    struct hfi_store *store = job->store;

    hfi_free(hfi_container(job, struct native, job));
    hfi_keeper_idle(store);
}

static hf_status run_native(const struct hfi_prim *prim, struct hfi_counter_op *op, hf_error *inner)
{
    struct native *native = hfi_malloc(sizeof *native);
    bool reads = op->verb == HFI_COUNTER_GET, gone;
    hf_status status;

    if (!native)
        return hfi_error_memory(inner);
    hfi_job_init(&native->job, prim->store, HFI_OP_COUNTER);
    native->job.late = late_native;
    native->op = *op;
    memcpy(native->name, prim->name.bytes, prim->name.len);
    native->op.name = prim->name;
    native->op.name.bytes = native->name;
    native->job.op.u.counter = &native->op;

    hfi_keeper_busy(prim->store); /* for late_native(), which may come any time */
    status = hfi_job_run(&native->job, &gone);
    if (gone)
        return hfi_error_set(inner, reads ? HF_UNAVAILABLE : HF_UNKNOWN, 0,
                             "the store did not answer in time");
    hfi_keeper_idle(prim->store);
    op->ret_value = native->op.ret_value;
    if (status == HF_CHANGED)
        changed(op, inner);
    else if (status != HF_OK)
        *inner = native->job.op.error;
    hfi_free(native);
    return status == HF_UNKNOWN && reads ? HF_UNAVAILABLE : status;
}

/* ---- on a cell ----------------------------------------------------------------------------- */

/* The number of a cell's bytes; false: it is not a counter. */
static bool parse(const struct hfi_cell *cell, int64_t *ret_value)
{
    char text[BYTES_MAX], again[BYTES_MAX];

    if (cell->len < 2 || cell->len >= sizeof text || cell->bytes[0] != 'N')
        return false;
    memcpy(text, cell->bytes, cell->len);
    text[cell->len] = 0;
    *ret_value = strtoll(text + 1, NULL, 10);
    /* What it would be written as: so "N007", what is too large and what is no number are not ours. */
    snprintf(again, sizeof again, "N%" PRId64, *ret_value);
    return strlen(text) == cell->len && strcmp(again, text) == 0;
}

/* What it would become. HF_OK, HF_OVERFLOW or HF_CHANGED. */
static hf_status compute(struct hfi_counter_op *op, int64_t now, int64_t *ret_next, hf_error *inner)
{
    op->ret_value = now;
    switch (op->verb) {
    case HFI_COUNTER_ADD:
        if (__builtin_add_overflow(now, op->value, ret_next))
            return hfi_error_set(inner, HF_OVERFLOW, 0, "%" PRId64 " and %" PRId64 ": %s", now,
                                 op->value, hf_status_text(HF_OVERFLOW));
        return HF_OK;
    case HFI_COUNTER_SET_IF:
        if (now != op->expected)
            return changed(op, inner);
        break;
    case HFI_COUNTER_GET:
    case HFI_COUNTER_SET:
    case HFI_COUNTER_DELETE:
        break;
    }
    *ret_next = op->value;
    return HF_OK;
}

/* Read, compute, swap: once. HF_BUSY: somebody else was there in between. */
static hf_status attempt(const struct hfi_prim *prim, struct hfi_counter_op *op, hf_error *inner)
{
    struct hfi_cell cell;
    char bytes[BYTES_MAX];
    int64_t now = 0, next = 0;
    hf_status status = hfi_cell_read(prim, &cell, inner);
    uint64_t version = cell.version;

    if (status != HF_OK)
        return status;
    if (version != 0 && !parse(&cell, &now))
        status = hfi_error_set(inner, HF_MISMATCH, 0, "%s", hf_status_text(HF_MISMATCH));
    hfi_cell_forget(&cell);
    if (status == HF_OK)
        status = compute(op, now, &next, inner);
    if (status != HF_OK || op->verb == HFI_COUNTER_GET ||
        (op->verb == HFI_COUNTER_DELETE && version == 0))
        return status;

    snprintf(bytes, sizeof bytes, "N%" PRId64, next);
    status = hfi_cell_swap(prim, version, op->verb == HFI_COUNTER_DELETE ? NULL : bytes,
                           strlen(bytes), 0, NULL, inner);
    if (status == HF_OK)
        op->ret_value = next;
    return status;
}

/* Between nothing and all of `most_us`: those who collided come back at different times. */
static void rest(int64_t most_us)
{
    int64_t us = (int64_t)(hfi_random_u64() % (uint64_t)(most_us + 1));

    nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

static hf_status run_on_cell(const struct hfi_prim *prim, struct hfi_counter_op *op,
                             hf_error *inner)
{
    int64_t until_ms = hfi_now_ms() + HFI_CALL_LIMIT_MS, most_us = PAUSE_FIRST_US;
    hf_status status;

    while ((status = attempt(prim, op, inner)) == HF_BUSY) {
        if (hfi_now_ms() >= until_ms)
            return hfi_error_set(inner, HF_BUSY, 0, "others change it all the time");
        rest(most_us);
        most_us = most_us < PAUSE_LAST_US / 2 ? most_us * 2 : PAUSE_LAST_US;
    }
    return status;
}
