/* SPDX-License-Identifier: MIT */
/* The JSON form; bench/README.md documents it. It changes only by new keys. */
#include "out.h"

#include "holdfast/holdfast.h"

#include <jansson.h>
#include <math.h>

static const char *unit_word(enum unit unit)
{
    static const char *const words[] = { "per_second", "microseconds", "bytes", "plain" };

    return words[unit];
}

/* JSON has no NAN: null. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *target_json(const struct target *target)
{
    json_t *object;

    if (target->sense == NO_TARGET)
        return json_null();
    object = json_object();
    json_object_set_new(object, "of", json_string(target->on_measured ? "measured" : "ratio"));
    json_object_set_new(object, target->sense == AT_LEAST ? "at_least" : "at_most",
                        json_real(target->value));
    if (target->aim > 0)
        json_object_set_new(object, "aim", json_real(target->aim));
    return object;
}

static json_t *row_json(const struct row *row)
{
    int met = row_met(row);
    json_t *object = json_object();

    json_object_set_new(object, "what", json_string(row->what));
    json_object_set_new(object, "unit", json_string(unit_word(row->unit)));
    json_object_set_new(object, "measured", number(row->measured));
    json_object_set_new(object, "against",
                        row->against[0] ? json_string(row->against) : json_null());
    json_object_set_new(object, "baseline", number(row->baseline));
    json_object_set_new(object, "ratio", number(row->ratio));
    json_object_set_new(object, "ratio_low", number(row->low));
    json_object_set_new(object, "ratio_high", number(row->high));
    json_object_set_new(object, "rounds", json_integer(row->rounds));
    json_object_set_new(object, "target", target_json(&row->target));
    json_object_set_new(object, "met", met < 0 ? json_null() : json_boolean(met));
    if (row->axis) {
        json_object_set_new(object, "axis", json_string(row->axis));
        json_object_set_new(object, "at", number(row->at));
    }
    return object;
}

static json_t *report_json(const struct measure *measure, const struct report *report)
{
    json_t *object = json_object(), *rows = json_array();

    for (size_t i = 0; i < report->count; i++)
        json_array_append_new(rows, row_json(&report->rows[i]));
    json_object_set_new(object, "name", json_string(measure->name));
    json_object_set_new(object, "group", json_string(measure->group));
    json_object_set_new(object, "about", json_string(measure->about));
    json_object_set_new(object, "seconds", number(report->seconds));
    json_object_set_new(object, "error", report->failed ? json_string(report->error) : json_null());
    json_object_set_new(object, "skipped",
                        report->skipped[0] ? json_string(report->skipped) : json_null());
    json_object_set_new(object, "rows", rows);
    return object;
}

void out_json(const struct run *run, FILE *file)
{
    json_t *object = json_object(), *list = json_array();

    for (size_t i = 0; i < run->count; i++)
        json_array_append_new(list, report_json(run->measures[i], run->reports[i]));
    json_object_set_new(object, "version", json_string(hf_version()));
    json_object_set_new(object, "cpu", json_string(run->cpu));
    json_object_set_new(object, "kernel", json_string(run->kernel));
    json_object_set_new(object, "file_system", json_string(run->place->type));
    json_object_set_new(object, "quick", json_boolean(run->quick));
    json_object_set_new(object, "seconds", number(run->seconds));
    json_object_set_new(object, "measurements", list);
    json_dumpf(object, file, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    fputc('\n', file);
    json_decref(object);
}
