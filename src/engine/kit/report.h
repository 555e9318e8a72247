/* SPDX-License-Identifier: MIT */
/* Findings of a doctor: one line each, formatted here. */
#ifndef HFI_KIT_REPORT_H
#define HFI_KIT_REPORT_H

#include "engine/engine.h"

struct hfi_report {
    hfi_finding_fn *finding;
    void *arg;
    const char
        *where; /* NULL, or the server that the next findings are about: each begins with it */
};

__attribute__((format(printf, 4, 5))) void hfi_report(const struct hfi_report *report,
                                                      hf_check_level level, const char *topic,
                                                      const char *format, ...);

#endif
