/* SPDX-License-Identifier: MIT */
/* What the library says, as Result.java and its neighbours read it: the order of the fields here is the order there. */
#include "binding.h"

/* What follows the fixed fields of a result. */
enum part {
    PART_NONE,
    PART_LEASES,
    PART_VERSIONS,
    PART_VIEW,
    PART_REPORT,
    PART_DEADLOCKS,
    PART_LEADER,
    PART_LIMIT,
    PART_MARK,
    PART_MEMBERS
};

static void write_holder(struct out *out, const hf_holder *holder)
{
    out_number(out, (int64_t)holder->token);
    out_number(out, holder->permits);
    out_number(out, holder->detached);
    out_number(out, holder->age_ms);
    out_number(out, holder->ttl_ms);
    out_number(out, holder->pid);
    out_number(out, holder->tid);
    out_text(out, holder->label);
    out_number(out, (int64_t)holder->session);
    out_number(out, holder->lingers);
    out_number(out, holder->idle);
    out_number(out, holder->watched);
    out_number(out, holder->slot_count);
    for (uint32_t i = 0; i < holder->slot_count && i < HF_SLOTS_MAX; i++)
        out_number(out, holder->slots[i]);
}

static void write_waiter(struct out *out, const hf_waiter *waiter)
{
    out_number(out, waiter->position);
    out_number(out, waiter->permits);
    out_number(out, waiter->kind);
    out_number(out, waiter->age_ms);
    out_number(out, waiter->pid);
    out_text(out, waiter->label);
    out_number(out, (int64_t)waiter->session);
}

static void write_entry(struct out *out, const hf_entry *entry)
{
    out_bytes(out, entry->name, entry->name_len);
    out_number(out, entry->kind);
    out_number(out, entry->capacity);
    out_number(out, entry->taken);
    out_number(out, entry->closed_ms);
    out_number(out, entry->resized);
    out_number(out, (int64_t)entry->holder_count);
    for (size_t i = 0; i < entry->holder_count; i++)
        write_holder(out, hf_entry_holder(entry, i));
    out_number(out, (int64_t)entry->waiter_count);
    for (size_t i = 0; i < entry->waiter_count; i++)
        write_waiter(out, hf_entry_waiter(entry, i));
}

static void write_view(struct out *out, const hf_view *view)
{
    size_t count = hf_view_count(view);

    out_number(out, hf_view_waiters_tracked(view));
    out_number(out, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        write_entry(out, hf_view_entry(view, i));
}

static void write_report(struct out *out, const hf_report *report)
{
    size_t count = hf_report_count(report);

    out_number(out, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        const hf_finding *finding = hf_report_item(report, i);

        out_number(out, finding->level);
        out_text(out, finding->topic);
        out_text(out, finding->text);
        out_number(out, finding->note ? 1 : 0);
    }
}

static void write_deadlocks(struct out *out, const hf_deadlocks *deadlocks)
{
    size_t count = hf_deadlock_count(deadlocks);

    out_number(out, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        const hf_deadlock *deadlock = hf_deadlock_item(deadlocks, i);

        out_number(out, (int64_t)deadlock->waiter_count);
        for (size_t j = 0; j < deadlock->waiter_count; j++) {
            const hf_deadlock_waiter *waiter = hf_deadlock_get_waiter(deadlock, j);

            out_bytes(out, waiter->name, waiter->name_len);
            out_number(out, (int64_t)waiter->token);
            out_number(out, (int64_t)waiter->session);
            out_number(out, waiter->age_ms);
            out_number(out, waiter->pid);
            out_text(out, waiter->label);
        }
    }
}

static void write_leader(struct out *out, const hf_leader *leader)
{
    out_number(out, leader->leads);
    out_number(out, (int64_t)leader->token);
    out_bytes(out, leader->value, leader->value_len);
    out_text(out, leader->label);
    out_number(out, (int64_t)leader->version);
}

static void write_limit(struct out *out, const hf_limit_result *limit)
{
    out_number(out, (int64_t)limit->left);
    out_number(out, limit->refill_ms);
    out_number(out, limit->waited_ms);
    out_number(out, limit->retry_ms);
    out_number(out, limit->at_us);
    out_number(out, limit->per_ms);
    out_number(out, limit->rate);
    out_number(out, limit->burst);
    out_number(out, limit->algorithm);
    out_number(out, limit->is_set);
}

static void write_mark(struct out *out, const hf_once_mark *mark)
{
    out_number(out, (int64_t)mark->token);
    out_number(out, mark->at_ms);
    out_number(out, mark->ttl_ms);
    out_text(out, mark->label);
}

/* Java keeps the list itself too, to wait for another one, and frees it. */
static void write_members(struct out *out, hf_members *members)
{
    size_t count = hf_members_count(members);

    out_number(out, (int64_t)(intptr_t)members);
    out_number(out, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        const hf_member *member = hf_members_item(members, i);

        out_number(out, (int64_t)member->token);
        out_text(out, member->value);
        out_number(out, member->age_ms);
        out_number(out, member->ttl_ms);
        out_number(out, member->pid);
    }
}

static void write_part(struct out *out, const hf_result *result)
{
    if (result->leases) {
        out_number(out, PART_LEASES);
        for (size_t i = 0; i < result->count; i++)
            out_number(out, (int64_t)(intptr_t)result->leases[i]);
    } else if (result->versions) {
        out_number(out, PART_VERSIONS);
        for (size_t i = 0; i < result->count; i++)
            out_number(out, (int64_t)result->versions[i]);
    } else if (result->view) {
        out_number(out, PART_VIEW);
        write_view(out, result->view);
    } else if (result->report) {
        out_number(out, PART_REPORT);
        write_report(out, result->report);
    } else if (result->deadlocks) {
        out_number(out, PART_DEADLOCKS);
        write_deadlocks(out, result->deadlocks);
    } else if (result->leader) {
        out_number(out, PART_LEADER);
        write_leader(out, result->leader);
    } else if (result->limit) {
        out_number(out, PART_LIMIT);
        write_limit(out, result->limit);
    } else if (result->mark) {
        out_number(out, PART_MARK);
        write_mark(out, result->mark);
    } else if (result->members) {
        out_number(out, PART_MEMBERS);
        write_members(out, result->members);
    } else {
        out_number(out, PART_NONE);
    }
}

void write_result(struct out *out, const hf_result *result)
{
    bool failed = result->status != HF_OK && result->error;

    out_number(out, result->status);
    out_number(out, failed ? result->error->native : 0);
    out_text(out, failed ? result->error->text : NULL);
    out_number(out, (int64_t)(intptr_t)result->lease);
    out_number(out, (int64_t)result->version);
    out_number(out, result->number);
    out_number(out, (int64_t)result->count);
    out_bytes(out, result->bytes, result->len);
    write_part(out, result);
}

static void on_given_back(const hf_result *result, void *arg)
{
    (void)result;
    (void)arg;
}

void give_back(const hf_result *result)
{
    if (result->lease && hf_release_async(result->lease, on_given_back, NULL, NULL, NULL) != HF_OK)
        (void)hf_release(result->lease, NULL);
    for (size_t i = 0; result->leases && i < result->count; i++)
        if (hf_release_async(result->leases[i], on_given_back, NULL, NULL, NULL) != HF_OK)
            (void)hf_release(result->leases[i], NULL);
    hf_free(result->members);
}

void free_result(const hf_result *result)
{
    hf_free(result->bytes);
    hf_free(result->view);
    hf_free(result->report);
    hf_free(result->deadlocks);
    hf_free(result->leader);
    hf_free(result->value);
}

static void write_lacks(struct out *out, const hf_engine_lack *lacks)
{
    int64_t count = 0;

    while (lacks && lacks[count].why)
        count++;
    out_number(out, count);
    for (int64_t i = 0; i < count; i++) {
        out_number(out, (int64_t)lacks[i].caps);
        out_text(out, lacks[i].why);
    }
}

void write_engine(struct out *out, const hf_engine_info *engine)
{
    out_text(out, engine->name);
    out_text(out, engine->schemes);
    out_number(out, engine->available);
    out_text(out, engine->why_not);
    out_number(out, (int64_t)engine->caps);
    out_number(out, engine->tokens);
    out_text(out, engine->choice);
    out_text(out, engine->on_crash);
    out_text(out, engine->on_pause);
    out_text(out, engine->on_clock_jump);
    out_text(out, engine->on_server_loss);
    out_text(out, engine->on_partition);
    out_text(out, engine->fairness);
    out_text(out, engine->wakeup);
    write_lacks(out, engine->available ? engine->lacks : NULL);
}

void write_store_info(struct out *out, const hf_store_info *info)
{
    out_text(out, info->engine);
    out_text(out, info->location);
    out_number(out, (int64_t)info->caps);
    out_number(out, info->tokens);
    out_number(out, info->default_ttl_ms);
    out_number(out, info->min_ttl_ms);
    out_number(out, info->max_ttl_ms);
    write_lacks(out, info->lacks);
    out_text(out, info->source);
}

void write_lease_info(struct out *out, const hf_lease_info *info)
{
    out_number(out, (int64_t)info->token);
    out_number(out, info->state);
    out_number(out, info->holds);
    out_number(out, info->remaining_ms);
    out_number(out, info->age_ms);
    out_number(out, info->ttl_ms);
    out_bytes(out, info->name, info->name_len);
    out_number(out, info->wanted);
    out_number(out, info->asks);
    out_number(out, info->kind);
    out_number(out, info->slot_count);
    for (uint32_t i = 0; i < info->slot_count && i < HF_SLOTS_MAX; i++)
        out_number(out, info->slots[i]);
}
