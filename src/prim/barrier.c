/* SPDX-License-Identifier: MIT */
/*
 * hf_barrier_*(): barriers, single and double. All of one is in a cell of its name (barrier_plan.h);
 * everybody who is here has a lease, by which it is missed when it dies (party.h), from before it comes
 * until after it has gone. Whoever finds one missing breaks the generation, in the cell, where all see it.
 * All on the calling thread.
 */
#include "prim/barrier_plan.h"
#include "prim/held.h"
#include "prim/party.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/random.h"
#include "util/text.h"

#include <string.h>

/* A call, and what it has learnt. Large: not on a stack. */
struct call {
    struct hfi_prim *prim;
    struct hfi_vigil vigil;
    struct hfi_party party;
    uint32_t parties;
    bool twice, leaving;
    bool full;              /* those inside must leave first, in `generation` */
    uint64_t generation;    /* ours */
    uint64_t tried;         /* that we may have come in, if an outcome is unknown */
    hf_status result;       /* of giving up */
    struct hfi_member dead; /* whom we would have come to; who[0] 0: nobody */
    uint32_t turn;
    char chance[2 * 8 + 1]; /* a name for who has none */
    struct hfi_barrier barrier, breaking;
};

/* ---- the cell ------------------------------------------------------------------------------------------ */

static hf_status get(const struct hfi_cell *cell, const struct call *call,
                     struct hfi_barrier *barrier, hf_error *inner)
{
    if (cell->version == 0)
        hfi_barrier_new(barrier, call->parties, call->twice);
    else if (!hfi_barrier_get(barrier, cell->bytes, cell->len))
        return hfi_error_set(inner, HF_MISMATCH, 0, "the cell of that name is something else");
    return HF_OK;
}

static hf_status put(struct hfi_change *change, const struct hfi_barrier *barrier, hf_error *inner)
{
    change->what = HFI_WRITE;
    return hfi_barrier_put(barrier, &change->bytes) ? HF_OK : hfi_error_memory(inner);
}

static hf_status broken(const struct hfi_barrier *barrier, uint64_t generation, hf_error *inner)
{
    if (barrier->generation == generation && barrier->gone[0])
        return hfi_error_set(inner, HF_BROKEN, 0, "'%s' is gone", barrier->gone);
    return hfi_error_set(inner, HF_BROKEN, 0, "%s", hf_status_text(HF_BROKEN));
}

/*
 * Those who were here before us: do they live? Who waits looks at the others, so one that lives is
 * enough. But if all of them died nobody has noticed, and we must not count them.
 */
static hf_status check_company(struct call *call, hf_error *inner)
{
    const struct hfi_members *members = &call->barrier.members;
    bool lives = false;

    for (uint32_t i = 0; i < members->count && !lives; i++) {
        hf_status status;

        if (strcmp(members->items[i].who, call->party.who) == 0)
            continue;
        status = hfi_party_lives(call->prim, &members->items[i], &lives, inner);
        if (status != HF_OK)
            return status;
        if (!lives) {
            call->dead = members->items[i];
            return HF_OK;
        }
    }
    return HF_OK;
}

static hf_status plan_arrive(struct hfi_change *change, void *arg, hf_error *inner)
{
    struct call *call = arg;
    struct hfi_barrier *barrier = &call->barrier;
    bool changed = false;
    hf_status status = get(&change->found, call, barrier, inner), checked = HF_OK;

    if (status != HF_OK)
        return status;
    if (change->doubt && barrier->generation != call->tried &&
        !hfi_member_find(&barrier->members, call->party.who) &&
        !hfi_member_find(&barrier->before, call->party.who))
        return hfi_error_set(inner, HF_UNKNOWN, 0, "it may have been counted, and passed");
    status = hfi_barrier_arrive(barrier, call->parties, call->twice, call->party.who,
                                call->party.id, &call->generation, &changed);
    call->full = status == HF_BUSY;
    call->dead.who[0] = 0;
    if (status == HF_MISMATCH || (changed && barrier->phase != HFI_FILLING))
        checked = check_company(call, inner);
    if (checked != HF_OK || call->dead.who[0])
        return checked; /* nothing is written: first it is to be broken */
    if (status == HF_MISMATCH)
        return hfi_error_set(inner, status, 0, "it is in use as a %s one for %u",
                             barrier->twice ? "double" : "single", barrier->parties);
    if (changed)
        call->tried = call->generation;
    return changed ? put(change, barrier, inner) : HF_OK;
}

/* Does the cell still name us? Nobody else takes a member off its list; it has those of two generations. */
static bool is_listed(struct call *call)
{
    return hfi_member_find(&call->barrier.members, call->party.who) ||
           hfi_member_find(&call->barrier.before, call->party.who);
}

static hf_status plan_withdraw(struct hfi_change *change, void *arg, hf_error *inner)
{
    struct call *call = arg;
    bool changed = false;
    hf_status status = get(&change->found, call, &call->barrier, inner);

    if (status != HF_OK)
        return status;
    if (change->doubt && !is_listed(call) && call->barrier.generation >= call->generation) {
        if (call->barrier.generation - call->generation > 1)
            return hfi_error_set(inner, HF_UNKNOWN, 0, "it may have been counted, and passed");
        call->result = HF_TIMEOUT; /* we had withdrawn, and others may have come and passed since */
        return HF_OK;
    }
    call->result = hfi_barrier_withdraw(&call->barrier, call->party.who, call->party.id,
                                        call->generation, &changed);
    return changed ? put(change, &call->barrier, inner) : HF_OK;
}

static hf_status plan_leave(struct hfi_change *change, void *arg, hf_error *inner)
{
    struct call *call = arg;
    bool changed = false;
    hf_status status = get(&change->found, call, &call->barrier, inner);

    if (status != HF_OK)
        return status;
    status = hfi_barrier_leave(&call->barrier, call->party.who, call->party.id, &call->generation,
                               &changed);
    if (status == HF_BROKEN && change->doubt && call->barrier.generation != call->tried)
        return hfi_error_set(inner, HF_UNKNOWN, 0, "it may have been the last to leave");
    if (status == HF_BROKEN)
        return broken(&call->barrier, call->generation, inner);
    call->tried = call->generation;
    return changed ? put(change, &call->barrier, inner) : HF_OK;
}

/* Somebody whose lease is gone. */
struct missing {
    struct call *call;
    const struct hfi_member *member;
};

static hf_status plan_break(struct hfi_change *change, void *arg, hf_error *inner)
{
    struct missing *missing = arg;
    struct hfi_barrier *barrier = &missing->call->breaking;
    bool changed = false;
    hf_status status = get(&change->found, missing->call, barrier, inner);

    if (status != HF_OK)
        return status;
    hfi_barrier_break(barrier, missing->member->who, missing->member->token, &changed);
    return changed ? put(change, barrier, inner) : HF_OK;
}

/* ---- waiting ---------------------------------------------------------------------------------------------- */

/* Is somebody missing of those who are here? Then it is broken from now on, and the next look sees that. */
static hf_status miss(struct call *call, hf_error *inner)
{
    struct missing missing = { .call = call };
    hf_status status;

    call->vigil.living = true;
    if (!call->vigil.due)
        return HF_TIMEOUT;
    status = hfi_party_gone(call->prim, &call->barrier.members, HFI_HERE, &call->turn,
                            &missing.member, inner);
    if (status == HF_OK && missing.member)
        status = hfi_cell_plan(call->prim, plan_break, &missing, NULL, inner);
    return status == HF_OK ? HF_TIMEOUT : status;
}

/* How did our generation end? */
static hf_status look_end(struct hfi_vigil *vigil, const struct hfi_cell *cell, void *arg,
                          hf_error *inner)
{
    struct call *call = arg;
    hf_status status = get(cell, call, &call->barrier, inner);

    (void)vigil;
    if (status != HF_OK)
        return status;
    status = hfi_barrier_outcome(&call->barrier, call->generation, !call->leaving);
    if (status == HF_BROKEN)
        return broken(&call->barrier, call->generation, inner);
    return status == HF_TIMEOUT ? miss(call, inner) : status;
}

/* Have those left who were inside? */
static hf_status look_free(struct hfi_vigil *vigil, const struct hfi_cell *cell, void *arg,
                           hf_error *inner)
{
    struct call *call = arg;
    hf_status status = get(cell, call, &call->barrier, inner);

    (void)vigil;
    if (status != HF_OK || call->barrier.phase != HFI_OPEN ||
        call->barrier.generation != call->generation)
        return status;
    return miss(call, inner);
}

/* ---- coming --------------------------------------------------------------------------------------------- */

/* Before we come: one who is dead is not to be counted. What becomes of that is not our outcome: until our time is
 * up we look again, and after that nothing of ours has been done. */
static hf_status break_for_dead(struct call *call, hf_error *err)
{
    hf_error inner;
    hf_status status =
        hfi_cell_plan(call->prim, plan_break, &(struct missing){ call, &call->dead }, NULL, &inner);

    if (status == HF_UNKNOWN)
        status = hfi_now_ms() < call->vigil.until_ms ? HF_OK : HF_UNAVAILABLE;
    return status == HF_OK ? HF_OK : hfi_prim_error(call->prim, status, &inner, err);
}

/* With our lease: be one of a generation. */
static hf_status arrive(struct call *call, hf_error *err)
{
    hf_status status;

    do {
        status = hfi_cell_change(call->prim, plan_arrive, call, NULL, err);
        if (status == HF_OK && call->full)
            status = hfi_vigil(&call->vigil, look_free, call, err);
        else if (status == HF_OK && call->dead.who[0])
            status = break_for_dead(call, err);
    } while (status == HF_OK && (call->full || call->dead.who[0]));
    return status;
}

/* Who gives up has not come, unless it was too late for that. */
static hf_status give_up(struct call *call, hf_status status, hf_error *err)
{
    hf_error inner;
    hf_status withdrawn = hfi_cell_plan(call->prim, plan_withdraw, call, NULL, &inner);

    /* We have been counted. Our lease ends now, so the others will miss us; but they may have passed. */
    if (withdrawn == HF_UNAVAILABLE || withdrawn == HF_BUSY)
        withdrawn = HF_UNKNOWN;
    if (withdrawn != HF_OK)
        return hfi_prim_error(call->prim, withdrawn, &inner, err);
    if (call->result == HF_OK)
        return HF_OK;
    if (call->result == HF_BROKEN) {
        broken(&call->barrier, call->generation, &inner);
        status = HF_BROKEN;
    } else {
        hfi_error_set(&inner, status, 0, "%s", hf_status_text(status));
    }
    return hfi_prim_error(call->prim, status, &inner, err);
}

static hf_status pass(struct call *call, hf_error *err)
{
    hf_status status = arrive(call, err);

    if (status != HF_OK)
        return status;
    status = hfi_vigil(&call->vigil, look_end, call, err);
    return status == HF_OK || status == HF_BROKEN ? status : give_up(call, status, err);
}

static hf_status begin(struct call *call, struct hfi_prim *prim, uint32_t parties, const char *who,
                       hf_error *err)
{
    unsigned char chance[8];

    if (parties == 0 || parties > HF_PARTICIPANTS_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "parties: from 1 to %d", HF_PARTICIPANTS_MAX);
    call->prim = prim;
    call->vigil.prim = prim;
    call->vigil.next_ms = hfi_now_ms() + HFI_LOOK_FIRST_MS; /* most are through before that */
    call->parties = parties;
    call->turn = (uint32_t)hfi_random_u64();
    if (!who) {
        hfi_random_bytes(chance, sizeof chance);
        hfi_hex(chance, sizeof chance, call->chance);
        who = call->chance;
    }
    return hfi_party_name(&call->party, prim, who, err);
}

static hf_status come(hf_store *store, const hf_party_request *given, hf_lease **ret_party,
                      hf_error *err)
{
    hf_party_request request;
    struct hfi_prim prim;
    struct call *call;
    hf_status status = hfi_party_request(&request, given, err);

    if (status == HF_OK)
        status = hfi_prim_enter(&prim, store, "barrier", request.name, request.name_len,
                                HF_CAP_CELLS, err);
    if (status != HF_OK)
        return status;
    call = hfi_calloc(1, sizeof *call);
    if (!call)
        status = hfi_error_memory(err);
    else if (!hfi_until(request.wait_ms, &call->vigil.until_ms))
        status = hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative");
    else
        status = begin(call, &prim, request.parties, request.who, err);
    if (status == HF_OK) {
        call->twice = ret_party != NULL;
        call->vigil.cancel = request.cancel;
        status = hfi_party_enter(&call->party, store, call->vigil.until_ms, request.cancel, err);
    }
    if (status == HF_OK) {
        status = pass(call, err);
        if (status == HF_OK && ret_party)
            *ret_party = call->party.lease;
        else
            (void)hf_release(call->party.lease, NULL);
    }
    hfi_free(call);
    hfi_prim_leave(&prim);
    return status == HF_OK ? hfi_ok(err) : status;
}

hf_status hf_barrier_wait(hf_store *store, const hf_party_request *request, hf_error *err)
{
    return come(store, request, NULL, err);
}

hf_status hf_barrier_enter(hf_store *store, const hf_party_request *request, hf_lease **ret_party,
                           hf_error *err)
{
    if (!ret_party)
        return hfi_error_set(err, HF_INVALID, 0, "ret_party: NULL");
    return come(store, request, ret_party, err);
}

/* ---- leaving --------------------------------------------------------------------------------------------- */

/* The barrier's name, and who we are, from the name of our lease. */
static hf_status take_apart(struct hfi_held *held, char who[HF_PARTICIPANT_MAX + 1], hf_error *err)
{
    struct hfi_name *name = &held->prim.name;
    const unsigned char *nul = memrchr(held->name, 0, name->len);
    size_t len = nul ? (size_t)(held->name + name->len - (nul + 1)) : 0;

    if (!nul || nul == held->name || len == 0 || len > HF_PARTICIPANT_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "party: it did not enter a barrier");
    memcpy(who, nul + 1, len);
    who[len] = 0;
    name->len = (uint32_t)(nul - held->name);
    hfi_hash128(held->name, name->len, name->hash);
    return HF_OK;
}

static hf_status leave(struct call *call, hf_error *err)
{
    hf_status status = hfi_cell_change(call->prim, plan_leave, call, NULL, err);

    return status == HF_OK ? hfi_vigil(&call->vigil, look_end, call, err) : status;
}

hf_status hf_barrier_leave(hf_lease *party, int64_t wait_ms, hf_cancel *cancel, hf_error *err)
{
    char who[HF_PARTICIPANT_MAX + 1];
    struct hfi_held held;
    struct call *call;
    hf_status status = hfi_held_enter(&held, party, "barrier", HF_CAP_CELLS, err);

    if (status != HF_OK)
        return status;
    status = take_apart(&held, who, err);
    if (status != HF_OK) { /* a lease, but not one that is ours to end */
        hfi_held_leave(&held);
        return status;
    }
    call = hfi_calloc(1, sizeof *call);
    if (!call)
        status = hfi_error_memory(err);
    if (status == HF_OK && !hfi_until(wait_ms, &call->vigil.until_ms))
        status = hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative");
    if (status == HF_OK)
        status = begin(call, &held.prim, 1, who, err);
    if (status == HF_OK) {
        call->leaving = call->twice = true;
        call->vigil.cancel = cancel;
        call->party.id = held.token;
        status = leave(call, err);
    }
    hfi_free(call);
    (void)hf_release(party, NULL);
    hfi_held_leave(&held);
    return status == HF_OK ? hfi_ok(err) : status;
}
