/* SPDX-License-Identifier: MIT */
/* What hf_store_check() returns: findings are collected while the engine runs its checks, and packed into one block. */
#include "core/findings.h"

#include "engine/engine.h"
#include "util/alloc.h"
#include "util/text.h"

#include <string.h>

/* A finding whose texts are still offsets. */
struct raw {
    hf_check_level level;
    bool note;
    size_t topic, text;
};

struct hf_report {
    size_t count;
    hf_finding items[];
};

/* Keep a text with its NUL. false: out of memory. */
static bool keep(struct hfi_buffer *texts, const char *text, size_t *ret_offset)
{
    size_t len = strlen(text) + 1;
    char *to = hfi_buffer_reserve(texts, len);

    if (!to)
        return false;
    memcpy(to, text, len);
    hfi_disarm(to, false);
    *ret_offset = texts->len;
    texts->len += len;
    return true;
}

void hfi_findings_add(hf_check_level level, const char *topic, const char *text, void *arg)
{
    struct hfi_findings *findings = arg;
    struct raw raw = { .level = level == HFI_CHECK_NOTE ? HF_CHECK_LEVEL_OK : level,
                       .note = level == HFI_CHECK_NOTE };
    char *to = hfi_buffer_reserve(&findings->items, sizeof raw);

    if (!to || !keep(&findings->texts, topic, &raw.topic) ||
        !keep(&findings->texts, text, &raw.text)) {
        findings->failed = true;
        return;
    }
    memcpy(to, &raw, sizeof raw);
    findings->items.len += sizeof raw;
}

static hf_report *pack(const struct hfi_findings *findings)
{
    size_t count = findings->items.len / sizeof(struct raw);
    hf_report *report =
        hfi_malloc(sizeof *report + count * sizeof *report->items + findings->texts.len);
    char *texts;

    if (!report)
        return NULL;
    report->count = count;
    texts = (char *)(report->items + count);
    if (findings->texts.len > 0)
        memcpy(texts, findings->texts.bytes + findings->texts.start, findings->texts.len);
    for (size_t i = 0; i < count; i++) {
        struct raw raw;

        memcpy(&raw, findings->items.bytes + findings->items.start + i * sizeof raw, sizeof raw);
        report->items[i] = (hf_finding){ .level = raw.level,
                                         .topic = texts + raw.topic,
                                         .text = texts + raw.text,
                                         .note = raw.note };
    }
    return report;
}

hf_report *hfi_findings_report(struct hfi_findings *findings)
{
    hf_report *report = findings->failed ? NULL : pack(findings);

    hfi_buffer_done(&findings->items);
    hfi_buffer_done(&findings->texts);
    return report;
}

size_t hf_report_count(const hf_report *report)
{
    return report ? report->count : 0;
}

const hf_finding *hf_report_item(const hf_report *report, size_t index)
{
    return report && index < report->count ? &report->items[index] : NULL;
}
