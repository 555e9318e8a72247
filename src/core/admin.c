/* SPDX-License-Identifier: MIT */
/* hf_lease_break(), hf_semaphore_resize(), hf_ask(), hf_store_wait(), hf_store_check(): what a client does without a lease of
 * its own. */
#include "core/findings.h"
#include "core/lack.h"
#include "core/request.h"
#include "core/task.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"

#include <stdio.h>

/* ---- calls about one name ------------------------------------------------------------ */

struct named_call {
    struct hfi_task task;
    const struct named_kind *kind;
    struct hfi_name name;
    uint64_t token;              /* break */
    uint32_t capacity;           /* resize */
    char text[HF_LABEL_MAX + 1]; /* ask */
    unsigned char bytes[HF_NAME_MAX];
};

struct named_kind {
    const char *verb;
    enum hfi_op_kind op;
    uint64_t cap;
    /* Set op->u but for the name. false: out of memory. */
    bool (*set)(struct named_call *call, struct hfi_op *op);
    /* The store has done it. NULL: nothing is left to do. */
    void (*did)(const struct named_call *call);
};

static hf_status named_step(struct hfi_task *task, hf_status got)
{
    static const hf_error deaf = { .text = "it is held, and no holder listens" };
    static const hf_error unheld = { .text = "it is free" };
    struct named_call *call = hfi_container(task, struct named_call, task);
    const hf_error *why = &task->child.error;
    struct hfi_op *op;

    if (task->state > 0 && got == HF_OK && call->kind->did)
        call->kind->did(call);
    if (got == HF_BUSY)
        why = &deaf;
    else if (got == HF_NOT_FOUND && call->kind->op == HFI_OP_ASK)
        why = &unheld;
    if (task->state++ > 0)
        return got == HF_OK ? hfi_ok(&task->error)
                            : hfi_store_error(task->store, call->kind->verb, &call->name, got, why,
                                              &task->error);
    op = hfi_task_op(task, call->kind->op);
    if (!op)
        return hfi_error_memory(&task->error);
    if (!call->kind->set(call, op)) {
        hfi_task_forget_op(task);
        return hfi_error_memory(&task->error);
    }
    return hfi_task_submit(task, HFI_NEVER, 0);
}

/* HF_OK: the store is entered. `call` NULL: no memory. */
static hf_status named_init(struct named_call *call, const struct named_kind *kind,
                            hf_store *handle, const void *name, size_t name_len, hf_error *err)
{
    struct hfi_store *store;
    hf_status status = call ? hfi_store_enter(handle, &store, err) : hfi_error_memory(err);

    if (status != HF_OK)
        return status;
    hfi_task_init(&call->task, store, named_step);
    call->task.free = hfi_task_free_entered;
    call->kind = kind;
    status = hfi_name_check(name, name_len, &call->name.len, err);
    if (status == HF_OK && !(hfi_store_promises(store)->caps & kind->cap))
        status = hfi_unsupported(hfi_store_promises(store), kind->cap, NULL, err);
    if (status != HF_OK) {
        hfi_store_leave(store);
        return status;
    }
    memcpy(call->bytes, name, call->name.len);
    call->name.bytes = call->bytes;
    hfi_hash128(call->bytes, call->name.len, call->name.hash);
    return HF_OK;
}

/* Begin a call of hfi_malloc(), or free it if it was not initialized. */
static hf_status named_begin(struct named_call *call, hf_status status, hf_done_fn *done, void *arg,
                             hf_op **ret_op, hf_error *err)
{
    if (status == HF_OK)
        return hfi_task_begin_entered(&call->task, done, arg, ret_op, err);
    hfi_free(call);
    return status;
}

/* ---- break --------------------------------------------------------------------------- */

static bool break_set(struct named_call *call, struct hfi_op *op)
{
    op->u.brk.name = hfi_task_name(&call->task, &call->name);
    op->u.brk.token = call->token;
    return true;
}

/* Our own lease is lost before the caller hears of it: otherwise it would count as held by us, and be a deadlock if we asked for it again. */
static void break_did(const struct named_call *call)
{
    hfi_lease_broken(call->task.store, &call->name, call->token);
}

static hf_status break_init(struct named_call *call, hf_store *handle, const void *name,
                            size_t name_len, uint64_t token, hf_error *err)
{
    static const struct named_kind kind = { "break", HFI_OP_BREAK, HF_CAP_BREAK, break_set,
                                            break_did };
    hf_status status = named_init(call, &kind, handle, name, name_len, err);

    if (status != HF_OK)
        return status;
    call->token = token;
    if (token > 0 && token < HFI_TOKEN_LIMIT)
        return HF_OK;
    hfi_store_leave(call->task.store);
    return hfi_error_set(err, HF_INVALID, 0, "token: must be from 1 to 2^53 - 1");
}

hf_status hf_lease_break(hf_store *handle, const void *name, size_t name_len, uint64_t token,
                         hf_error *err)
{
    struct named_call call;
    hf_status status = break_init(&call, handle, name, name_len, token, err);

    return status == HF_OK ? hfi_task_run_entered(&call.task, err) : status;
}

hf_status hf_lease_break_async(hf_store *handle, const void *name, size_t name_len, uint64_t token,
                               hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct named_call *call = hfi_malloc(sizeof *call);

    return named_begin(call, break_init(call, handle, name, name_len, token, err), done, arg,
                       ret_op, err);
}

/* ---- resize ---------------------------------------------------------------------------- */

static bool resize_set(struct named_call *call, struct hfi_op *op)
{
    op->u.resize.name = hfi_task_name(&call->task, &call->name);
    op->u.resize.capacity = call->capacity;
    return true;
}

static hf_status resize_init(struct named_call *call, hf_store *handle, const void *name,
                             size_t name_len, uint32_t capacity, hf_error *err)
{
    static const struct named_kind kind = { "resize", HFI_OP_RESIZE, HF_CAP_RESIZE, resize_set,
                                            NULL };
    hf_status status = named_init(call, &kind, handle, name, name_len, err);

    if (status != HF_OK)
        return status;
    call->capacity = capacity;
    if (capacity <= HF_CAPACITY_MAX)
        return HF_OK;
    hfi_store_leave(call->task.store);
    return hfi_error_set(err, HF_INVALID, 0, "capacity: %u, must be at most %u", capacity,
                         HF_CAPACITY_MAX);
}

hf_status hf_semaphore_resize(hf_store *handle, const void *name, size_t name_len,
                              uint32_t capacity, hf_error *err)
{
    struct named_call call;
    hf_status status = resize_init(&call, handle, name, name_len, capacity, err);

    return status == HF_OK ? hfi_task_run_entered(&call.task, err) : status;
}

hf_status hf_semaphore_resize_async(hf_store *handle, const void *name, size_t name_len,
                                    uint32_t capacity, hf_done_fn *done, void *arg, hf_op **ret_op,
                                    hf_error *err)
{
    struct named_call *call = hfi_malloc(sizeof *call);

    return named_begin(call, resize_init(call, handle, name, name_len, capacity, err), done, arg,
                       ret_op, err);
}

/* ---- ask ------------------------------------------------------------------------------- */

static bool ask_set(struct named_call *call, struct hfi_op *op)
{
    char *text = hfi_strndup(call->text, strlen(call->text));

    if (!text)
        return false;
    op->u.ask.name = hfi_task_name(&call->task, &call->name);
    op->u.ask.text = text;
    hfi_task_keep(&call->task, text, NULL);
    return true;
}

static hf_status ask_init(struct named_call *call, hf_store *handle, const void *name,
                          size_t name_len, const char *text, hf_error *err)
{
    static const struct named_kind kind = { "ask", HFI_OP_ASK, HF_CAP_WANTED, ask_set, NULL };
    hf_status status = named_init(call, &kind, handle, name, name_len, err);
    size_t len;

    if (status != HF_OK)
        return status;
    text = text ? text : call->task.store->label;
    len = hfi_label_len(text, HF_LABEL_MAX);
    memcpy(call->text, text, len);
    call->text[len] = 0;
    return HF_OK;
}

hf_status hf_ask(hf_store *handle, const void *name, size_t name_len, const char *text,
                 hf_error *err)
{
    struct named_call call;
    hf_status status = ask_init(&call, handle, name, name_len, text, err);

    return status == HF_OK ? hfi_task_run_entered(&call.task, err) : status;
}

hf_status hf_ask_async(hf_store *handle, const void *name, size_t name_len, const char *text,
                       hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct named_call *call = hfi_malloc(sizeof *call);

    return named_begin(call, ask_init(call, handle, name, name_len, text, err), done, arg, ret_op,
                       err);
}

/* ---- wait for a change ------------------------------------------------------------------ */

struct change_call {
    struct hfi_task task;
    uint64_t seq;
    int64_t until_ms;
};

static hf_status change_step(struct hfi_task *task, hf_status got)
{
    struct change_call *call = hfi_container(task, struct change_call, task);
    struct hfi_op *op;

    if (task->state++ > 0) {
        if (task->child.op)
            call->seq = task->child.op->u.change.seq;
        if (got == HF_UNKNOWN)
            got = HF_UNAVAILABLE; /* a wait changes nothing: no outcome of it can be unknown */
        if (got == HF_TIMEOUT)
            hfi_error_set(&task->child.error, got, 0, "nothing changed");
        return got == HF_OK ? hfi_ok(&task->error)
                            : hfi_store_error(task->store, "wait for a change", NULL, got,
                                              &task->child.error, &task->error);
    }
    op = hfi_task_op(task, HFI_OP_CHANGE_WAIT);
    if (!op)
        return hfi_error_memory(&task->error);
    op->u.change.seq = call->seq;
    return hfi_task_submit(task, call->until_ms, 0);
}

static void change_finish(struct hfi_task *task, hf_result *result)
{
    result->version = hfi_container(task, struct change_call, task)->seq;
}

/* HF_OK: the store is entered. */
static hf_status change_init(struct change_call *call, hf_store *handle, const uint64_t *seq,
                             int64_t wait_ms, hf_cancel *cancel, hf_error *err)
{
    struct hfi_store *store;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    hfi_task_init(&call->task, store, change_step);
    call->task.finish = change_finish;
    call->task.free = hfi_task_free_entered;
    call->task.cancel = cancel;
    if (!seq)
        status = hfi_error_set(err, HF_INVALID, 0, "seq: NULL");
    else if (wait_ms < HF_FOREVER || wait_ms > HF_DURATION_MAX_MS)
        status = hfi_error_set(err, HF_INVALID, 0,
                               "wait_ms: negative and not HF_FOREVER, or more than ten years");
    else if (!(hfi_store_promises(store)->caps & HF_CAP_WATCH))
        status = hfi_unsupported(hfi_store_promises(store), HF_CAP_WATCH, NULL, err);
    else if (cancel && hfi_cancel_look(cancel) != HF_CANCELLED)
        status = hfi_cancel_check(cancel, err);
    if (status != HF_OK) {
        hfi_store_leave(store);
        return status;
    }
    call->seq = *seq;
    call->until_ms = wait_ms == HF_FOREVER ? HFI_NEVER
                     : wait_ms == 0        ? hfi_now_ms()
                                           : hfi_wait_end_ms(wait_ms);
    return HF_OK;
}

hf_status hf_store_wait(hf_store *handle, uint64_t *seq, int64_t wait_ms, hf_cancel *cancel,
                        hf_error *err)
{
    struct change_call call;
    hf_status status = change_init(&call, handle, seq, wait_ms, cancel, err);

    if (status != HF_OK)
        return status;
    status = hfi_task_run_entered(&call.task, err);
    *seq = call.seq; /* after HF_TIMEOUT too: 0 was "now" */
    return status;
}

hf_status hf_store_wait_async(hf_store *handle, uint64_t seq, int64_t wait_ms, hf_cancel *cancel,
                              hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct change_call *call = hfi_malloc(sizeof *call);
    hf_status status;

    if (!call)
        return hfi_error_memory(err);
    status = change_init(call, handle, &seq, wait_ms, cancel, err);
    if (status == HF_OK)
        return hfi_task_begin_entered(&call->task, done, arg, ret_op, err);
    hfi_free(call);
    return status;
}

/* ---- doctor -------------------------------------------------------------------------------- */

static void check_secret(const struct hfi_store *store, struct hfi_findings *findings)
{
    char text[HFI_EXPOSED_MAX + 128];

    if (!store->exposed[0])
        return;
    snprintf(text, sizeof text,
             "users other than the owner may read or write the file %s, which has the password: "
             "chmod 600",
             store->exposed);
    hfi_findings_add(HF_CHECK_LEVEL_WARNING, "password_file", text, findings);
}

static hf_status check_store(struct hfi_store *store, hf_report **ret_report, hf_error *err)
{
    const struct hfi_admin *admin = hfi_store_engine(store)->admin;
    struct hfi_findings findings = { .failed = false };
    hf_error inner = { .status = HF_OK };
    hf_status status = HF_OK;
    hf_report *report;

    check_secret(store, &findings);
    if (admin && admin->doctor)
        status = admin->doctor(store->opened, hfi_findings_add, &findings, &inner);
    if (status == HF_UNKNOWN)
        status = HF_UNAVAILABLE; /* a check changes nothing: no outcome of it can be unknown */
    report = hfi_findings_report(&findings);
    if (status != HF_OK) {
        hfi_free(report);
        return hfi_store_error(store, "doctor", NULL, status, &inner, err);
    }
    if (!report)
        return hfi_error_memory(err);
    *ret_report = report;
    return hfi_ok(err);
}

struct check_call {
    struct hfi_task task;
    hf_report *report;
};

static hf_status check_work(struct hfi_task *task)
{
    return check_store(task->store, &hfi_container(task, struct check_call, task)->report,
                       &task->child.error);
}

static hf_status check_step(struct hfi_task *task, hf_status got)
{
    if (task->state++ == 0)
        return hfi_task_work(task, check_work);
    task->error = task->child.error;
    return got;
}

static void check_finish(struct hfi_task *task, hf_result *result)
{
    result->report = hfi_container(task, struct check_call, task)->report;
}

static void check_init(struct check_call *call, struct hfi_store *store)
{
    hfi_task_init(&call->task, store, check_step);
    call->task.finish = check_finish;
    call->task.free = hfi_task_free_entered;
    call->report = NULL;
}

hf_status hf_store_check(hf_store *handle, hf_report **ret_report, hf_error *err)
{
    struct check_call call;
    struct hfi_store *store;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    if (!ret_report) {
        hfi_store_leave(store);
        return hfi_error_set(err, HF_INVALID, 0, "ret_report: NULL");
    }
    check_init(&call, store);
    status = hfi_task_run_entered(&call.task, err);
    if (status == HF_OK)
        *ret_report = call.report;
    return status;
}

hf_status hf_store_check_async(hf_store *handle, hf_done_fn *done, void *arg, hf_op **ret_op,
                               hf_error *err)
{
    struct check_call *call = hfi_malloc(sizeof *call);
    struct hfi_store *store;
    hf_status status = call ? hfi_store_enter(handle, &store, err) : hfi_error_memory(err);

    if (status != HF_OK) {
        hfi_free(call);
        return status;
    }
    check_init(call, store);
    return hfi_task_begin_entered(&call->task, done, arg, ret_op, err);
}
