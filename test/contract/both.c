/* SPDX-License-Identifier: MIT */
/* Both forms of the primitives' calls: see both.h. A call that has no place for its result is the blocking one. */
#include "both.h"

#include <string.h>

/* What a result points to lives until its callback returns. */
struct prim_both {
    struct both both;
    hf_limit_result limit;
    hf_once_mark mark;
    uint64_t versions[HF_CELLS_MAX];
};

static void prim_done(const hf_result *result, void *arg)
{
    struct prim_both *own = arg;

    if (result->limit)
        own->limit = *result->limit;
    if (result->mark)
        own->mark = *result->mark;
    if (result->versions)
        memcpy(own->versions, result->versions, result->count * sizeof *own->versions);
    both_done(result, &own->both);
}

hf_status both_cell_get(hf_store *store, const void *name, size_t name_len, hf_cell *ret_cell,
                        hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped || !(ret_cell && ret_cell->size == sizeof *ret_cell))
        return (hf_cell_get)(store, name, name_len, ret_cell, err);
    status = hf_cell_get_async(store, name, name_len, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK) {
        ret_cell->bytes = own.both.result.bytes;
        ret_cell->len = own.both.result.len;
        ret_cell->version = own.both.result.version;
        ret_cell->ttl_ms = own.both.result.number;
    }
    return status;
}

hf_status both_cell_set(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                        hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_cell_set)(store, request, ret_version, err);
    status = hf_cell_set_async(store, request, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK && ret_version)
        *ret_version = own.both.result.version;
    return status;
}

hf_status both_cell_swap(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                         hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_cell_swap)(store, request, ret_version, err);
    status = hf_cell_swap_async(store, request, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK && ret_version)
        *ret_version = own.both.result.version;
    return status;
}

hf_status both_cell_update(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                           hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_cell_update)(store, request, ret_version, err);
    status = hf_cell_update_async(store, request, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK && ret_version)
        *ret_version = own.both.result.version;
    return status;
}

hf_status both_cell_wait(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                         hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_cell_wait)(store, request, ret_version, err);
    status = hf_cell_wait_async(store, request, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK && ret_version)
        *ret_version = own.both.result.version;
    return status;
}

hf_status both_cell_delete(hf_store *store, const void *name, size_t name_len, uint64_t version,
                           hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_cell_delete)(store, name, name_len, version, err);
    status = hf_cell_delete_async(store, name, name_len, version, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    return status;
}

hf_status both_cells_commit(hf_store *store, const hf_cell_item *items, size_t count,
                            uint64_t *ret_versions, size_t *ret_index, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_cells_commit)(store, items, count, ret_versions, ret_index, err);
    status = hf_cells_commit_async(store, items, count, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK && ret_versions) {
        CHECK(own.both.result.count == count);
        memcpy(ret_versions, own.versions, count * sizeof *ret_versions);
    }
    if (status == HF_CHANGED && ret_index)
        *ret_index = (size_t)own.both.result.number;
    if (status == HF_CHANGED && ret_versions)
        ret_versions[own.both.result.number] = own.both.result.version;
    return status;
}

hf_status both_counter_add(hf_store *store, const void *name, size_t name_len, int64_t delta,
                           int64_t *ret_value, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_counter_add)(store, name, name_len, delta, ret_value, err);
    status = hf_counter_add_async(store, name, name_len, delta, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK && ret_value)
        *ret_value = own.both.result.number;
    return status;
}

hf_status both_counter_get(hf_store *store, const void *name, size_t name_len, int64_t *ret_value,
                           hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped || !(ret_value))
        return (hf_counter_get)(store, name, name_len, ret_value, err);
    status = hf_counter_get_async(store, name, name_len, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK && ret_value)
        *ret_value = own.both.result.number;
    return status;
}

hf_status both_counter_set(hf_store *store, const void *name, size_t name_len, int64_t value,
                           hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_counter_set)(store, name, name_len, value, err);
    status = hf_counter_set_async(store, name, name_len, value, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    return status;
}

hf_status both_counter_swap(hf_store *store, const void *name, size_t name_len, int64_t expected,
                            int64_t value, int64_t *ret_current, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_counter_swap)(store, name, name_len, expected, value, ret_current, err);
    status =
        hf_counter_swap_async(store, name, name_len, expected, value, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if ((status == HF_OK || status == HF_CHANGED) && ret_current)
        *ret_current = own.both.result.number;
    return status;
}

hf_status both_counter_delete(hf_store *store, const void *name, size_t name_len, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_counter_delete)(store, name, name_len, err);
    status = hf_counter_delete_async(store, name, name_len, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    return status;
}

hf_status both_guard_claim(hf_store *store, const void *name, size_t name_len, uint64_t token,
                           void **ret_bytes, size_t *ret_len, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_guard_claim)(store, name, name_len, token, ret_bytes, ret_len, err);
    status = hf_guard_claim_async(store, name, name_len, token, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status != HF_OK)
        return status;
    if (ret_len)
        *ret_len = own.both.result.len;
    if (ret_bytes)
        *ret_bytes = own.both.result.bytes;
    else
        hf_free(own.both.result.bytes);
    return status;
}

hf_status both_guard_set(hf_store *store, const void *name, size_t name_len, uint64_t token,
                         const void *bytes, size_t len, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_guard_set)(store, name, name_len, token, bytes, len, err);
    status =
        hf_guard_set_async(store, name, name_len, token, bytes, len, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    return status;
}

hf_status both_limit_take(hf_store *store, const hf_limit_request *limit,
                          hf_limit_result *ret_result, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped || !(!ret_result || ret_result->size == sizeof *ret_result))
        return (hf_limit_take)(store, limit, ret_result, err);
    status = hf_limit_take_async(store, limit, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (ret_result && own.both.done && own.limit.size)
        *ret_result = own.limit;
    return status;
}

hf_status both_limit_get(hf_store *store, const hf_limit_request *limit,
                         hf_limit_result *ret_result, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped || !(!ret_result || ret_result->size == sizeof *ret_result))
        return (hf_limit_get)(store, limit, ret_result, err);
    status = hf_limit_get_async(store, limit, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (ret_result && own.both.done && own.limit.size)
        *ret_result = own.limit;
    return status;
}

hf_status both_limit_set(hf_store *store, const hf_limit_request *limit,
                         hf_limit_result *ret_result, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped || !(!ret_result || ret_result->size == sizeof *ret_result))
        return (hf_limit_set)(store, limit, ret_result, err);
    status = hf_limit_set_async(store, limit, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (ret_result && own.both.done && own.limit.size)
        *ret_result = own.limit;
    return status;
}

hf_status both_latch_create(hf_store *store, const void *name, size_t name_len, uint32_t count,
                            hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_latch_create)(store, name, name_len, count, err);
    status = hf_latch_create_async(store, name, name_len, count, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    return status;
}

hf_status both_latch_count_down(hf_store *store, const void *name, size_t name_len, const char *who,
                                uint32_t *ret_left, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_latch_count_down)(store, name, name_len, who, ret_left, err);
    status = hf_latch_count_down_async(store, name, name_len, who, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK && ret_left)
        *ret_left = (uint32_t)own.both.result.number;
    return status;
}

hf_status both_latch_join(hf_store *store, const hf_party_request *request, hf_lease **ret_lease,
                          hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped || !(ret_lease))
        return (hf_latch_join)(store, request, ret_lease, err);
    status = hf_latch_join_async(store, request, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK)
        *ret_lease = own.both.result.lease;
    return status;
}

hf_status both_latch_wait(hf_store *store, const hf_party_request *request, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_latch_wait)(store, request, err);
    status = hf_latch_wait_async(store, request, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    return status;
}

hf_status both_latch_get(hf_store *store, const void *name, size_t name_len, uint32_t *ret_count,
                         uint32_t *ret_left, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_latch_get)(store, name, name_len, ret_count, ret_left, err);
    status = hf_latch_get_async(store, name, name_len, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK && ret_count)
        *ret_count = (uint32_t)own.both.result.count;
    if (status == HF_OK && ret_left)
        *ret_left = (uint32_t)own.both.result.number;
    return status;
}

hf_status both_latch_delete(hf_store *store, const void *name, size_t name_len, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_latch_delete)(store, name, name_len, err);
    status = hf_latch_delete_async(store, name, name_len, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    return status;
}

hf_status both_barrier_wait(hf_store *store, const hf_party_request *request, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_barrier_wait)(store, request, err);
    status = hf_barrier_wait_async(store, request, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    return status;
}

hf_status both_barrier_enter(hf_store *store, const hf_party_request *request, hf_lease **ret_party,
                             hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped || !(ret_party))
        return (hf_barrier_enter)(store, request, ret_party, err);
    status = hf_barrier_enter_async(store, request, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK)
        *ret_party = own.both.result.lease;
    return status;
}

hf_status both_barrier_leave(hf_lease *party, int64_t wait_ms, hf_cancel *cancel, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_barrier_leave)(party, wait_ms, cancel, err);
    status = hf_barrier_leave_async(party, wait_ms, cancel, prim_done, &own, NULL, err);
    status = both_end(NULL, status, &own.both, err);
    return status;
}

hf_status both_election_campaign(hf_store *store, const hf_acquire_request *request,
                                 const void *value, size_t len, hf_lease **ret_leader,
                                 hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped || !(ret_leader))
        return (hf_election_campaign)(store, request, value, len, ret_leader, err);
    status = hf_election_campaign_async(store, request, value, len, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK)
        *ret_leader = own.both.result.lease;
    return status;
}

hf_status both_election_set(hf_lease *leader, const void *value, size_t len, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_election_set)(leader, value, len, err);
    status = hf_election_set_async(leader, value, len, prim_done, &own, NULL, err);
    status = both_end(NULL, status, &own.both, err);
    return status;
}

hf_status both_election_resign(hf_lease *leader, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_election_resign)(leader, err);
    status = hf_election_resign_async(leader, prim_done, &own, NULL, err);
    status = both_end(NULL, status, &own.both, err);
    return status;
}

hf_status both_election_wait(hf_store *store, const hf_election_request *request,
                             hf_leader **ret_leader, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped || !(ret_leader))
        return (hf_election_wait)(store, request, ret_leader, err);
    status = hf_election_wait_async(store, request, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK)
        *ret_leader = own.both.result.leader;
    return status;
}

hf_status both_once_begin(hf_store *store, const hf_acquire_request *request, int64_t for_ms,
                          hf_lease **ret_lease, hf_once_mark *ret_mark, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped || !(ret_lease && (!ret_mark || ret_mark->size == sizeof *ret_mark)))
        return (hf_once_begin)(store, request, for_ms, ret_lease, ret_mark, err);
    status = hf_once_begin_async(store, request, for_ms, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (status == HF_OK)
        *ret_lease = own.both.result.lease;
    if (ret_mark && own.both.done && own.mark.size)
        *ret_mark = own.mark;
    return status;
}

hf_status both_once_get(hf_store *store, const void *name, size_t name_len, hf_once_mark *ret_mark,
                        hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped || !((!ret_mark || ret_mark->size == sizeof *ret_mark)))
        return (hf_once_get)(store, name, name_len, ret_mark, err);
    status = hf_once_get_async(store, name, name_len, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    if (ret_mark && own.both.done && own.mark.size)
        *ret_mark = own.mark;
    return status;
}

hf_status both_once_claim(hf_lease *lease, int64_t for_ms, hf_once_mark *ret_mark, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped || !((!ret_mark || ret_mark->size == sizeof *ret_mark)))
        return (hf_once_claim)(lease, for_ms, ret_mark, err);
    status = hf_once_claim_async(lease, for_ms, prim_done, &own, NULL, err);
    status = both_end(NULL, status, &own.both, err);
    if (ret_mark && own.both.done && own.mark.size)
        *ret_mark = own.mark;
    return status;
}

hf_status both_once_finish(hf_lease *lease, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_once_finish)(lease, err);
    status = hf_once_finish_async(lease, prim_done, &own, NULL, err);
    status = both_end(NULL, status, &own.both, err);
    return status;
}

hf_status both_once_delete(hf_store *store, const void *name, size_t name_len, hf_error *err)
{
    struct prim_both own = { .limit = { .size = 0 } };
    hf_status status;

    if (!contract_pumped)
        return (hf_once_delete)(store, name, name_len, err);
    status = hf_once_delete_async(store, name, name_len, prim_done, &own, NULL, err);
    status = both_end(store, status, &own.both, err);
    return status;
}

hf_status both_member_join(hf_store *store, const hf_acquire_request *request, const char *value,
                           hf_lease **ret_member, hf_error *err)
{
    struct both both = { 0 };
    hf_status status;

    if (!contract_pumped || !ret_member)
        return (hf_member_join)(store, request, value, ret_member, err);
    status =
        both_end(store, hf_member_join_async(store, request, value, both_done, &both, NULL, err),
                 &both, err);
    if (status == HF_OK)
        *ret_member = both.result.lease;
    return status;
}

hf_status both_member_leave(hf_lease *member, hf_error *err)
{
    struct both both = { 0 };

    if (!contract_pumped)
        return (hf_member_leave)(member, err);
    return both_end(NULL, hf_member_leave_async(member, both_done, &both, NULL, err), &both, err);
}

hf_status both_members_wait(hf_store *store, const hf_members_request *request,
                            hf_members **ret_members, hf_error *err)
{
    struct both both = { 0 };
    hf_status status;

    if (!contract_pumped || !ret_members)
        return (hf_members_wait)(store, request, ret_members, err);
    status = both_end(store, hf_members_wait_async(store, request, both_done, &both, NULL, err),
                      &both, err);
    if (status == HF_OK)
        *ret_members = both.result.members;
    return status;
}

hf_status both_lease_cell_set(hf_lease *lease, const void *name, size_t name_len, const void *bytes,
                              size_t len, hf_error *err)
{
    struct both both = { 0 };

    if (!contract_pumped)
        return (hf_lease_cell_set)(lease, name, name_len, bytes, len, err);
    return both_end(
        NULL,
        hf_lease_cell_set_async(lease, name, name_len, bytes, len, both_done, &both, NULL, err),
        &both, err);
}

hf_status both_lease_cell_get(hf_store *store, const void *name, size_t name_len, hf_cell *ret_cell,
                              hf_error *err)
{
    struct both both = { 0 };
    hf_status status;

    if (!contract_pumped || !(ret_cell && ret_cell->size == sizeof *ret_cell))
        return (hf_lease_cell_get)(store, name, name_len, ret_cell, err);
    status =
        both_end(store, hf_lease_cell_get_async(store, name, name_len, both_done, &both, NULL, err),
                 &both, err);
    if (status == HF_OK) {
        ret_cell->bytes = both.result.bytes;
        ret_cell->len = both.result.len;
        ret_cell->version = both.result.version;
    }
    return status;
}
