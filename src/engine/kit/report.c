/* SPDX-License-Identifier: MIT */
/* Findings of a doctor. The caller's thread. */
#include "engine/kit/report.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT_ROOM  1024 /* an error's text, or a list of nodes with the reason of each */
#define WHERE_ROOM 128

void hfi_report(const struct hfi_report *report, hf_check_level level, const char *topic,
                const char *format, ...)
{
    char text[TEXT_ROOM];
    int used = 0;
    va_list args;

    if (report->where)
        used = snprintf(text, WHERE_ROOM, "%.100s: ", report->where);
    va_start(args, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    report->finding(level, topic, text, report->arg);
}
