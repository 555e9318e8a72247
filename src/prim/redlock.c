/* SPDX-License-Identifier: MIT */
/*
 * hf_redlock_*(), in both forms: calls that only the redlock engine has, for the store of a URL, which is not opened. The
 * blocking forms run on the calling thread. In the asynchronous ones what blocks runs on a worker, and the caller's functions
 * run in hf_store_process().
 */
#include "core/by_url.h"
#include "core/findings.h"
#include "core/thread.h"
#include "engine/redlock/extension.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static hf_status open_url(struct hfi_by_url *at, const char *url, hf_error *err)
{
    return hfi_by_url_open(at, url, HFI_REDLOCK_EXTENSION, sizeof(struct hfi_redlock_extension),
                           err);
}

/* ---- status ------------------------------------------------------------------------------------ */

struct status_call {
    struct hfi_by_url_task task;
    struct hfi_redlock_status *whole; /* NULL: no node was asked */
};

static hf_status ask_nodes(const struct hfi_by_url *at, struct hfi_redlock_status **ret_whole,
                           hf_error *err)
{
    const struct hfi_redlock_extension *redlock = at->extension;

    return redlock->get_status(at->conf, ret_whole, err);
}

hf_status hf_redlock_get_status(const char *url, hf_redlock_status **ret_status, hf_error *err)
{
    struct hfi_redlock_status *whole = NULL;
    struct hfi_by_url at;
    hf_status status;

    if (!ret_status)
        return hfi_error_set(err, HF_INVALID, 0, "ret_status: NULL");
    *ret_status = NULL;
    status = open_url(&at, url, err);
    if (status != HF_OK)
        return status;
    status = ask_nodes(&at, &whole, err);
    if (whole)
        *ret_status = &whole->status;
    return hfi_by_url_close(&at, status, err);
}

static hf_status status_work(struct hfi_task *task)
{
    struct status_call *call = hfi_container(task, struct status_call, task.core);

    return ask_nodes(&call->task.at, &call->whole, &task->child.error);
}

static hf_status status_step(struct hfi_task *task, hf_status got)
{
    struct status_call *call = hfi_container(task, struct status_call, task.core);

    if (task->state++ == 0)
        return hfi_task_work(task, status_work);
    task->error = task->child.error;
    return hfi_by_url_close(&call->task.at, got, &task->error);
}

static void status_finish(struct hfi_task *task, hf_result *result)
{
    struct status_call *call = hfi_container(task, struct status_call, task.core);

    if (call->whole)
        result->redlock = &call->whole->status;
}

hf_status hf_redlock_get_status_async(hf_store *handle, const char *url, hf_done_fn *done,
                                      void *arg, hf_op **ret_op, hf_error *err)
{
    struct status_call *call = hfi_malloc(sizeof *call);
    hf_status status =
        call ? hfi_by_url_enter(&call->task, handle, status_step, err) : hfi_error_memory(err);

    if (status != HF_OK) {
        hfi_free(call);
        return status;
    }
    call->task.core.finish = status_finish;
    call->whole = NULL;
    return hfi_by_url_begin(&call->task, open_url(&call->task.at, url, err), done, arg, ret_op,
                            err);
}

const hf_redlock_node *hf_redlock_get_node(const hf_redlock_status *status, size_t index)
{
    const struct hfi_redlock_status *whole = (const void *)status;

    return status && index < whole->count ? &whole->nodes[index] : NULL;
}

/* ---- join -------------------------------------------------------------------------------------- */

static hf_status prepare_join(struct hfi_by_url *at, const char *url, uint64_t flags, hf_error *err)
{
    if (flags & ~HF_REDLOCK_JOIN_FLAG_FORCE)
        return hfi_error_set(err, HF_INVALID, 0, "flags: unknown bits 0x%" PRIx64,
                             flags & ~HF_REDLOCK_JOIN_FLAG_FORCE);
    return open_url(at, url, err);
}

static void ignore(hf_check_level level, const char *topic, const char *text, void *arg)
{
    (void)level, (void)topic, (void)text, (void)arg;
}

static void sleep_ms(int64_t ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

    nanosleep(&t, NULL);
}

hf_status hf_redlock_join(const char *url, const char *node, uint64_t flags, hf_redlock_fn *told,
                          void *arg, hf_error *err)
{
    const struct hfi_redlock_extension *redlock;
    struct hfi_redlock_join *join;
    struct hfi_by_url at;
    int64_t rest_ms = 0;
    hf_status status = prepare_join(&at, url, flags, err);

    if (status != HF_OK)
        return status;
    redlock = at.extension;
    status = redlock->join_begin(at.conf, node, flags & HF_REDLOCK_JOIN_FLAG_FORCE,
                                 told ? told : ignore, arg, &join, err);
    if (status == HF_OK) {
        while ((status = redlock->join_step(join, &rest_ms, err)) == HF_OK &&
               rest_ms != HFI_REDLOCK_JOINED)
            sleep_ms(rest_ms);
        redlock->join_end(join);
    }
    return hfi_by_url_close(&at, status, err);
}

/*
 * Without a thread: a worker takes a step, hf_store_process() tells of it, a timer waits, and so on.
 *
 *   REST --> WORK --> TELL --> REST     TELL is left out of a step that had nothing to say
 *              |
 *              +--> the end; finish() tells of the last step
 */
enum { JOIN_REST, JOIN_WORK, JOIN_TELL };

struct join_call {
    struct hfi_by_url_task task;
    struct hfi_redlock_join *join; /* NULL: it has not begun */
    struct hfi_findings findings;  /* of the step that is being taken */
    hf_report *said;               /* what `told` has not heard of; NULL: nothing */
    hf_redlock_fn *told;
    void *arg;
    int64_t rest_ms;
    bool force, all; /* all: there is no `node` */
    char node[];
};

static struct join_call *join_of(struct hfi_task *task)
{
    return hfi_container(task, struct join_call, task.core);
}

/* On a worker. */
static hf_status join_work(struct hfi_task *task)
{
    struct join_call *call = join_of(task);
    const struct hfi_redlock_extension *redlock = call->task.at.extension;
    hf_status status = HF_OK;

    if (!call->join)
        status = redlock->join_begin(call->task.at.conf, call->all ? NULL : call->node, call->force,
                                     call->told ? hfi_findings_add : ignore, &call->findings,
                                     &call->join, &task->child.error);
    if (status == HF_OK)
        status = redlock->join_step(call->join, &call->rest_ms, &task->child.error);
    call->said = hfi_findings_report(&call->findings);
    return status == HF_OK && !call->said ? hfi_error_memory(&task->child.error) : status;
}

/* In hf_store_process(). */
static void tell(struct join_call *call)
{
    struct hfi_calling calling = { call->task.core.store, hfi_self.calling };

    hfi_self.calling = &calling;
    for (size_t i = 0; i < hf_report_count(call->said); i++) {
        const hf_finding *step = hf_report_item(call->said, i);

        call->told(step->level, step->topic, step->text, call->arg);
    }
    hfi_self.calling = calling.outer;
    hfi_free(call->said);
    call->said = NULL;
}

static hf_status end_join(struct join_call *call, hf_status status)
{
    struct hfi_by_url *at = &call->task.at;
    const struct hfi_redlock_extension *redlock = at->extension;

    if (call->join)
        redlock->join_end(call->join);
    return hfi_by_url_close(at, status, &call->task.core.error);
}

static hf_status begin_work(struct hfi_task *task)
{
    hf_status stopped = hfi_task_stopped(task);

    if (stopped != HF_OK)
        return end_join(join_of(task),
                        hfi_error_set(&task->error, stopped, 0, "%s", hf_status_text(stopped)));
    task->state = JOIN_WORK;
    return hfi_task_work(task, join_work);
}

static hf_status begin_rest(struct hfi_task *task)
{
    int64_t rest_ms = join_of(task)->rest_ms;

    if (rest_ms == 0)
        return begin_work(task);
    task->state = JOIN_REST;
    return hfi_task_pause(task, hfi_now_ms() + rest_ms, 0);
}

static hf_status join_step(struct hfi_task *task, hf_status got)
{
    struct join_call *call = join_of(task);

    if (got != HF_OK) {
        task->error = task->child.error;
        return end_join(call, got);
    }
    switch (task->state) {
    case JOIN_WORK:
        if (call->rest_ms == HFI_REDLOCK_JOINED)
            return end_join(call, HF_OK);
        if (hf_report_count(call->said) == 0) {
            tell(call);
            return begin_rest(task);
        }
        task->state = JOIN_TELL;
        return hfi_task_turn(task);
    case JOIN_TELL:
        tell(call);
        return begin_rest(task);
    default:
        return begin_work(task);
    }
}

static void join_finish(struct hfi_task *task, hf_result *result)
{
    (void)result;
    tell(join_of(task));
}

hf_status hf_redlock_join_async(hf_store *handle, const char *url, const char *node, uint64_t flags,
                                hf_redlock_fn *told, hf_done_fn *done, void *arg, hf_op **ret_op,
                                hf_error *err)
{
    size_t node_size = node ? strlen(node) + 1 : 0;
    struct join_call *call = hfi_calloc(1, sizeof *call + node_size);
    hf_status status =
        call ? hfi_by_url_enter(&call->task, handle, join_step, err) : hfi_error_memory(err);

    if (status != HF_OK) {
        hfi_free(call);
        return status;
    }
    call->task.core.finish = join_finish;
    call->task.core.state = JOIN_REST;
    call->told = told;
    call->arg = arg;
    call->force = flags & HF_REDLOCK_JOIN_FLAG_FORCE;
    call->all = !node;
    if (node)
        memcpy(call->node, node, node_size);
    return hfi_by_url_begin(&call->task, prepare_join(&call->task.at, url, flags, err), done, arg,
                            ret_op, err);
}
