/* SPDX-License-Identifier: MIT */
/*
 * Both forms of the primitives' calls: with `--async` each begins its asynchronous form and pumps hf_store_process() until it
 * is done. To be included before anything that calls them (calls.h). See contract.h.
 */
#ifndef BOTH_H
#define BOTH_H

#include "contract.h"
#include "holdfast/primitives.h"

hf_status both_cell_get(hf_store *store, const void *name, size_t name_len, hf_cell *ret_cell,
                        hf_error *err);
hf_status both_cell_set(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                        hf_error *err);
hf_status both_cell_swap(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                         hf_error *err);
hf_status both_cell_update(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                           hf_error *err);
hf_status both_cell_wait(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                         hf_error *err);
hf_status both_cell_delete(hf_store *store, const void *name, size_t name_len, uint64_t version,
                           hf_error *err);
hf_status both_cells_commit(hf_store *store, const hf_cell_item *items, size_t count,
                            uint64_t *ret_versions, size_t *ret_index, hf_error *err);
hf_status both_counter_add(hf_store *store, const void *name, size_t name_len, int64_t delta,
                           int64_t *ret_value, hf_error *err);
hf_status both_counter_get(hf_store *store, const void *name, size_t name_len, int64_t *ret_value,
                           hf_error *err);
hf_status both_counter_set(hf_store *store, const void *name, size_t name_len, int64_t value,
                           hf_error *err);
hf_status both_counter_swap(hf_store *store, const void *name, size_t name_len, int64_t expected,
                            int64_t value, int64_t *ret_current, hf_error *err);
hf_status both_counter_delete(hf_store *store, const void *name, size_t name_len, hf_error *err);
hf_status both_guard_claim(hf_store *store, const void *name, size_t name_len, uint64_t token,
                           void **ret_bytes, size_t *ret_len, hf_error *err);
hf_status both_guard_set(hf_store *store, const void *name, size_t name_len, uint64_t token,
                         const void *bytes, size_t len, hf_error *err);
hf_status both_limit_take(hf_store *store, const hf_limit_request *limit,
                          hf_limit_result *ret_result, hf_error *err);
hf_status both_limit_get(hf_store *store, const hf_limit_request *limit,
                         hf_limit_result *ret_result, hf_error *err);
hf_status both_limit_set(hf_store *store, const hf_limit_request *limit,
                         hf_limit_result *ret_result, hf_error *err);
hf_status both_latch_create(hf_store *store, const void *name, size_t name_len, uint32_t count,
                            hf_error *err);
hf_status both_latch_count_down(hf_store *store, const void *name, size_t name_len, const char *who,
                                uint32_t *ret_left, hf_error *err);
hf_status both_latch_join(hf_store *store, const hf_party_request *request, hf_lease **ret_lease,
                          hf_error *err);
hf_status both_latch_wait(hf_store *store, const hf_party_request *request, hf_error *err);
hf_status both_latch_get(hf_store *store, const void *name, size_t name_len, uint32_t *ret_count,
                         uint32_t *ret_left, hf_error *err);
hf_status both_latch_delete(hf_store *store, const void *name, size_t name_len, hf_error *err);
hf_status both_barrier_wait(hf_store *store, const hf_party_request *request, hf_error *err);
hf_status both_barrier_enter(hf_store *store, const hf_party_request *request, hf_lease **ret_party,
                             hf_error *err);
hf_status both_barrier_leave(hf_lease *party, int64_t wait_ms, hf_cancel *cancel, hf_error *err);
hf_status both_election_campaign(hf_store *store, const hf_acquire_request *request,
                                 const void *value, size_t len, hf_lease **ret_leader,
                                 hf_error *err);
hf_status both_election_set(hf_lease *leader, const void *value, size_t len, hf_error *err);
hf_status both_election_resign(hf_lease *leader, hf_error *err);
hf_status both_election_wait(hf_store *store, const hf_election_request *request,
                             hf_leader **ret_leader, hf_error *err);
hf_status both_lease_cell_set(hf_lease *lease, const void *name, size_t name_len, const void *bytes,
                              size_t len, hf_error *err);
hf_status both_lease_cell_get(hf_store *store, const void *name, size_t name_len, hf_cell *ret_cell,
                              hf_error *err);
hf_status both_member_join(hf_store *store, const hf_acquire_request *request, const char *value,
                           hf_lease **ret_member, hf_error *err);
hf_status both_member_leave(hf_lease *member, hf_error *err);
hf_status both_members_wait(hf_store *store, const hf_members_request *request,
                            hf_members **ret_members, hf_error *err);
hf_status both_once_begin(hf_store *store, const hf_acquire_request *request, int64_t for_ms,
                          hf_lease **ret_lease, hf_once_mark *ret_mark, hf_error *err);
hf_status both_once_get(hf_store *store, const void *name, size_t name_len, hf_once_mark *ret_mark,
                        hf_error *err);
hf_status both_once_claim(hf_lease *lease, int64_t for_ms, hf_once_mark *ret_mark, hf_error *err);
hf_status both_once_finish(hf_lease *lease, hf_error *err);
hf_status both_once_delete(hf_store *store, const void *name, size_t name_len, hf_error *err);

#define hf_lease_cell_set(...)    both_lease_cell_set(__VA_ARGS__)
#define hf_lease_cell_get(...)    both_lease_cell_get(__VA_ARGS__)
#define hf_member_join(...)       both_member_join(__VA_ARGS__)
#define hf_member_leave(...)      both_member_leave(__VA_ARGS__)
#define hf_members_wait(...)      both_members_wait(__VA_ARGS__)
#define hf_cell_get(...)          both_cell_get(__VA_ARGS__)
#define hf_cell_set(...)          both_cell_set(__VA_ARGS__)
#define hf_cell_swap(...)         both_cell_swap(__VA_ARGS__)
#define hf_cell_update(...)       both_cell_update(__VA_ARGS__)
#define hf_cell_wait(...)         both_cell_wait(__VA_ARGS__)
#define hf_cell_delete(...)       both_cell_delete(__VA_ARGS__)
#define hf_cells_commit(...)      both_cells_commit(__VA_ARGS__)
#define hf_counter_add(...)       both_counter_add(__VA_ARGS__)
#define hf_counter_get(...)       both_counter_get(__VA_ARGS__)
#define hf_counter_set(...)       both_counter_set(__VA_ARGS__)
#define hf_counter_swap(...)      both_counter_swap(__VA_ARGS__)
#define hf_counter_delete(...)    both_counter_delete(__VA_ARGS__)
#define hf_guard_claim(...)       both_guard_claim(__VA_ARGS__)
#define hf_guard_set(...)         both_guard_set(__VA_ARGS__)
#define hf_limit_take(...)        both_limit_take(__VA_ARGS__)
#define hf_limit_get(...)         both_limit_get(__VA_ARGS__)
#define hf_limit_set(...)         both_limit_set(__VA_ARGS__)
#define hf_latch_create(...)      both_latch_create(__VA_ARGS__)
#define hf_latch_count_down(...)  both_latch_count_down(__VA_ARGS__)
#define hf_latch_join(...)        both_latch_join(__VA_ARGS__)
#define hf_latch_wait(...)        both_latch_wait(__VA_ARGS__)
#define hf_latch_get(...)         both_latch_get(__VA_ARGS__)
#define hf_latch_delete(...)      both_latch_delete(__VA_ARGS__)
#define hf_barrier_wait(...)      both_barrier_wait(__VA_ARGS__)
#define hf_barrier_enter(...)     both_barrier_enter(__VA_ARGS__)
#define hf_barrier_leave(...)     both_barrier_leave(__VA_ARGS__)
#define hf_election_campaign(...) both_election_campaign(__VA_ARGS__)
#define hf_election_set(...)      both_election_set(__VA_ARGS__)
#define hf_election_resign(...)   both_election_resign(__VA_ARGS__)
#define hf_election_wait(...)     both_election_wait(__VA_ARGS__)
#define hf_once_begin(...)        both_once_begin(__VA_ARGS__)
#define hf_once_get(...)          both_once_get(__VA_ARGS__)
#define hf_once_claim(...)        both_once_claim(__VA_ARGS__)
#define hf_once_finish(...)       both_once_finish(__VA_ARGS__)
#define hf_once_delete(...)       both_once_delete(__VA_ARGS__)

#endif
