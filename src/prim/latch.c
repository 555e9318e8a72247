/* SPDX-License-Identifier: MIT */
/*
 * hf_latch_*(): a count that those who take part bring down to nothing, each once, and others wait for.
 * All of it is in one cell, of the latch's name (latch_plan.h); who joins has a lease besides, by which
 * it is missed when it dies (party.h). Whoever finds one missing writes that into the cell, where all
 * see it. All on the calling thread.
 */
#include "prim/latch_plan.h"
#include "prim/party.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/random.h"

#include <string.h>

/* ---- one step ------------------------------------------------------------------------------------- */

/* What a call does to the latch. */
struct deed {
    enum { SET, DOWN, JOIN, BREAK, REMOVE } what;
    uint32_t count;  /* SET */
    const char *who; /* DOWN, JOIN, BREAK */
    uint64_t token;  /* JOIN, BREAK */
};

/* And what it learns of it. Large: not on a stack. */
struct step {
    struct deed deed;
    struct hfi_latch latch;
};

static hf_status broken(const struct hfi_latch *latch, hf_error *inner)
{
    return hfi_error_set(inner, HF_BROKEN, 0, "'%s' is gone, and had not counted down",
                         latch->broken);
}

static hf_status get(const struct hfi_cell *cell, struct hfi_latch *latch, hf_error *inner)
{
    if (cell->version == 0)
        return hfi_error_set(inner, HF_NOT_FOUND, 0, "there is no such latch");
    if (!hfi_latch_get(latch, cell->bytes, cell->len))
        return hfi_error_set(inner, HF_MISMATCH, 0, "the cell of that name is something else");
    return HF_OK;
}

static hf_status put(struct hfi_change *change, const struct hfi_latch *latch, hf_error *inner)
{
    change->what = HFI_WRITE;
    return hfi_latch_put(latch, &change->bytes) ? HF_OK : hfi_error_memory(inner);
}

static hf_status plan_set(struct hfi_change *change, struct step *step, hf_error *inner)
{
    hf_status status;

    if (change->found.version == 0) {
        step->latch.count = step->deed.count;
        step->latch.broken[0] = 0;
        step->latch.members.count = 0;
        return put(change, &step->latch, inner);
    }
    status = get(&change->found, &step->latch, inner);
    if (status == HF_OK && step->latch.count != step->deed.count)
        return hfi_error_set(inner, HF_MISMATCH, 0, "there is one for %u already",
                             step->latch.count);
    return status;
}

static hf_status plan(struct hfi_change *change, void *arg, hf_error *inner)
{
    struct step *step = arg;
    bool changed = false;
    hf_status status;

    if (step->deed.what == SET)
        return plan_set(change, step, inner);
    if (step->deed.what == REMOVE && change->doubt && change->found.version == 0)
        return HF_OK;
    if (step->deed.what == DOWN && change->doubt && change->found.version == 0)
        return hfi_error_set(inner, HF_UNKNOWN, 0,
                             "it may have been counted, and the latch removed since");
    status = get(&change->found, &step->latch, inner);
    if (status != HF_OK)
        return status;
    if (step->deed.what == REMOVE) {
        change->what = HFI_REMOVE;
        return HF_OK;
    }
    if (step->deed.what == DOWN)
        status = hfi_latch_down(&step->latch, step->deed.who, &changed);
    else if (step->deed.what == JOIN)
        status = hfi_latch_join(&step->latch, step->deed.who, step->deed.token, &changed);
    else
        hfi_latch_break(&step->latch, step->deed.who, step->deed.token, &changed);
    if (status == HF_BROKEN)
        return broken(&step->latch, inner);
    if (status == HF_FULL)
        return hfi_error_set(inner, HF_FULL, 0, "more than %d take part", HF_PARTICIPANTS_MAX);
    return changed ? put(change, &step->latch, inner) : HF_OK;
}

/* ---- the calls -------------------------------------------------------------------------------------- */

/* Do it to the latch of that name; *ret_left may be NULL. */
static hf_status do_step(hf_store *store, const void *name, size_t name_len, const char *verb,
                         const struct deed *deed, uint32_t *ret_left, hf_error *err)
{
    struct step *step;
    struct hfi_prim prim;
    struct hfi_party party;
    hf_status status = hfi_prim_enter(&prim, store, verb, name, name_len, HF_CAP_CELLS, err);

    if (status != HF_OK)
        return status;
    step = hfi_malloc(sizeof *step);
    if (!step)
        status = hfi_error_memory(err);
    else if (deed->who)
        status = hfi_party_name(&party, &prim, deed->who, err);
    if (status == HF_OK) {
        step->deed = *deed;
        status = hfi_cell_change(&prim, plan, step, NULL, err);
    }
    if (status == HF_OK && ret_left)
        *ret_left = hfi_latch_left(&step->latch);
    hfi_free(step);
    hfi_prim_leave(&prim);
    return status == HF_OK ? hfi_ok(err) : status;
}

hf_status hf_latch_create(hf_store *store, const void *name, size_t name_len, uint32_t count,
                          hf_error *err)
{
    struct deed deed = { .what = SET, .count = count };

    if (count == 0 || count > HF_PARTICIPANTS_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "count: from 1 to %d", HF_PARTICIPANTS_MAX);
    return do_step(store, name, name_len, "latch", &deed, NULL, err);
}

hf_status hf_latch_count_down(hf_store *store, const void *name, size_t name_len, const char *who,
                              uint32_t *ret_left, hf_error *err)
{
    struct deed deed = { .what = DOWN, .who = who ? who : "" };

    return do_step(store, name, name_len, "count down", &deed, ret_left, err);
}

hf_status hf_latch_delete(hf_store *store, const void *name, size_t name_len, hf_error *err)
{
    struct deed deed = { .what = REMOVE };

    return do_step(store, name, name_len, "latch", &deed, NULL, err);
}

hf_status hf_latch_join(hf_store *store, const hf_party_request *given, hf_lease **ret_lease,
                        hf_error *err)
{
    hf_party_request request;
    struct deed deed = { .what = JOIN };
    struct hfi_prim prim;
    struct hfi_party party;
    int64_t until_ms;
    hf_status status = hfi_party_request(&request, given, err);

    if (status != HF_OK)
        return status;
    deed.who = request.who;
    if (!ret_lease)
        return hfi_error_set(err, HF_INVALID, 0, "ret_lease: NULL");
    if (!hfi_until(request.wait_ms, &until_ms))
        return hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative");
    status =
        hfi_prim_enter(&prim, store, "join", request.name, request.name_len, HF_CAP_CELLS, err);
    if (status != HF_OK)
        return status;
    status = hfi_party_name(&party, &prim, request.who, err);
    hfi_prim_leave(&prim);
    if (status == HF_OK)
        status = hfi_party_enter(&party, store, until_ms, request.cancel, err);
    if (status != HF_OK)
        return status;
    deed.token = party.id;
    status = do_step(store, request.name, request.name_len, "join", &deed, NULL, err);
    if (status == HF_OK)
        *ret_lease = party.lease;
    else
        (void)hf_release(party.lease, NULL);
    return status;
}

/* ---- waiting ------------------------------------------------------------------------------------------ */

struct waiting {
    uint32_t turn;
    struct hfi_latch latch;
    struct step step; /* to break it */
};

static hf_status look(struct hfi_vigil *vigil, const struct hfi_cell *cell, void *arg,
                      hf_error *inner)
{
    struct waiting *waiting = arg;
    struct hfi_latch *latch = &waiting->latch;
    const struct hfi_member *gone;
    hf_status status = get(cell, latch, inner);

    if (status != HF_OK || hfi_latch_left(latch) == 0)
        return status;
    if (latch->broken[0])
        return broken(latch, inner);
    vigil->living = hfi_members_with(&latch->members, HFI_JOINED) > 0;
    if (!vigil->due)
        return HF_TIMEOUT;
    status = hfi_party_gone(vigil->prim, &latch->members, HFI_JOINED, &waiting->turn, &gone, inner);
    if (status != HF_OK || !gone)
        return status == HF_OK ? HF_TIMEOUT : status;

    /* For everybody; unless it has counted down meanwhile, or is back. Then the next look sees that. */
    waiting->step.deed = (struct deed){ .what = BREAK, .who = gone->who, .token = gone->token };
    status = hfi_cell_plan(vigil->prim, plan, &waiting->step, NULL, inner);
    if (status == HF_OK && waiting->step.latch.broken[0])
        return broken(&waiting->step.latch, inner);
    return status == HF_OK ? HF_TIMEOUT : status;
}

hf_status hf_latch_wait(hf_store *store, const hf_party_request *given, hf_error *err)
{
    hf_party_request request;
    struct hfi_prim prim;
    struct hfi_vigil vigil = { .prim = &prim };
    struct waiting *waiting;
    hf_status status = hfi_party_request(&request, given, err);

    if (status != HF_OK)
        return status;
    vigil.cancel = request.cancel;
    if (!hfi_until(request.wait_ms, &vigil.until_ms))
        return hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative");
    status = hfi_prim_enter(&prim, store, "wait for latch", request.name, request.name_len,
                            HF_CAP_CELLS, err);
    if (status != HF_OK)
        return status;
    waiting = hfi_malloc(sizeof *waiting);
    if (!waiting) {
        status = hfi_error_memory(err);
    } else {
        waiting->turn = (uint32_t)hfi_random_u64();
        status = hfi_vigil(&vigil, look, waiting, err);
    }
    hfi_free(waiting);
    hfi_prim_leave(&prim);
    return status == HF_OK ? hfi_ok(err) : status;
}

hf_status hf_latch_get(hf_store *store, const void *name, size_t name_len, uint32_t *ret_count,
                       uint32_t *ret_left, hf_error *err)
{
    struct hfi_latch *latch;
    struct hfi_prim prim;
    struct hfi_cell cell;
    hf_error inner;
    hf_status status = hfi_prim_enter(&prim, store, "latch", name, name_len, HF_CAP_CELLS, err);

    if (status != HF_OK)
        return status;
    latch = hfi_malloc(sizeof *latch);
    status = latch ? hfi_cell_read(&prim, &cell, &inner) : hfi_error_memory(&inner);
    if (status == HF_OK) {
        status = get(&cell, latch, &inner);
        hfi_cell_forget(&cell);
    }
    if (status == HF_OK && latch->broken[0])
        status = broken(latch, &inner);
    if (status == HF_OK && ret_count)
        *ret_count = latch->count;
    if (status == HF_OK && ret_left)
        *ret_left = hfi_latch_left(latch);
    hfi_free(latch);
    status = status == HF_OK ? hfi_ok(err) : hfi_prim_error(&prim, status, &inner, err);
    hfi_prim_leave(&prim);
    return status;
}
