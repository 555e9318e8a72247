/* SPDX-License-Identifier: MIT */
/* See position.h. Any thread: no state but the caller's. */
#include "engine/kit/position.h"

static bool same_kind(const struct hfi_demand *a, const struct hfi_demand *b)
{
    return a->mode == b->mode && a->capacity == b->capacity;
}

bool hfi_line_add(struct hfi_line *line, const struct hfi_demand *one)
{
    bool holds;

    if (line->count == 0)
        line->first = *one;
    holds = line->holders == line->count && same_kind(one, &line->first) &&
            line->taken + one->permits <= line->first.capacity;
    line->taken += one->permits;
    line->count++;
    line->holders += holds;
    return holds;
}

void hfi_position_begin(struct hfi_position *position, const struct hfi_demand *own)
{
    *position =
        (struct hfi_position){ .own = *own, .blocker = HFI_NO_BLOCKER, .before = HFI_NO_BLOCKER };
}

void hfi_position_ahead(struct hfi_position *position, const struct hfi_demand *one)
{
    const struct hfi_demand *own = &position->own;

    if (!same_kind(one, own) || (uint64_t)one->permits + own->permits > own->capacity) {
        position->before = position->blocker;
        position->blocker = position->ahead.count;
        position->blockers++;
    } else {
        position->beside += one->permits;
    }
    (void)hfi_line_add(&position->ahead, one);
}

enum hfi_verdict hfi_position_verdict(const struct hfi_position *position)
{
    struct hfi_line line = position->ahead;

    if (hfi_line_add(&line, &position->own))
        return HFI_VERDICT_HOLDS;
    return same_kind(&position->own, &line.first) ? HFI_VERDICT_WAITS : HFI_VERDICT_MISMATCH;
}

bool hfi_position_blocked_once(const struct hfi_position *position)
{
    return position->blockers == 1 &&
           position->beside + position->own.permits <= position->own.capacity;
}

bool hfi_position_is_next(const struct hfi_position *position)
{
    return position->ahead.holders == position->ahead.count;
}
