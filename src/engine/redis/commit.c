/* SPDX-License-Identifier: MIT */
/*
 * Several cells in one step: HFI_OP_CELLS_COMMIT, one call of cell_commit.lua. With the lock.
 *
 * A cluster has a step for one slot only. The slot of a cell is that of its name, so names share one by accident, or because the
 * prefix has a {tag}, which is then the tag of every key of the store.
 */
#include "engine/redis/internal.h"

#include "util/error.h"
#include "util/text.h"

static void committed(struct redis_call *call, enum hfi_outcome outcome,
                      const struct hfi_reply *reply, const hf_error *err)
{
    struct hfi_commit_op *commit = call->op->u.commit;
    const struct hfi_reply *found = hfi_reply_at(reply, 1, HFI_REPLY_LIST);
    char letter = hfi_reply_letter(reply);

    if (outcome != HFI_ANSWERED) {
        hfi_reactor_finish(&call->store->reactor, call->op, hfi_outcome_status(outcome, err), err);
        return;
    }
    for (size_t i = 0; i < commit->count; i++) {
        const struct hfi_reply *version = found ? hfi_reply_at(found, i, HFI_REPLY_INTEGER) : NULL;

        if ((letter != 'C' && letter != 'V') || !version || version->integer < 0) {
            redis_finish_odd(call->store, call->op, reply);
            return;
        }
        commit->items[i].ret_version = (uint64_t)version->integer;
    }
    hfi_reactor_finish(&call->store->reactor, call->op, letter == 'C' ? HF_OK : HF_BUSY, NULL);
}

/* In a cluster: are all of them in one slot? Else the error names two that are not. */
static bool check_slots(struct redis_store *store, const struct hfi_commit_op *commit,
                        hf_error *ret_err)
{
    const struct hfi_name *first = &commit->items[0].name;
    uint32_t slot = store->slots ? redis_name_slot(store, first) : 0;
    char a[100], b[100];

    for (size_t i = 1; store->slots && i < commit->count; i++) {
        const struct hfi_name *name = &commit->items[i].name;

        if (redis_name_slot(store, name) == slot)
            continue;
        hfi_quote_name(first->bytes, first->len, a, sizeof a);
        hfi_quote_name(name->bytes, name->len, b, sizeof b);
        hfi_error_set(
            ret_err, HF_INVALID, 0,
            "items: '%s' is in slot %u of the cluster and '%s' in slot %u, and a step is of one "
            "slot: "
            "a {tag} in the URL's prefix, as prefix=hf:{bank}:, puts all names of a store into one",
            a, (unsigned)slot, b, (unsigned)redis_name_slot(store, name));
        return false;
    }
    return true;
}

static void add_item(struct hfi_command *command, const struct hfi_commit_item *item)
{
    static const char *const acts[] = {
        [HF_CELL_ACTION_LEAVE] = "L", [HF_CELL_ACTION_WRITE] = "W", [HF_CELL_ACTION_DELETE] = "D"
    };
    bool write = item->action == HF_CELL_ACTION_WRITE;

    hfi_command_add_number(command, (int64_t)item->version);
    hfi_command_add_text(command, acts[item->action]);
    hfi_command_add(command, write ? item->bytes : "", write ? item->len : 0);
    hfi_command_add_number(command, write ? item->ttl_ms : 0);
}

void redis_cells_commit(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    const struct hfi_commit_op *commit = op->u.commit;
    struct redis_call *call;
    hf_error err;

    if (!check_slots(store, commit, &err)) {
        hfi_reactor_finish(&store->reactor, op, HF_INVALID, &err);
        return;
    }
    call = redis_call_new(store, &hfi_script_cell_commit, (uint32_t)commit->count, committed, op);
    if (!call)
        return;
    for (size_t i = 0; i < commit->count; i++)
        redis_add_cell_key(call, &commit->items[i].name);
    for (size_t i = 0; i < commit->count; i++)
        add_item(&call->command, &commit->items[i]);
    redis_call_send(call);
}
