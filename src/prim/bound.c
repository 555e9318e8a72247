/* SPDX-License-Identifier: MIT */
/*
 * hf_lease_cell_set(), hf_lease_cell_get(): a cell that is bound to an exclusive lease, and seen only while that lease is in the
 * store: "L1", the token of the lease, its name, and the bytes.
 *
 * One shape for all engines: the reader asks the store whether the lease still holds its name (prim/cell_run.h, HFI_ASK). So no cell is
 * shown after its lease has ended, by release, expiry, break or loss, and nothing must delete it in time: what is left of it is
 * replaced by the next that is bound to the name. The lease was there when the store was asked, which is after the cell was read: so
 * both were there when it was read.
 *
 * A lease that has a cell is not passed on within the process, and does not linger: the store would go on naming its block while
 * another thread has it, or none.
 */
#include "core/local_queue.h"
#include "core/request.h"
#include "holdfast/primitives.h"
#include "prim/lease_cell.h"
#include "prim/record.h"
#include "prim/task.h"
#include "util/alloc.h"
#include "util/error.h"

#include <stddef.h>
#include <string.h>

#define NEEDED (HF_CAP_CELLS | HF_CAP_INSPECT | HF_CAP_TOKEN)

/* ---- the record ------------------------------------------------------------------------------------- */

struct record {
    uint64_t token;
    const unsigned char *lock; /* the name of the lease; these two are in the cell's bytes */
    uint64_t lock_len;
    const unsigned char *bytes;
    size_t len;
};

/* false: it is another kind of cell. A cell that does not exist has token 0. */
static bool get(const struct hfi_cell *cell, struct record *ret_record)
{
    struct hfi_reader from = { cell->bytes, cell->len };
    const unsigned char *head;

    *ret_record = (struct record){ .token = 0 };
    if (cell->version == 0)
        return true;
    if (!hfi_get_bytes(&from, 2, &head) || memcmp(head, "L1", 2) != 0 ||
        !hfi_get_number(&from, &ret_record->token) || ret_record->token == 0 ||
        !hfi_get_number(&from, &ret_record->lock_len) || ret_record->lock_len == 0 ||
        ret_record->lock_len > HF_NAME_MAX ||
        !hfi_get_bytes(&from, (size_t)ret_record->lock_len, &ret_record->lock))
        return false;
    ret_record->bytes = from.at;
    ret_record->len = from.left;
    return true;
}

/* ---- writing ------------------------------------------------------------------------------------------ */

struct binding {
    struct hfi_prim_task task;
    struct hfi_lease_cell lease_cell;
    struct hfi_name lock; /* in lease_cell */
    const void *bytes;
    size_t len;
};

static bool put(struct hfi_buffer *to, const struct binding *binding)
{
    return hfi_put_bytes(to, "L1", 2) && hfi_put_number(to, binding->lease_cell.token) &&
           hfi_put_number(to, binding->lock.len) &&
           hfi_put_bytes(to, binding->lock.bytes, binding->lock.len) &&
           hfi_put_bytes(to, binding->bytes, binding->len);
}

static enum hfi_verdict decide_set(struct hfi_cell_run *run, void *arg)
{
    struct binding *binding = arg;
    struct record found;
    bool ours;

    if (run->wrote)
        return HFI_END;
    if (!get(&run->found, &found))
        return hfi_run_mismatch(run);
    ours = found.token == binding->lease_cell.token && found.lock &&
           found.lock_len == binding->lock.len &&
           memcmp(found.lock, binding->lock.bytes, binding->lock.len) == 0;
    if (found.token != 0 && !ours && run->answer == HFI_UNASKED)
        return hfi_run_ask(run, found.lock, (uint32_t)found.lock_len, found.token, false);
    if (found.token != 0 && !ours && run->answer == HFI_IS_HELD)
        return hfi_run_fail(run, HF_BUSY, "it is bound to another lease, which is held");
    if (!hfi_lease_cell_valid(&binding->lease_cell)) /* after the reading: see lease_cell.h */
        return hfi_run_fail(run, HF_LOST, "%s", hf_status_text(HF_LOST));
    return put(hfi_run_buffer(run), binding) ? hfi_run_write(run, 0) : hfi_run_memory(run);
}

/* The cell has its own name: that of the prim becomes the one of the cell. */
static hf_status prepare_set(struct binding *binding, hf_lease *lease, const void *name,
                             size_t name_len, const void *bytes, size_t len, hf_error *err)
{
    struct hfi_prim_task *task = &binding->task;
    uint32_t checked = 0;
    hf_status status = hfi_name_check(name, name_len, &checked, err);

    if (status == HF_OK && len > HF_LEASE_CELL_MAX)
        status = hfi_error_set(err, HF_INVALID, 0, "len: more than %d bytes", HF_LEASE_CELL_MAX);
    if (status == HF_OK && len > 0 && !bytes)
        status = hfi_error_set(err, HF_INVALID, 0, "bytes: NULL");
    if (status != HF_OK)
        return status;
    hfi_prim_task_init_run(task, decide_set, binding);
    task->run.look_again = true;
    binding->bytes = bytes;
    binding->len = len;
    status =
        hfi_lease_cell_enter(&binding->lease_cell, &task->prim, lease, "bind cell", NEEDED, err);
    if (status != HF_OK)
        return status;
    binding->lock = task->prim.name;
    hfi_lease_cell_pin(&binding->lease_cell);
    hfi_prim_rename(&task->prim, name, checked);
    return HF_OK;
}

hf_status hf_lease_cell_set(hf_lease *lease, const void *name, size_t name_len, const void *bytes,
                            size_t len, hf_error *err)
{
    struct binding binding;
    hf_status status = prepare_set(&binding, lease, name, name_len, bytes, len, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&binding.task, err);
    hfi_prim_task_done(&binding.task);
    return status;
}

hf_status hf_lease_cell_set_async(hf_lease *lease, const void *name, size_t name_len,
                                  const void *bytes, size_t len, hf_done_fn *done, void *arg,
                                  hf_op **ret_op, hf_error *err)
{
    struct binding *binding = hfi_prim_call_new(sizeof *binding);
    hf_status status;

    if (!binding)
        return hfi_error_memory(err);
    status = prepare_set(binding, lease, name, name_len, bytes, len, err);
    if (status == HF_OK) {
        binding->bytes = hfi_prim_keep(&binding->task, bytes, len);
        if (!binding->bytes) {
            hfi_prim_leave(&binding->task.prim);
            status = hfi_error_memory(err);
        }
    }
    return hfi_prim_task_begin(&binding->task, status, NULL, done, arg, ret_op, err);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static enum hfi_verdict decide_get(struct hfi_cell_run *run, void *arg)
{
    struct record found;

    (void)arg;
    if (!get(&run->found, &found))
        return hfi_run_mismatch(run);
    if (found.token == 0)
        return hfi_run_fail(run, HF_NOT_FOUND, "no such cell");
    if (run->answer == HFI_UNASKED)
        return hfi_run_ask(run, found.lock, (uint32_t)found.lock_len, found.token, false);
    if (run->answer == HFI_IS_GONE)
        return hfi_run_fail(run, HF_NOT_FOUND, "the lease that it was bound to has ended");
    return HFI_END;
}

/* The bytes move to the front, which leaves room for a NUL. */
static hf_cell show(struct hfi_cell *found)
{
    hf_cell cell = { .size = sizeof cell, .ttl_ms = -1, .version = found->version };
    struct record record;

    (void)get(found, &record); /* it was read before */
    cell.bytes = found->bytes;
    cell.len = record.len;
    if (record.len > 0)
        memmove(found->bytes, record.bytes, record.len);
    found->bytes[record.len] = 0;
    return cell;
}

static hf_status prepare_get(struct hfi_prim_task *task, hf_store *store, const void *name,
                             size_t name_len, hf_error *err)
{
    hfi_prim_task_init_run(task, decide_get, NULL);
    return hfi_prim_enter(&task->prim, store, "read bound cell", name, name_len, NEEDED, err);
}

hf_status hf_lease_cell_get(hf_store *store, const void *name, size_t name_len, hf_cell *ret_cell,
                            hf_error *err)
{
    size_t size = ret_cell ? ret_cell->size : 0;
    struct hfi_prim_task task;
    hf_cell cell;
    hf_status status;

    if (size < offsetof(hf_cell, ttl_ms) || size > HFI_STRUCT_MAX)
        return hfi_error_set(err, HF_INVALID, 0,
                             ret_cell ? "size: not that of an hf_cell; use HF_CELL_INIT"
                                      : "ret_cell: NULL");
    status = prepare_get(&task, store, name, name_len, err);
    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&task, err);
    if (status == HF_OK) {
        cell = show(&task.run.found);
        task.run.owned = NULL; /* the caller owns it now */
        cell.size = size;
        memset(ret_cell, 0, size);
        memcpy(ret_cell, &cell, size < sizeof cell ? size : sizeof cell);
    }
    hfi_prim_task_done(&task);
    return status;
}

static void finish_get(struct hfi_prim_task *task, hf_result *result)
{
    hf_cell cell;

    if (result->status != HF_OK)
        return;
    cell = show(&task->run.found);
    task->run.owned = NULL; /* the callback owns it now */
    result->bytes = cell.bytes;
    result->len = cell.len;
    result->version = cell.version;
    result->number = cell.ttl_ms;
}

hf_status hf_lease_cell_get_async(hf_store *store, const void *name, size_t name_len,
                                  hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct hfi_prim_task *task = hfi_prim_call_new(sizeof *task);

    if (!task)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(task, prepare_get(task, store, name, name_len, err), finish_get,
                               done, arg, ret_op, err);
}
