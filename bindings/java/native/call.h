/* SPDX-License-Identifier: MIT */
/* What call.c and primitive.c share: how an asynchronous call of the library is begun with what Java gave. */
#ifndef HOLDFAST_JAVA_CALL_H
#define HOLDFAST_JAVA_CALL_H

#include "binding.h"

#define BEGIN(name)                                                                        \
    hf_status begin_##name(void *handle, struct in *in, struct call *call, hf_op **ret_op, \
                           hf_error *err)
/* The end of every asynchronous call's arguments. */
#define DONE on_done, call, ret_op, err

struct name {
    const void *bytes;
    size_t len;
};

static inline struct name in_name(struct in *in)
{
    struct name name;

    name.bytes = in_bytes(in, &name.len);
    return name;
}

/* How long to wait, the scope, the sink, and what read_wanted() reads. */
void read_acquire(struct in *in, hf_acquire_request *ret_request);

/* primitive.c */
BEGIN(cell_get);
BEGIN(cell_set);
BEGIN(cell_swap);
BEGIN(cell_update);
BEGIN(cell_wait);
BEGIN(cells_commit);
BEGIN(cell_delete);
BEGIN(lease_cell_set);
BEGIN(lease_cell_get);
BEGIN(counter_add);
BEGIN(counter_get);
BEGIN(counter_set);
BEGIN(counter_swap);
BEGIN(counter_delete);
BEGIN(guard_claim);
BEGIN(guard_set);
BEGIN(limit_take);
BEGIN(limit_get);
BEGIN(limit_set);
BEGIN(latch_create);
BEGIN(latch_count_down);
BEGIN(latch_join);
BEGIN(latch_wait);
BEGIN(latch_get);
BEGIN(latch_delete);
BEGIN(barrier_wait);
BEGIN(barrier_enter);
BEGIN(barrier_leave);
BEGIN(campaign);
BEGIN(election_set);
BEGIN(resign);
BEGIN(election_wait);
BEGIN(member_join);
BEGIN(member_leave);
BEGIN(members_wait);
BEGIN(once_begin);
BEGIN(once_get);
BEGIN(once_claim);
BEGIN(once_finish);
BEGIN(once_delete);

#endif
