/* SPDX-License-Identifier: MIT */
/* Collects the findings of an engine into an hf_report. */
#ifndef HFI_FINDINGS_H
#define HFI_FINDINGS_H

#include "util/buffer.h"

#include "holdfast/holdfast.h"

struct hfi_findings {
    struct hfi_buffer items, texts;
    bool failed; /* out of memory: later findings are missing */
};

/* An hfi_finding_fn: `arg` is the struct hfi_findings. Control characters are removed: texts of a
 * server may go to a terminal or a log. */
void hfi_findings_add(hf_check_level level, const char *topic, const char *text, void *arg);
/* All of them as one block, from hfi_malloc(); `findings` is empty then. NULL: out of memory, then or before. */
hf_report *hfi_findings_report(struct hfi_findings *findings);

#endif
