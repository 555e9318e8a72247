/* SPDX-License-Identifier: MIT */
/*
 * hf_election_*(): who leads is who holds the lock, and what the leader has to say is in the cell of the same
 * name: "E1", its token, its label and the value; "E0" and the token after it resigned.
 *
 * A leader is one for as long as its lease is valid by its own clock, which ends before the store lets
 * another one lead; nothing here makes that longer. What a former leader proclaims late never covers what
 * a later one has said: see held.h for the rule.
 *
 * Observers are woken by the change of the cell. That a leader died and nobody follows is seen by nothing
 * but its lease, at which they look once a second: vigil.h.
 */
#include "core/request.h"
#include "holdfast/primitives.h"
#include "prim/change.h"
#include "prim/held.h"
#include "prim/vigil.h"
#include "util/alloc.h"
#include "util/error.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* ---- the record ------------------------------------------------------------------------------------- */

struct record {
    bool leads;
    uint64_t token;
    char label[HF_LABEL_MAX + 1];
    const void *value; /* in the cell's bytes */
    size_t len;
};

static hf_status get(const struct hfi_cell *cell, struct record *ret_record, hf_error *inner)
{
    struct hfi_reader from = { cell->bytes, cell->len };
    const unsigned char *head;

    *ret_record = (struct record){ .leads = false };
    if (cell->version == 0)
        return HF_OK;
    if (!hfi_get_bytes(&from, 2, &head) || head[0] != 'E' || (head[1] != '0' && head[1] != '1') ||
        !hfi_get_number(&from, &ret_record->token) ||
        !hfi_get_text(&from, ret_record->label, sizeof ret_record->label))
        return hfi_error_set(inner, HF_MISMATCH, 0, "the cell of that name is something else");
    ret_record->leads = head[1] == '1';
    ret_record->value = from.at;
    ret_record->len = from.left;
    return HF_OK;
}

static hf_status put(struct hfi_change *change, const struct record *record, hf_error *inner)
{
    struct hfi_buffer *to = &change->bytes;

    if (!hfi_put_bytes(to, record->leads ? "E1" : "E0", 2) || !hfi_put_number(to, record->token) ||
        !hfi_put_text(to, record->label) || !hfi_put_bytes(to, record->value, record->len))
        return hfi_error_memory(inner);
    change->what = HFI_WRITE;
    return HF_OK;
}

/* ---- leading ------------------------------------------------------------------------------------------ */

struct leading {
    struct hfi_held held;
    struct record say;
};

static hf_status plan_say(struct hfi_change *change, void *arg, hf_error *inner)
{
    struct leading *leading = arg;
    struct record found;
    hf_status status = get(&change->found, &found, inner);

    if (status != HF_OK)
        return status;
    if (found.token > leading->held.token)
        return hfi_error_set(inner, HF_FENCED, 0, "a later leader, of token %" PRIu64 ", was there",
                             found.token);
    if (!hfi_held_valid(&leading->held)) /* after the reading: see held.h */
        return hfi_error_set(inner, HF_LOST, 0, "%s", hf_status_text(HF_LOST));
    return put(change, &leading->say, inner);
}

static hf_status say(hf_lease *leader, bool leads, const void *value, size_t len, hf_error *err)
{
    struct leading leading;
    hf_status status =
        hfi_held_enter(&leading.held, leader, leads ? "proclaim" : "resign", HF_CAP_CELLS, err);

    if (status != HF_OK)
        return status;
    leading.say =
        (struct record){ .leads = leads, .token = leading.held.token, .value = value, .len = len };
    memcpy(leading.say.label, leading.held.label, sizeof leading.say.label);
    status = hfi_cell_change(&leading.held.prim, plan_say, &leading, NULL, err);
    hfi_held_leave(&leading.held);
    return status == HF_OK ? hfi_ok(err) : status;
}

static hf_status check_value(const void *value, size_t len, hf_error *err)
{
    if (len > HF_ELECTION_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "len: more than %d bytes", HF_ELECTION_MAX);
    if (len > 0 && !value)
        return hfi_error_set(err, HF_INVALID, 0, "value: NULL");
    return HF_OK;
}

hf_status hf_election_set(hf_lease *leader, const void *value, size_t len, hf_error *err)
{
    hf_status status = check_value(value, len, err);

    return status == HF_OK ? say(leader, true, value, len, err) : status;
}

static hf_status check_campaign(hf_store *store, const hf_acquire_request *request, hf_error *err)
{
    hf_store_info info = { .size = sizeof info };
    hf_status status = hf_store_get(store, &info);

    if (status != HF_OK)
        return hfi_error_set(err, status, 0, "store: %s", hf_status_text(status));
    if (!(info.caps & HF_CAP_CELLS))
        return hfi_error_set(
            err, HF_UNSUPPORTED, 0,
            "campaign: engine %s has no cells, in which a leader could say that it leads",
            info.engine);
    if (!request || request->size < offsetof(hf_acquire_request, capacity))
        return hfi_error_set(err, HF_INVALID, 0, "request: NULL, or of no such size");
    if (request->kind != HF_KIND_MUTEX && request->kind != HF_KIND_EXCLUSIVE)
        return hfi_error_set(err, HF_INVALID, 0, "kind: one leads at a time");
    return HF_OK;
}

hf_status hf_election_campaign(hf_store *store, const hf_acquire_request *request,
                               const void *value, size_t len, hf_lease **ret_leader, hf_error *err)
{
    hf_lease *leader;
    hf_status status = check_campaign(store, request, err);

    if (status == HF_OK)
        status = check_value(value, len, err);
    if (status == HF_OK && !ret_leader)
        status = hfi_error_set(err, HF_INVALID, 0, "ret_leader: NULL");
    if (status == HF_OK)
        status = hf_acquire(store, request, &leader, err);
    if (status != HF_OK)
        return status;
    status = say(leader, true, value, len, err);
    if (status == HF_OK)
        *ret_leader = leader;
    else
        (void)hf_release(leader, NULL);
    return status;
}

hf_status hf_election_resign(hf_lease *leader, hf_error *err)
{
    hf_error unsaid;
    hf_status said = say(leader, false, NULL, 0, &unsaid);
    hf_status status = hf_release(leader, err);

    if (status != HF_OK || said == HF_OK)
        return status;
    if (err)
        *err = unsaid;
    return said;
}

/* ---- observing ---------------------------------------------------------------------------------------- */

struct observing {
    const hf_leader *last;
    hf_leader *seen;
};

/* A block of its own: the struct, the value with a NUL behind it, the label. */
static hf_leader *leader_new(const struct record *record, bool leads, uint64_t version)
{
    size_t len = leads ? record->len : 0;
    hf_leader *leader = hfi_malloc(sizeof *leader + len + 1 + sizeof record->label);
    char *text;

    if (!leader)
        return NULL;
    text = (char *)(leader + 1);
    *leader = (hf_leader){ .leads = leads, .version = version, .value = text, .value_len = len };
    leader->label = text + len + 1;
    if (leads)
        leader->token = record->token;
    if (len > 0)
        memcpy(text, record->value, len);
    text[len] = 0;
    memcpy(text + len + 1, leads ? record->label : "", leads ? sizeof record->label : 1);
    return leader;
}

static hf_status look(struct hfi_vigil *vigil, const struct hfi_cell *cell, void *arg,
                      hf_error *inner)
{
    struct observing *observing = arg;
    struct record record;
    bool leads = false;
    hf_status status = get(cell, &record, inner);

    if (status == HF_OK && record.leads)
        status = hfi_lives(vigil->prim, vigil->prim->name.bytes, vigil->prim->name.len,
                           record.token, &leads, inner);
    if (status != HF_OK)
        return status;
    vigil->living = leads;
    if (observing->last && observing->last->version == cell->version &&
        observing->last->leads == leads)
        return HF_TIMEOUT;
    observing->seen = leader_new(&record, leads, cell->version);
    return observing->seen ? HF_OK : hfi_error_memory(inner);
}

hf_status hf_election_wait(hf_store *store, const hf_election_request *given,
                           hf_leader **ret_leader, hf_error *err)
{
    hf_election_request request;
    struct observing observing = { .last = NULL };
    struct hfi_prim prim;
    struct hfi_vigil vigil = { .prim = &prim };
    hf_status status =
        hfi_request_copy(&request, sizeof request, given, offsetof(hf_election_request, last),
                         "HF_ELECTION_REQUEST_INIT", err);

    if (status != HF_OK)
        return status;
    observing.last = request.last;
    vigil.cancel = request.cancel;
    if (!ret_leader)
        return hfi_error_set(err, HF_INVALID, 0, "ret_leader: NULL");
    if (!hfi_until(request.wait_ms, &vigil.until_ms))
        return hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative");
    status =
        hfi_prim_enter(&prim, store, "observe", request.name, request.name_len, HF_CAP_CELLS, err);
    if (status != HF_OK)
        return status;
    status = hfi_vigil(&vigil, look, &observing, err);
    hfi_prim_leave(&prim);
    if (status != HF_OK)
        return status;
    *ret_leader = observing.seen;
    return hfi_ok(err);
}
