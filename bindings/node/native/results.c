/* SPDX-License-Identifier: MIT */
/* What a call has found, as values for lib/. */
#include "internal.h"

static napi_value nothing(napi_env env)
{
    napi_value value = NULL;

    napi_get_undefined(env, &value);
    return value;
}

static napi_value new_object(napi_env env)
{
    napi_value value = NULL;

    napi_create_object(env, &value);
    return value;
}

static napi_value new_list(napi_env env, size_t count)
{
    napi_value value = NULL;

    napi_create_array_with_length(env, count, &value);
    return value;
}

static void put_number(napi_env env, napi_value object, const char *name, int64_t number)
{
    put(env, object, name, make_number(env, (double)number));
}

static void put_bool(napi_env env, napi_value object, const char *name, bool is)
{
    put(env, object, name, make_bool(env, is));
}

/* ---- leases -------------------------------------------------------------------------------- */

/* The slot becomes the lease's, unless it is a lease that we have already (reentrant). */
static struct slot *settle_lease(struct slot *slot, hf_lease *lease)
{
    struct slot *held = slot->reentrant ? slot_of_lease(slot->store, lease) : NULL;

    if (held) {
        held->holds++;
        return held;
    }
    slot->use = USE_LEASE;
    slot->lease = lease;
    slot->holds = 1;
    return slot;
}

/* Of a yield or a conversion the lease keeps its slot. */
static napi_value one_lease(napi_env env, struct slot *slot, hf_lease *lease)
{
    struct slot *settled = slot->replaces ? slot->target : settle_lease(slot, lease);

    slot->store->out[0] = (double)hf_lease_token(lease);
    slot->store->out[1] = settled->index;
    return nothing(env);
}

static napi_value all_leases(napi_env env, struct slot *slot, const hf_result *result)
{
    napi_value list = new_list(env, result->count * 2), item;

    for (size_t i = 0; i < slot->part_count && i < result->count; i++) {
        struct slot *settled = settle_lease(slot->parts[i], result->leases[i]);

        if (settled != slot->parts[i])
            slot_free(slot->parts[i]);
        item = make_int(env, settled->index);
        napi_set_element(env, list, (uint32_t)(2 * i), item);
        item = make_number(env, (double)hf_lease_token(result->leases[i]));
        napi_set_element(env, list, (uint32_t)(2 * i + 1), item);
    }
    return list;
}

static void free_parts(struct slot *slot, const struct slot *but)
{
    for (size_t i = 0; i < slot->part_count; i++) {
        if (slot->parts[i] == but)
            continue;
        if (slot->parts[i]->early)
            deliver_event(slot->parts[i], 0, NULL); /* lib/ forgets what it keeps for this index */
        slot_free(slot->parts[i]);
    }
}

static napi_value any_lease(napi_env env, struct slot *slot, const hf_result *result)
{
    struct slot *part = slot->parts[result->number];
    struct slot *settled = settle_lease(part, result->lease);

    free_parts(slot, settled);
    slot->store->out[0] = (double)hf_lease_token(result->lease);
    slot->store->out[1] = settled->index;
    return make_int(env, result->number);
}

/* ---- views --------------------------------------------------------------------------------- */

static napi_value make_slots(napi_env env, const uint32_t *slots, uint32_t count)
{
    napi_value list = new_list(env, count);

    for (uint32_t i = 0; i < count && i < HF_SLOTS_MAX; i++)
        napi_set_element(env, list, i, make_int(env, slots[i]));
    return list;
}

static napi_value make_holder(napi_env env, const hf_holder *holder)
{
    napi_value object = new_object(env);

    put_number(env, object, "token", (int64_t)holder->token);
    put_number(env, object, "first", (int64_t)holder->first);
    put_number(env, object, "permits", holder->permits);
    put_bool(env, object, "detached", holder->detached);
    put_number(env, object, "age", holder->age_ms);
    put_number(env, object, "ttl", holder->ttl_ms);
    put_number(env, object, "pid", holder->pid);
    put_number(env, object, "tid", holder->tid);
    put(env, object, "label", make_text(env, holder->label ? holder->label : ""));
    put(env, object, "session", make_big(env, holder->session));
    put_bool(env, object, "lingers", holder->lingers);
    put_bool(env, object, "idle", holder->idle);
    put_bool(env, object, "watched", holder->watched);
    put(env, object, "slots", make_slots(env, holder->slots, holder->slot_count));
    return object;
}

static napi_value make_waiter(napi_env env, const hf_waiter *waiter)
{
    napi_value object = new_object(env);

    put_number(env, object, "position", waiter->position);
    put_number(env, object, "permits", waiter->permits);
    put_number(env, object, "kind", waiter->kind);
    put_number(env, object, "age", waiter->age_ms);
    put_number(env, object, "pid", waiter->pid);
    put(env, object, "label", make_text(env, waiter->label ? waiter->label : ""));
    put(env, object, "session", make_big(env, waiter->session));
    return object;
}

static napi_value make_entry(napi_env env, const hf_entry *entry)
{
    napi_value object = new_object(env);
    napi_value holders = new_list(env, entry->holder_count);
    napi_value waiters = new_list(env, entry->waiter_count);

    for (size_t i = 0; i < entry->holder_count; i++)
        napi_set_element(env, holders, (uint32_t)i, make_holder(env, hf_entry_holder(entry, i)));
    for (size_t i = 0; i < entry->waiter_count; i++)
        napi_set_element(env, waiters, (uint32_t)i, make_waiter(env, hf_entry_waiter(entry, i)));
    put(env, object, "nameBytes", make_bytes(env, entry->name, entry->name_len));
    put_number(env, object, "kind", entry->kind);
    put_number(env, object, "capacity", entry->capacity);
    put_number(env, object, "taken", entry->taken);
    put_number(env, object, "closed", entry->closed_ms);
    put_bool(env, object, "resized", entry->resized);
    put(env, object, "holders", holders);
    put(env, object, "waiters", waiters);
    return object;
}

/* Large views have thousands of values: each entry has a scope of its own. */
static napi_value make_view(napi_env env, const hf_view *view)
{
    napi_value object = new_object(env), entries = new_list(env, hf_view_count(view));
    napi_handle_scope scope;

    for (size_t i = 0; i < hf_view_count(view); i++) {
        if (napi_open_handle_scope(env, &scope) != napi_ok)
            break;
        napi_set_element(env, entries, (uint32_t)i, make_entry(env, hf_view_entry(view, i)));
        napi_close_handle_scope(env, scope);
    }
    put(env, object, "entries", entries);
    put_bool(env, object, "waitersTracked", hf_view_waiters_tracked(view));
    return object;
}

static napi_value make_report(napi_env env, const hf_report *report)
{
    napi_value list = new_list(env, hf_report_count(report)), object;

    for (size_t i = 0; i < hf_report_count(report); i++) {
        const hf_finding *finding = hf_report_item(report, i);

        object = new_object(env);
        put_number(env, object, "level", finding->level);
        put(env, object, "topic", make_text(env, finding->topic));
        put(env, object, "text", make_text(env, finding->text));
        put_bool(env, object, "note", finding->note);
        napi_set_element(env, list, (uint32_t)i, object);
    }
    return list;
}

static napi_value make_cycle(napi_env env, const hf_deadlock *deadlock)
{
    napi_value list = new_list(env, deadlock->waiter_count), object;

    for (size_t i = 0; i < deadlock->waiter_count; i++) {
        const hf_deadlock_waiter *waiter = hf_deadlock_get_waiter(deadlock, i);

        object = new_object(env);
        put(env, object, "nameBytes", make_bytes(env, waiter->name, waiter->name_len));
        put_number(env, object, "token", (int64_t)waiter->token);
        put(env, object, "session", make_big(env, waiter->session));
        put_number(env, object, "age", waiter->age_ms);
        put_number(env, object, "pid", waiter->pid);
        put(env, object, "label", make_text(env, waiter->label ? waiter->label : ""));
        napi_set_element(env, list, (uint32_t)i, object);
    }
    return list;
}

static napi_value make_deadlocks(napi_env env, const hf_deadlocks *deadlocks)
{
    napi_value list = new_list(env, hf_deadlock_count(deadlocks));

    for (size_t i = 0; i < hf_deadlock_count(deadlocks); i++)
        napi_set_element(env, list, (uint32_t)i, make_cycle(env, hf_deadlock_item(deadlocks, i)));
    return list;
}

/* ---- primitives ------------------------------------------------------------------------------ */

static napi_value make_cell(napi_env env, const hf_result *result)
{
    napi_value object = new_object(env);

    put(env, object, "bytes", make_bytes(env, result->bytes, result->len));
    put(env, object, "version", make_big(env, result->version));
    put_number(env, object, "ttl", result->number);
    return object;
}

/* HF_OK: the versions. HF_CHANGED: which item, and its version. */
static napi_value make_versions(napi_env env, const hf_result *result)
{
    napi_value list = new_list(env, result->count);

    if (result->status != HF_OK) {
        list = new_list(env, 2);
        napi_set_element(env, list, 0, make_number(env, (double)result->number));
        napi_set_element(env, list, 1, make_big(env, result->version));
        return list;
    }
    for (size_t i = 0; i < result->count; i++)
        napi_set_element(env, list, (uint32_t)i, make_big(env, result->versions[i]));
    return list;
}

static napi_value make_signed(napi_env env, int64_t number)
{
    napi_value value = NULL;

    napi_create_bigint_int64(env, number, &value);
    return value;
}

static napi_value make_limit(napi_env env, const hf_limit_result *limit)
{
    napi_value object = new_object(env);

    put_number(env, object, "left", (int64_t)limit->left);
    put_number(env, object, "refill", limit->refill_ms);
    put_number(env, object, "waited", limit->waited_ms);
    put_number(env, object, "retry", limit->retry_ms);
    put_number(env, object, "at", limit->at_us);
    put_number(env, object, "per", limit->per_ms);
    put_number(env, object, "rate", limit->rate);
    put_number(env, object, "burst", limit->burst);
    put_number(env, object, "algorithm", limit->algorithm);
    put_bool(env, object, "isSet", limit->is_set);
    return object;
}

napi_value make_mark(napi_env env, const hf_once_mark *mark)
{
    napi_value object = new_object(env);

    put_number(env, object, "token", (int64_t)mark->token);
    put_number(env, object, "at", mark->at_ms);
    put_number(env, object, "ttl", mark->ttl_ms);
    put(env, object, "label", make_text(env, mark->label));
    return object;
}

/* It belongs to JavaScript from then on: the next wait needs it. */
static napi_value make_leader(napi_env env, hf_leader *leader)
{
    napi_value object = new_object(env);

    put_bool(env, object, "leads", leader->leads);
    put_number(env, object, "token", (int64_t)leader->token);
    put(env, object, "value", make_bytes(env, leader->value, leader->value_len));
    put(env, object, "label", make_text(env, leader->label ? leader->label : ""));
    put(env, object, "version", make_big(env, leader->version));
    put(env, object, "last", make_seen(env, leader, SEEN_LEADER));
    return object;
}

static napi_value make_members(napi_env env, hf_members *members)
{
    napi_value object = new_object(env), list = new_list(env, hf_members_count(members)), item;

    for (size_t i = 0; i < hf_members_count(members); i++) {
        const hf_member *member = hf_members_item(members, i);

        item = new_object(env);
        put_number(env, item, "token", (int64_t)member->token);
        put(env, item, "value", make_text(env, member->value ? member->value : ""));
        put_number(env, item, "age", member->age_ms);
        put_number(env, item, "ttl", member->ttl_ms);
        put_number(env, item, "pid", member->pid);
        napi_set_element(env, list, (uint32_t)i, item);
    }
    put(env, object, "members", list);
    put(env, object, "last", make_seen(env, members, SEEN_MEMBERS));
    return object;
}

/* ---- all of them ------------------------------------------------------------------------------- */

static napi_value lease_value(napi_env env, struct slot *slot, const hf_result *result)
{
    if (!result->lease && !result->leases) {
        free_parts(slot, NULL);
        return result->mark ? make_mark(env, result->mark) : nothing(env);
    }
    if (slot->result == RESULT_LEASES)
        return all_leases(env, slot, result);
    return slot->result == RESULT_ANY ? any_lease(env, slot, result)
                                      : one_lease(env, slot, result->lease);
}

static napi_value memory_value(napi_env env, struct slot *slot, const hf_result *result)
{
    napi_value value = nothing(env);

    if (slot->result == RESULT_VIEW && result->view)
        value = make_view(env, result->view);
    else if (slot->result == RESULT_REPORT && result->report)
        value = make_report(env, result->report);
    else if (slot->result == RESULT_DEADLOCKS && result->deadlocks)
        value = make_deadlocks(env, result->deadlocks);
    hf_free(result->view);
    hf_free(result->report);
    hf_free(result->deadlocks);
    return value;
}

static napi_value bytes_value(napi_env env, struct slot *slot, const hf_result *result)
{
    napi_value value = nothing(env);

    if (result->status == HF_OK && slot->result == RESULT_CELL)
        value = make_cell(env, result);
    else if (result->status == HF_OK && result->bytes)
        value = make_bytes(env, result->bytes, result->len);
    hf_free(result->bytes);
    return value;
}

static napi_value counts_value(napi_env env, const hf_result *result)
{
    napi_value object = new_object(env);

    put_number(env, object, "count", (int64_t)result->count);
    put_number(env, object, "left", result->number);
    return object;
}

napi_value result_value(napi_env env, struct slot *slot, const hf_result *result)
{
    switch (slot->result) {
    case RESULT_LEASE:
    case RESULT_LEASES:
    case RESULT_ANY:
        return lease_value(env, slot, result);
    case RESULT_CELL:
    case RESULT_BYTES:
        return bytes_value(env, slot, result);
    case RESULT_VIEW:
    case RESULT_REPORT:
    case RESULT_DEADLOCKS:
        return memory_value(env, slot, result);
    case RESULT_VERSION:
        return make_big(env, result->version);
    case RESULT_VERSIONS:
        return make_versions(env, result);
    case RESULT_NUMBER:
        return make_signed(env, result->number);
    case RESULT_COUNTS:
        return counts_value(env, result);
    case RESULT_LIMIT:
        return result->limit ? make_limit(env, result->limit) : nothing(env);
    case RESULT_MARK:
        return result->mark ? make_mark(env, result->mark) : nothing(env);
    case RESULT_LEADER:
        return result->leader ? make_leader(env, result->leader) : nothing(env);
    case RESULT_MEMBERS:
        return result->members ? make_members(env, result->members) : nothing(env);
    case RESULT_NOTHING:
        break;
    }
    return nothing(env);
}

void result_free(const hf_result *result)
{
    hf_free(result->bytes);
    hf_free(result->view);
    hf_free(result->report);
    hf_free(result->deadlocks);
    hf_free(result->leader);
    hf_free(result->members);
}
