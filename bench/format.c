/* SPDX-License-Identifier: MIT */
/* Numbers as people read them. See out.h. */
#include "out.h"

#include <math.h>

/* Three digits that count. */
static int decimals(double value)
{
    value = fabs(value);
    return value >= 99.95 || value == 0 ? 0 : value >= 9.995 ? 1 : 2;
}

static void scaled(double value, const char *unit, char text[FORMAT_MAX])
{
    static const char *const prefixes[] = { "", "k", "M", "G" };
    int step = 0;

    while (value >= 999.5 && step < 3) {
        value /= 1000;
        step++;
    }
    snprintf(text, FORMAT_MAX, "%.*f %s%s", decimals(value), value, prefixes[step], unit);
}

const char *format_value(double value, enum unit unit, char text[FORMAT_MAX])
{
    if (isnan(value)) {
        snprintf(text, FORMAT_MAX, "-");
        return text;
    }
    switch (unit) {
    case UNIT_PER_SECOND:
        scaled(value, "/s", text);
        break;
    case UNIT_MICROSECONDS:
        if (value >= 999.5)
            snprintf(text, FORMAT_MAX, "%.2f ms", value / 1000);
        else
            snprintf(text, FORMAT_MAX, "%.*f µs", decimals(value), value);
        break;
    case UNIT_BYTES:
        snprintf(text, FORMAT_MAX, "%.0f B", value);
        break;
    case UNIT_PLAIN:
        snprintf(text, FORMAT_MAX, "%.4f", value);
        break;
    }
    return text;
}

const char *format_ratio(double ratio, char text[FORMAT_MAX])
{
    if (isnan(ratio))
        snprintf(text, FORMAT_MAX, "-");
    else
        snprintf(text, FORMAT_MAX, ratio >= 0.1 ? "%.2f" : "%.3f", ratio);
    return text;
}

const char *format_target(const struct row *row, char text[FORMAT_MAX])
{
    const struct target *target = &row->target;

    text[0] = 0;
    if (target->sense != NO_TARGET)
        snprintf(text, FORMAT_MAX, "%s %.2f%s", target->sense == AT_LEAST ? "≥" : "≤",
                 target->value, target->on_measured && row->unit == UNIT_PER_SECOND ? " /s" : "");
    return text;
}
