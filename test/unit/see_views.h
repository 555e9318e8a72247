/* SPDX-License-Identifier: MIT */
/* Views as a test wants them, for the model of see/. */
#ifndef SEE_VIEWS_H
#define SEE_VIEWS_H

#include "unit.h"

#include "core/view.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW INT64_C(1794990000000)

struct views {
    hf_view view;
    size_t room;
};

static inline void views_clear(struct views *views)
{
    for (size_t i = 0; i < views->view.count; i++) {
        free((void *)(uintptr_t)views->view.entries[i].entry.name);
        free(views->view.entries[i].holders);
        free(views->view.entries[i].waiters);
    }
    free(views->view.entries);
    *views = (struct views){ .view = { .waiters_tracked = true } };
}

/* Names must be added in order. */
static inline struct hfi_entry *views_bytes(struct views *views, const void *name, size_t len)
{
    struct hfi_entry *entry;
    unsigned char *copy = malloc(len + 1);

    assert_non_null(copy);
    memcpy(copy, name, len);
    if (views->view.count == views->room) {
        views->room = 2 * views->room + 16;
        views->view.entries = realloc(views->view.entries, views->room * sizeof *entry);
        assert_non_null(views->view.entries);
    }
    entry = &views->view.entries[views->view.count++];
    *entry = (struct hfi_entry){ .entry = { .name = copy, .name_len = len, .capacity = 1 } };
    return entry;
}

static inline struct hfi_entry *views_name(struct views *views, const char *name)
{
    return views_bytes(views, name, strlen(name));
}

static inline hf_holder *views_hold(struct hfi_entry *entry, uint64_t token, const char *label,
                                    int64_t age_ms, int64_t ttl_ms)
{
    size_t count = entry->entry.holder_count++;

    entry->holders = realloc(entry->holders, (count + 1) * sizeof *entry->holders);
    assert_non_null(entry->holders);
    entry->holders[count] = (hf_holder){ .token = token,
                                         .first = token,
                                         .permits = 1,
                                         .age_ms = age_ms,
                                         .ttl_ms = ttl_ms,
                                         .pid = 100,
                                         .label = label,
                                         .session = token };
    entry->entry.taken++;
    return &entry->holders[count];
}

static inline hf_waiter *views_wait(struct hfi_entry *entry, uint64_t session, const char *label,
                                    int64_t age_ms)
{
    size_t count = entry->entry.waiter_count++;

    entry->waiters = realloc(entry->waiters, (count + 1) * sizeof *entry->waiters);
    assert_non_null(entry->waiters);
    entry->waiters[count] = (hf_waiter){ .position = (uint32_t)count + 1,
                                         .permits = 1,
                                         .age_ms = age_ms,
                                         .pid = 100,
                                         .label = label,
                                         .session = session };
    return &entry->waiters[count];
}

static inline struct see_row *views_row(const struct see_model *model, const char *name)
{
    return see_model_find(model, name, strlen(name));
}

#endif
