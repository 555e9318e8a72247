/* SPDX-License-Identifier: MIT */
/* The asynchronous calls of primitives.h, as call.c has those of holdfast.h. */
#include "call.h"

#include <stdlib.h>
#include <string.h>

/* ---- cells ------------------------------------------------------------------------------ */

static void read_cell(struct in *in, hf_cell_request *ret_request)
{
    memset(ret_request, 0, sizeof *ret_request);
    ret_request->size = sizeof *ret_request;
    ret_request->name = in_bytes(in, &ret_request->name_len);
    ret_request->bytes = in_bytes(in, &ret_request->len);
    ret_request->ttl_ms = in_number(in);
    ret_request->version = (uint64_t)in_number(in);
    ret_request->wait_ms = in_number(in);
}

BEGIN(cell_get)
{
    struct name name = in_name(in);

    return hf_cell_get_async(handle, name.bytes, name.len, DONE);
}

BEGIN(cell_set)
{
    hf_cell_request request;

    read_cell(in, &request);
    return hf_cell_set_async(handle, &request, DONE);
}

BEGIN(cell_swap)
{
    hf_cell_request request;

    read_cell(in, &request);
    return hf_cell_swap_async(handle, &request, DONE);
}

BEGIN(cell_update)
{
    hf_cell_request request;

    read_cell(in, &request);
    request.fn = on_update;
    request.fn_arg = call;
    return hf_cell_update_async(handle, &request, DONE);
}

BEGIN(cell_wait)
{
    hf_cell_request request;

    read_cell(in, &request);
    return hf_cell_wait_async(handle, &request, DONE);
}

BEGIN(cells_commit)
{
    size_t count = (size_t)in_number(in);
    hf_cell_item *items = calloc(count + 1, sizeof *items);
    hf_status status;

    if (!items)
        return HF_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        items[i].size = sizeof *items;
        items[i].name = in_bytes(in, &items[i].name_len);
        items[i].version = (uint64_t)in_number(in);
        items[i].action = (hf_cell_action)in_number(in);
        items[i].bytes = in_bytes(in, &items[i].len);
        items[i].ttl_ms = in_number(in);
    }
    status = hf_cells_commit_async(handle, items, count, DONE);
    free(items);
    return status;
}

BEGIN(cell_delete)
{
    struct name name = in_name(in);

    return hf_cell_delete_async(handle, name.bytes, name.len, (uint64_t)in_number(in), DONE);
}

BEGIN(lease_cell_set)
{
    struct name name = in_name(in);
    struct name value = in_name(in);

    return hf_lease_cell_set_async(handle, name.bytes, name.len, value.bytes, value.len, DONE);
}

BEGIN(lease_cell_get)
{
    struct name name = in_name(in);

    return hf_lease_cell_get_async(handle, name.bytes, name.len, DONE);
}

/* ---- counters, guards, limits ----------------------------------------------------------- */

BEGIN(counter_add)
{
    struct name name = in_name(in);

    return hf_counter_add_async(handle, name.bytes, name.len, in_number(in), DONE);
}

BEGIN(counter_get)
{
    struct name name = in_name(in);

    return hf_counter_get_async(handle, name.bytes, name.len, DONE);
}

BEGIN(counter_set)
{
    struct name name = in_name(in);

    return hf_counter_set_async(handle, name.bytes, name.len, in_number(in), DONE);
}

BEGIN(counter_swap)
{
    struct name name = in_name(in);
    int64_t expected = in_number(in);

    return hf_counter_swap_async(handle, name.bytes, name.len, expected, in_number(in), DONE);
}

BEGIN(counter_delete)
{
    struct name name = in_name(in);

    return hf_counter_delete_async(handle, name.bytes, name.len, DONE);
}

BEGIN(guard_claim)
{
    struct name name = in_name(in);

    return hf_guard_claim_async(handle, name.bytes, name.len, (uint64_t)in_number(in), DONE);
}

BEGIN(guard_set)
{
    struct name name = in_name(in);
    uint64_t token = (uint64_t)in_number(in);
    struct name value = in_name(in);

    return hf_guard_set_async(handle, name.bytes, name.len, token, value.bytes, value.len, DONE);
}

static void read_limit(struct in *in, hf_limit_request *ret_request)
{
    memset(ret_request, 0, sizeof *ret_request);
    ret_request->size = sizeof *ret_request;
    ret_request->name = in_bytes(in, &ret_request->name_len);
    ret_request->algorithm = (hf_limit_algorithm)in_number(in);
    ret_request->rate = (uint32_t)in_number(in);
    ret_request->per_ms = in_number(in);
    ret_request->burst = (uint32_t)in_number(in);
    ret_request->permits = (uint32_t)in_number(in);
    ret_request->wait_ms = in_number(in);
}

BEGIN(limit_take)
{
    hf_limit_request request;

    read_limit(in, &request);
    return hf_limit_take_async(handle, &request, DONE);
}

BEGIN(limit_get)
{
    hf_limit_request request;

    read_limit(in, &request);
    return hf_limit_get_async(handle, &request, DONE);
}

BEGIN(limit_set)
{
    hf_limit_request request;

    read_limit(in, &request);
    return hf_limit_set_async(handle, &request, DONE);
}

/* ---- latches and barriers --------------------------------------------------------------- */

static void read_party(struct in *in, hf_party_request *ret_request)
{
    memset(ret_request, 0, sizeof *ret_request);
    ret_request->size = sizeof *ret_request;
    ret_request->name = in_bytes(in, &ret_request->name_len);
    ret_request->who = in_text(in);
    ret_request->parties = (uint32_t)in_number(in);
    ret_request->wait_ms = in_number(in);
}

BEGIN(latch_create)
{
    struct name name = in_name(in);

    return hf_latch_create_async(handle, name.bytes, name.len, (uint32_t)in_number(in), DONE);
}

BEGIN(latch_count_down)
{
    struct name name = in_name(in);

    return hf_latch_count_down_async(handle, name.bytes, name.len, in_text(in), DONE);
}

BEGIN(latch_join)
{
    hf_party_request request;

    read_party(in, &request);
    return hf_latch_join_async(handle, &request, DONE);
}

BEGIN(latch_wait)
{
    hf_party_request request;

    read_party(in, &request);
    return hf_latch_wait_async(handle, &request, DONE);
}

BEGIN(latch_get)
{
    struct name name = in_name(in);

    return hf_latch_get_async(handle, name.bytes, name.len, DONE);
}

BEGIN(latch_delete)
{
    struct name name = in_name(in);

    return hf_latch_delete_async(handle, name.bytes, name.len, DONE);
}

BEGIN(barrier_wait)
{
    hf_party_request request;

    read_party(in, &request);
    return hf_barrier_wait_async(handle, &request, DONE);
}

BEGIN(barrier_enter)
{
    hf_party_request request;

    read_party(in, &request);
    return hf_barrier_enter_async(handle, &request, DONE);
}

BEGIN(barrier_leave)
{
    return hf_barrier_leave_async(handle, in_number(in), NULL, DONE);
}

/* ---- elections, members, once ----------------------------------------------------------- */

BEGIN(campaign)
{
    struct name value = in_name(in);
    hf_acquire_request request;

    read_acquire(in, &request);
    return hf_election_campaign_async(handle, &request, value.bytes, value.len, DONE);
}

BEGIN(election_set)
{
    struct name value = in_name(in);

    return hf_election_set_async(handle, value.bytes, value.len, DONE);
}

BEGIN(resign)
{
    (void)in;
    return hf_election_resign_async(handle, DONE);
}

BEGIN(election_wait)
{
    hf_election_request request = HF_ELECTION_REQUEST_INIT;
    hf_leader last = { 0 };

    request.name = in_bytes(in, &request.name_len);
    request.wait_ms = in_number(in);
    if (in_number(in) != 0) {
        last.leads = in_number(in) != 0;
        last.token = (uint64_t)in_number(in);
        last.value = in_bytes(in, &last.value_len);
        last.label = in_text(in);
        last.version = (uint64_t)in_number(in);
        request.last = &last;
    }
    return hf_election_wait_async(handle, &request, DONE);
}

BEGIN(member_join)
{
    const char *value = in_text(in);
    hf_acquire_request request;

    read_acquire(in, &request);
    return hf_member_join_async(handle, &request, value, DONE);
}

BEGIN(member_leave)
{
    (void)in;
    return hf_member_leave_async(handle, DONE);
}

BEGIN(members_wait)
{
    hf_members_request request = HF_MEMBERS_REQUEST_INIT;

    request.name = in_bytes(in, &request.name_len);
    request.wait_ms = in_number(in);
    request.last = handle_of(in_number(in));
    return hf_members_wait_async(handle, &request, DONE);
}

BEGIN(once_begin)
{
    int64_t for_ms = in_number(in);
    hf_acquire_request request;

    read_acquire(in, &request);
    return hf_once_begin_async(handle, &request, for_ms, DONE);
}

BEGIN(once_get)
{
    struct name name = in_name(in);

    return hf_once_get_async(handle, name.bytes, name.len, DONE);
}

BEGIN(once_claim)
{
    return hf_once_claim_async(handle, in_number(in), DONE);
}

BEGIN(once_finish)
{
    (void)in;
    return hf_once_finish_async(handle, DONE);
}

BEGIN(once_delete)
{
    struct name name = in_name(in);

    return hf_once_delete_async(handle, name.bytes, name.len, DONE);
}
