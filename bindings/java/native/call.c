/* SPDX-License-Identifier: MIT */
/* Every asynchronous call of the library by its number, which is its place in Op.java. Inputs come in the order of the C call. */
#include "call.h"

#include <stdlib.h>
#include <string.h>

void read_wanted(struct in *in, hf_acquire_request *ret_request)
{
    memset(ret_request, 0, sizeof *ret_request);
    ret_request->size = sizeof *ret_request;
    ret_request->name = in_bytes(in, &ret_request->name_len);
    ret_request->kind = (hf_kind)in_number(in);
    ret_request->capacity = (uint32_t)in_number(in);
    ret_request->permits = (uint32_t)in_number(in);
    ret_request->flags = (uint64_t)in_number(in);
    ret_request->ttl_ms = in_number(in);
    ret_request->max_hold_ms = in_number(in);
    ret_request->min_valid_ms = in_number(in);
    ret_request->min_hold_ms = in_number(in);
    ret_request->lock_delay_ms = in_number(in);
    ret_request->linger_ms = in_number(in);
    ret_request->label = in_text(in);
    ret_request->session = in_text(in);
}

void set_sink(hf_acquire_request *request, int64_t sink)
{
    if (sink != 0) {
        request->on_event = on_event;
        request->on_event_arg = (void *)(intptr_t)sink;
    }
}

void read_acquire(struct in *in, hf_acquire_request *ret_request)
{
    int64_t wait_ms = in_number(in);
    uint64_t scope = (uint64_t)in_number(in);
    int64_t sink = in_number(in);

    read_wanted(in, ret_request);
    ret_request->wait_ms = wait_ms;
    ret_request->scope = scope;
    set_sink(ret_request, sink);
}

static BEGIN(acquire)
{
    hf_acquire_request request;

    read_acquire(in, &request);
    return hf_acquire_async(handle, &request, DONE);
}

static hf_status begin_several(bool all, void *handle, struct in *in, struct call *call,
                               hf_op **ret_op, hf_error *err)
{
    size_t count = (size_t)in_number(in);
    hf_acquire_request *requests = calloc(count + 1, sizeof *requests);
    hf_status status;

    if (!requests)
        return HF_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        read_acquire(in, &requests[i]);
    status = all ? hf_acquire_all_async(handle, requests, count, DONE)
                 : hf_acquire_any_async(handle, requests, count, DONE);
    free(requests);
    return status;
}

static BEGIN(acquire_all)
{
    return begin_several(true, handle, in, call, ret_op, err);
}

static BEGIN(acquire_any)
{
    return begin_several(false, handle, in, call, ret_op, err);
}

static BEGIN(release)
{
    (void)in;
    return hf_release_async(handle, DONE);
}

static BEGIN(release_all)
{
    hf_lease *leases[HF_ACQUIRE_ALL_MAX] = { NULL };
    size_t count = (size_t)in_number(in);

    (void)handle;
    for (size_t i = 0; i < count && i < HF_ACQUIRE_ALL_MAX; i++)
        leases[i] = handle_of(in_number(in));
    return hf_release_all_async(leases, count, DONE);
}

static BEGIN(renew)
{
    return hf_renew_async(handle, in_number(in), DONE);
}

static BEGIN(yield)
{
    return hf_yield_async(handle, in_number(in), DONE);
}

static BEGIN(convert)
{
    hf_kind kind = (hf_kind)in_number(in);

    return hf_convert_async(handle, kind, in_number(in), DONE);
}

static BEGIN(resize)
{
    struct name name = in_name(in);

    return hf_semaphore_resize_async(handle, name.bytes, name.len, (uint32_t)in_number(in), DONE);
}

static BEGIN(ask)
{
    struct name name = in_name(in);

    return hf_ask_async(handle, name.bytes, name.len, in_text(in), DONE);
}

static BEGIN(adopt)
{
    hf_adopt_request request = HF_ADOPT_REQUEST_INIT;

    request.name = in_bytes(in, &request.name_len);
    request.text = in_text(in);
    request.ttl_ms = in_number(in);
    request.renew = in_number(in) != 0;
    return hf_lease_adopt_async(handle, &request, DONE);
}

static BEGIN(break)
{
    struct name name = in_name(in);

    return hf_lease_break_async(handle, name.bytes, name.len, (uint64_t)in_number(in), DONE);
}

static BEGIN(inspect)
{
    struct name name = in_name(in);

    return hf_store_inspect_async(handle, name.bytes, name.len, (uint64_t)in_number(in), DONE);
}

static BEGIN(store_wait)
{
    uint64_t seq = (uint64_t)in_number(in);

    return hf_store_wait_async(handle, seq, in_number(in), NULL, DONE);
}

static BEGIN(check)
{
    (void)in;
    return hf_store_check_async(handle, DONE);
}

static BEGIN(deadlocks)
{
    (void)in;
    return hf_deadlock_list_async(handle, DONE);
}

typedef hf_status begin_fn(void *handle, struct in *in, struct call *call, hf_op **ret_op,
                           hf_error *err);

/* In the order of Op.java. */
static begin_fn *const calls[] = {
    begin_acquire,
    begin_acquire_all,
    begin_acquire_any,
    begin_release,
    begin_release_all,
    begin_renew,
    begin_yield,
    begin_convert,
    begin_resize,
    begin_ask,
    begin_adopt,
    begin_break,
    begin_inspect,
    begin_store_wait,
    begin_check,
    begin_deadlocks,
    begin_cell_get,
    begin_cell_set,
    begin_cell_swap,
    begin_cell_update,
    begin_cell_wait,
    begin_cells_commit,
    begin_cell_delete,
    begin_lease_cell_set,
    begin_lease_cell_get,
    begin_counter_add,
    begin_counter_get,
    begin_counter_set,
    begin_counter_swap,
    begin_counter_delete,
    begin_guard_claim,
    begin_guard_set,
    begin_limit_take,
    begin_limit_get,
    begin_limit_set,
    begin_latch_create,
    begin_latch_count_down,
    begin_latch_join,
    begin_latch_wait,
    begin_latch_get,
    begin_latch_delete,
    begin_barrier_wait,
    begin_barrier_enter,
    begin_barrier_leave,
    begin_campaign,
    begin_election_set,
    begin_resign,
    begin_election_wait,
    begin_member_join,
    begin_member_leave,
    begin_members_wait,
    begin_once_begin,
    begin_once_get,
    begin_once_claim,
    begin_once_finish,
    begin_once_delete,
};

hf_status begin_call(int number, void *handle, struct in *in, struct call *call, hf_op **ret_op,
                     hf_error *err)
{
    if (number < 0 || (size_t)number >= sizeof calls / sizeof *calls)
        return HF_INVALID;
    return calls[number](handle, in, call, ret_op, err);
}
