/* SPDX-License-Identifier: MIT */
/* The calls of primitives.h that lib/ makes: each begins one asynchronous call. Their arguments follow the store. */
#include "internal.h"

#define UNLESS_REFUSED(args, call) (REFUSED(args) ? (args)->err->status : (call))

/* ---- cells ----------------------------------------------------------------------------------- */

static hf_status begin_cell_get(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");

    return UNLESS_REFUSED(args,
                          hf_cell_get_async(args->store->handle, name.at, name.len, DONE(args)));
}

static hf_cell_request cell_request(struct args *args, napi_value name)
{
    hf_cell_request request = HF_CELL_REQUEST_INIT;
    struct bytes bytes = args_bytes(args, name, "name");

    request.name = bytes.at;
    request.name_len = bytes.len;
    return request;
}

/* name, bytes, ttl, version */
static hf_cell_request write_request(struct args *args, napi_value *value)
{
    hf_cell_request request = cell_request(args, value[0]);
    struct bytes bytes = args_bytes(args, value[1], "bytes");

    request.bytes = bytes.at;
    request.len = bytes.len;
    request.ttl_ms = args_int(args, value[2]);
    request.version = args_big(args, value[3]);
    return request;
}

static hf_status begin_cell_set(struct args *args, napi_value *value)
{
    hf_cell_request request = write_request(args, value);

    return UNLESS_REFUSED(args, hf_cell_set_async(args->store->handle, &request, DONE(args)));
}

static hf_status begin_cell_swap(struct args *args, napi_value *value)
{
    hf_cell_request request = write_request(args, value);

    return UNLESS_REFUSED(args, hf_cell_swap_async(args->store->handle, &request, DONE(args)));
}

static hf_status begin_cell_delete(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");
    uint64_t version = args_big(args, value[1]);

    return UNLESS_REFUSED(
        args, hf_cell_delete_async(args->store->handle, name.at, name.len, version, DONE(args)));
}

static hf_status begin_cell_update(struct args *args, napi_value *value)
{
    hf_cell_request request = cell_request(args, value[0]);

    request.fn = on_update;
    request.fn_arg = args->slot;
    request.wait_ms = args_int(args, value[2]);
    if (napi_create_reference(args->env, value[1], 1, &args->slot->fn) != napi_ok)
        return HF_NO_MEMORY;
    return UNLESS_REFUSED(args, hf_cell_update_async(args->store->handle, &request, DONE(args)));
}

static hf_status begin_cell_wait(struct args *args, napi_value *value)
{
    hf_cell_request request = cell_request(args, value[0]);

    request.version = args_big(args, value[1]);
    request.wait_ms = args_int(args, value[2]);
    return UNLESS_REFUSED(args, hf_cell_wait_async(args->store->handle, &request, DONE(args)));
}

/* A list of [name, version (undefined: any), action, bytes, ttl]. */
static hf_status begin_commit(struct args *args, napi_value *value)
{
    uint32_t count = args_count(args, value[0]);
    hf_cell_item *items = args_memory(args, (count + 1) * sizeof *items);

    for (uint32_t i = 0; items && i < count; i++) {
        napi_value packed = args_item(args, value[0], i);
        napi_value version = args_item(args, packed, 1), bytes = args_item(args, packed, 3);
        struct bytes name = args_bytes(args, args_item(args, packed, 0), "name");
        struct bytes content = { NULL, 0 };

        if (!is_nothing(args->env, bytes))
            content = args_bytes(args, bytes, "bytes");
        items[i] = (hf_cell_item)HF_CELL_ITEM_INIT;
        items[i].name = name.at;
        items[i].name_len = name.len;
        items[i].version = is_nothing(args->env, version) ? HF_CELL_ANY : args_big(args, version);
        items[i].action = (hf_cell_action)args_int(args, args_item(args, packed, 2));
        items[i].bytes = content.at;
        items[i].len = content.len;
        items[i].ttl_ms = args_int(args, args_item(args, packed, 4));
    }
    return UNLESS_REFUSED(args,
                          hf_cells_commit_async(args->store->handle, items, count, DONE(args)));
}

static hf_status begin_lease_cell_set(struct args *args, napi_value *value)
{
    hf_lease *lease = args_handle(args, value[0]);
    struct bytes name = args_bytes(args, value[1], "name");
    struct bytes bytes = args_bytes(args, value[2], "bytes");

    return UNLESS_REFUSED(
        args, hf_lease_cell_set_async(lease, name.at, name.len, bytes.at, bytes.len, DONE(args)));
}

static hf_status begin_lease_cell_get(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");

    return UNLESS_REFUSED(
        args, hf_lease_cell_get_async(args->store->handle, name.at, name.len, DONE(args)));
}

/* ---- counters and guards ------------------------------------------------------------------------- */

static hf_status begin_counter_add(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");
    int64_t delta = (int64_t)args_big(args, value[1]);

    return UNLESS_REFUSED(
        args, hf_counter_add_async(args->store->handle, name.at, name.len, delta, DONE(args)));
}

static hf_status begin_counter_get(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");

    return UNLESS_REFUSED(args,
                          hf_counter_get_async(args->store->handle, name.at, name.len, DONE(args)));
}

static hf_status begin_counter_set(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");
    int64_t number = (int64_t)args_big(args, value[1]);

    return UNLESS_REFUSED(
        args, hf_counter_set_async(args->store->handle, name.at, name.len, number, DONE(args)));
}

static hf_status begin_counter_swap(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");
    int64_t expected = (int64_t)args_big(args, value[1]);
    int64_t number = (int64_t)args_big(args, value[2]);

    return UNLESS_REFUSED(args, hf_counter_swap_async(args->store->handle, name.at, name.len,
                                                      expected, number, DONE(args)));
}

static hf_status begin_counter_delete(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");

    return UNLESS_REFUSED(
        args, hf_counter_delete_async(args->store->handle, name.at, name.len, DONE(args)));
}

static hf_status begin_guard_claim(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");
    uint64_t token = args_big(args, value[1]);

    return UNLESS_REFUSED(
        args, hf_guard_claim_async(args->store->handle, name.at, name.len, token, DONE(args)));
}

static hf_status begin_guard_set(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");
    uint64_t token = args_big(args, value[1]);
    struct bytes bytes = args_bytes(args, value[2], "bytes");

    return UNLESS_REFUSED(args, hf_guard_set_async(args->store->handle, name.at, name.len, token,
                                                   bytes.at, bytes.len, DONE(args)));
}

/* ---- limits -------------------------------------------------------------------------------------- */

/* name, algorithm, rate, per, burst, permits, wait */
static hf_limit_request limit_request(struct args *args, napi_value *value)
{
    hf_limit_request request = HF_LIMIT_REQUEST_INIT;
    struct bytes name = args_bytes(args, value[0], "name");

    request.name = name.at;
    request.name_len = name.len;
    request.algorithm = (hf_limit_algorithm)args_int(args, value[1]);
    request.rate = (uint32_t)args_int(args, value[2]);
    request.per_ms = args_int(args, value[3]);
    request.burst = (uint32_t)args_int(args, value[4]);
    request.permits = (uint32_t)args_int(args, value[5]);
    request.wait_ms = args_int(args, value[6]);
    return request;
}

static hf_status begin_limit_take(struct args *args, napi_value *value)
{
    hf_limit_request request = limit_request(args, value);

    return UNLESS_REFUSED(args, hf_limit_take_async(args->store->handle, &request, DONE(args)));
}

static hf_status begin_limit_get(struct args *args, napi_value *value)
{
    hf_limit_request request = limit_request(args, value);

    return UNLESS_REFUSED(args, hf_limit_get_async(args->store->handle, &request, DONE(args)));
}

static hf_status begin_limit_set(struct args *args, napi_value *value)
{
    hf_limit_request request = limit_request(args, value);

    return UNLESS_REFUSED(args, hf_limit_set_async(args->store->handle, &request, DONE(args)));
}

/* ---- latches and barriers --------------------------------------------------------------------------- */

/* name, who, parties, wait, ttl */
static hf_party_request party_request(struct args *args, napi_value *value)
{
    hf_party_request request = HF_PARTY_REQUEST_INIT;
    struct bytes name = args_bytes(args, value[0], "name");

    request.name = name.at;
    request.name_len = name.len;
    request.who = args_text(args, value[1], "who");
    request.parties = (uint32_t)args_int(args, value[2]);
    request.wait_ms = args_int(args, value[3]);
    request.ttl_ms = args_int(args, value[4]);
    return request;
}

static hf_status begin_latch_create(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");

    return UNLESS_REFUSED(args,
                          hf_latch_create_async(args->store->handle, name.at, name.len,
                                                (uint32_t)args_int(args, value[1]), DONE(args)));
}

static hf_status begin_latch_count_down(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");
    const char *who = args_text(args, value[1], "who");

    return UNLESS_REFUSED(
        args, hf_latch_count_down_async(args->store->handle, name.at, name.len, who, DONE(args)));
}

static hf_status begin_latch_join(struct args *args, napi_value *value)
{
    hf_party_request request = party_request(args, value);

    return UNLESS_REFUSED(args, hf_latch_join_async(args->store->handle, &request, DONE(args)));
}

static hf_status begin_latch_wait(struct args *args, napi_value *value)
{
    hf_party_request request = party_request(args, value);

    return UNLESS_REFUSED(args, hf_latch_wait_async(args->store->handle, &request, DONE(args)));
}

static hf_status begin_latch_get(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");

    return UNLESS_REFUSED(args,
                          hf_latch_get_async(args->store->handle, name.at, name.len, DONE(args)));
}

static hf_status begin_latch_delete(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");

    return UNLESS_REFUSED(
        args, hf_latch_delete_async(args->store->handle, name.at, name.len, DONE(args)));
}

static hf_status begin_barrier_wait(struct args *args, napi_value *value)
{
    hf_party_request request = party_request(args, value);

    return UNLESS_REFUSED(args, hf_barrier_wait_async(args->store->handle, &request, DONE(args)));
}

static hf_status begin_barrier_enter(struct args *args, napi_value *value)
{
    hf_party_request request = party_request(args, value);

    return UNLESS_REFUSED(args, hf_barrier_enter_async(args->store->handle, &request, DONE(args)));
}

/* ---- what ends a lease in its own way ------------------------------------------------------------------ */

static hf_lease *ending(struct args *args, napi_value value)
{
    args->slot->target = args_lease(args, value);
    args->slot->ends = true;
    if (args->slot->target)
        watch_pause(args->slot->target);
    return args->slot->target ? args->slot->target->lease : NULL;
}

static hf_status begin_barrier_leave(struct args *args, napi_value *value)
{
    hf_lease *party = ending(args, value[0]);

    return UNLESS_REFUSED(
        args, hf_barrier_leave_async(party, args_int(args, value[1]), NULL, DONE(args)));
}

static hf_status begin_resign(struct args *args, napi_value *value)
{
    hf_lease *leader = ending(args, value[0]);

    return UNLESS_REFUSED(args, hf_election_resign_async(leader, DONE(args)));
}

static hf_status begin_member_leave(struct args *args, napi_value *value)
{
    hf_lease *member = ending(args, value[0]);

    return UNLESS_REFUSED(args, hf_member_leave_async(member, DONE(args)));
}

/* ---- elections, members, once --------------------------------------------------------------------------- */

static hf_status begin_campaign(struct args *args, napi_value *value)
{
    hf_acquire_request request;
    struct bytes published = args_bytes(args, value[8], "value");

    args_request(args, value, args->slot, &request);
    return UNLESS_REFUSED(args,
                          hf_election_campaign_async(args->store->handle, &request, published.at,
                                                     published.len, DONE(args)));
}

static hf_status begin_election_set(struct args *args, napi_value *value)
{
    hf_lease *leader = args_handle(args, value[0]);
    struct bytes published = args_bytes(args, value[1], "value");

    return UNLESS_REFUSED(args,
                          hf_election_set_async(leader, published.at, published.len, DONE(args)));
}

static hf_status begin_election_wait(struct args *args, napi_value *value)
{
    hf_election_request request = HF_ELECTION_REQUEST_INIT;
    struct bytes name = args_bytes(args, value[0], "name");

    request.name = name.at;
    request.name_len = name.len;
    request.last = args_seen(args, value[1], SEEN_LEADER);
    request.wait_ms = args_int(args, value[2]);
    return UNLESS_REFUSED(args, hf_election_wait_async(args->store->handle, &request, DONE(args)));
}

static hf_status begin_member_join(struct args *args, napi_value *value)
{
    hf_acquire_request request;
    const char *text = args_text(args, value[8], "value");

    args_request(args, value, args->slot, &request);
    return UNLESS_REFUSED(args,
                          hf_member_join_async(args->store->handle, &request, text, DONE(args)));
}

static hf_status begin_members_wait(struct args *args, napi_value *value)
{
    hf_members_request request = HF_MEMBERS_REQUEST_INIT;
    struct bytes name = args_bytes(args, value[0], "name");

    request.name = name.at;
    request.name_len = name.len;
    request.last = args_seen(args, value[1], SEEN_MEMBERS);
    request.wait_ms = args_int(args, value[2]);
    return UNLESS_REFUSED(args, hf_members_wait_async(args->store->handle, &request, DONE(args)));
}

static hf_status begin_once_begin(struct args *args, napi_value *value)
{
    hf_acquire_request request;

    args_request(args, value, args->slot, &request);
    return UNLESS_REFUSED(args, hf_once_begin_async(args->store->handle, &request,
                                                    args_int(args, value[8]), DONE(args)));
}

static hf_status begin_once_get(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");

    return UNLESS_REFUSED(args,
                          hf_once_get_async(args->store->handle, name.at, name.len, DONE(args)));
}

static hf_status begin_once_claim(struct args *args, napi_value *value)
{
    hf_lease *lease = args_handle(args, value[0]);

    return UNLESS_REFUSED(args, hf_once_claim_async(lease, args_int(args, value[1]), DONE(args)));
}

static hf_status begin_once_finish(struct args *args, napi_value *value)
{
    hf_lease *lease = args_handle(args, value[0]);

    return UNLESS_REFUSED(args, hf_once_finish_async(lease, DONE(args)));
}

static hf_status begin_once_delete(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");

    return UNLESS_REFUSED(args,
                          hf_once_delete_async(args->store->handle, name.at, name.len, DONE(args)));
}

const struct call primitive_calls[] = {
    { "cellGet", RESULT_CELL, begin_cell_get },
    { "cellSet", RESULT_VERSION, begin_cell_set },
    { "cellSwap", RESULT_VERSION, begin_cell_swap },
    { "cellDelete", RESULT_NOTHING, begin_cell_delete },
    { "cellUpdate", RESULT_VERSION, begin_cell_update },
    { "cellWait", RESULT_VERSION, begin_cell_wait },
    { "commit", RESULT_VERSIONS, begin_commit },
    { "leaseCellSet", RESULT_NOTHING, begin_lease_cell_set },
    { "leaseCellGet", RESULT_CELL, begin_lease_cell_get },
    { "counterAdd", RESULT_NUMBER, begin_counter_add },
    { "counterGet", RESULT_NUMBER, begin_counter_get },
    { "counterSet", RESULT_NOTHING, begin_counter_set },
    { "counterSwap", RESULT_NUMBER, begin_counter_swap },
    { "counterDelete", RESULT_NOTHING, begin_counter_delete },
    { "guardClaim", RESULT_BYTES, begin_guard_claim },
    { "guardSet", RESULT_NOTHING, begin_guard_set },
    { "limitTake", RESULT_LIMIT, begin_limit_take },
    { "limitGet", RESULT_LIMIT, begin_limit_get },
    { "limitSet", RESULT_LIMIT, begin_limit_set },
    { "latchCreate", RESULT_NOTHING, begin_latch_create },
    { "latchCountDown", RESULT_NUMBER, begin_latch_count_down },
    { "latchJoin", RESULT_LEASE, begin_latch_join },
    { "latchWait", RESULT_NOTHING, begin_latch_wait },
    { "latchGet", RESULT_COUNTS, begin_latch_get },
    { "latchDelete", RESULT_NOTHING, begin_latch_delete },
    { "barrierWait", RESULT_NOTHING, begin_barrier_wait },
    { "barrierEnter", RESULT_LEASE, begin_barrier_enter },
    { "barrierLeave", RESULT_NOTHING, begin_barrier_leave },
    { "resign", RESULT_NOTHING, begin_resign },
    { "memberLeave", RESULT_NOTHING, begin_member_leave },
    { "campaign", RESULT_LEASE, begin_campaign },
    { "electionSet", RESULT_NOTHING, begin_election_set },
    { "electionWait", RESULT_LEADER, begin_election_wait },
    { "memberJoin", RESULT_LEASE, begin_member_join },
    { "membersWait", RESULT_MEMBERS, begin_members_wait },
    { "onceBegin", RESULT_LEASE, begin_once_begin },
    { "onceGet", RESULT_MARK, begin_once_get },
    { "onceClaim", RESULT_MARK, begin_once_claim },
    { "onceFinish", RESULT_NOTHING, begin_once_finish },
    { "onceDelete", RESULT_NOTHING, begin_once_delete },
    { NULL, RESULT_NOTHING, NULL },
};
