/* SPDX-License-Identifier: MIT */
/* The JSON forms, built with jansson. A form changes only by new keys. */
#include "json.h"

#include "util/json.h"
#include "util/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

json_t *json_u64(uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value);
    return json_string(text);
}

json_t *json_i64(int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, value);
    return json_string(text);
}

json_t *json_text(const void *bytes, size_t len)
{
    json_t *text = json_stringn(bytes, len); /* NULL: not UTF-8 */
    char quoted[HFI_QUOTED_MAX];

    return text ? text : json_string(hfi_quote_name(bytes, len, quoted, sizeof quoted));
}

void json_set_name(json_t *object, const void *name, size_t len)
{
    json_t *plain = json_stringn(name, len);
    char hex[2 * HF_NAME_MAX + 1];

    json_object_set_new(object, "name", plain ? plain : json_text(name, len));
    if (plain || len > HF_NAME_MAX)
        return;
    hfi_hex(name, len, hex);
    json_object_set_new(object, "name_hex", json_string(hex));
}

const char *kind_word(hf_kind kind)
{
    switch (kind) {
    case HF_KIND_MUTEX:
        return "mutex";
    case HF_KIND_SHARED:
    case HF_KIND_EXCLUSIVE:
    case HF_KIND_UPGRADEABLE:
        return "rwlock";
    case HF_KIND_SEMAPHORE:
        return "semaphore";
    }
    return "unknown";
}

json_t *json_pid(int64_t pid)
{
    return pid > 0 ? json_integer(pid) : json_null();
}

static json_t *json_label(const char *label)
{
    return label ? json_text(label, strlen(label)) : json_null();
}

json_t *json_slots(const uint32_t *slots, uint32_t count)
{
    json_t *array;

    if (count == 0)
        return json_null();
    array = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(array, json_integer(slots[i]));
    return array;
}

json_t *json_holder(const hf_holder *holder)
{
    json_t *object = json_object();

    json_object_set_new(object, "token", json_u64(holder->token));
    json_object_set_new(object, "first_token", json_u64(holder->first));
    json_object_set_new(object, "permits", json_integer(holder->permits));
    json_object_set_new(object, "slots", json_slots(holder->slots, holder->slot_count));
    json_object_set_new(object, "detached", json_boolean(holder->detached));
    json_object_set_new(object, "age_ms", json_i64(holder->age_ms));
    json_object_set_new(object, "ttl_ms",
                        holder->ttl_ms < 0 ? json_null() : json_i64(holder->ttl_ms));
    json_object_set_new(object, "pid", json_pid(holder->pid));
    json_object_set_new(object, "tid", json_pid(holder->tid));
    json_object_set_new(object, "label", json_label(holder->label));
    json_object_set_new(object, "lingers", json_boolean(holder->lingers));
    json_object_set_new(object, "idle", json_boolean(holder->idle));
    json_object_set_new(object, "watched", json_boolean(holder->watched));
    return object;
}

static json_t *json_waiter(const hf_waiter *waiter)
{
    static const char *const modes[] = { "mutex", "shared", "exclusive", "semaphore",
                                         "upgradeable" };
    json_t *object = json_object();

    json_object_set_new(object, "position", json_integer(waiter->position));
    json_object_set_new(object, "wants",
                        json_string((unsigned)waiter->kind < 5 ? modes[waiter->kind] : "unknown"));
    json_object_set_new(object, "permits", json_integer(waiter->permits));
    json_object_set_new(object, "age_ms", json_i64(waiter->age_ms));
    json_object_set_new(object, "pid", json_pid(waiter->pid));
    json_object_set_new(object, "label", json_label(waiter->label));
    return object;
}

json_t *json_entry(const hf_entry *entry, bool waiters_tracked)
{
    json_t *object = json_object();
    json_t *holders = json_array();
    json_t *waiters = json_array();

    for (size_t i = 0; i < entry->holder_count; i++)
        json_array_append_new(holders, json_holder(hf_entry_holder(entry, i)));
    for (size_t i = 0; i < entry->waiter_count; i++)
        json_array_append_new(waiters, json_waiter(hf_entry_waiter(entry, i)));
    if (!waiters_tracked) {
        json_decref(waiters);
        waiters = json_null();
    }

    json_set_name(object, entry->name, entry->name_len);
    json_object_set_new(object, "kind", json_string(kind_word(entry->kind)));
    json_object_set_new(object, "capacity", json_integer(entry->capacity));
    json_object_set_new(object, "resized", json_boolean(entry->resized));
    json_object_set_new(object, "taken", json_integer(entry->taken));
    json_object_set_new(object, "closed_ms", json_i64(entry->closed_ms));
    json_object_set_new(object, "holders", holders);
    json_object_set_new(object, "waiters", waiters);
    return object;
}

void json_print(json_t *json, bool indent)
{
    char *text = hfi_json_escape(json_dumps(json, (indent ? JSON_INDENT(2) : JSON_COMPACT)));

    if (text && puts(text) == EOF)
        out_failed(errno); /* out_finish() asks */
    else if (!text)
        must_alloc(SIZE_MAX); /* says so, and ends */
    free(text);
    json_decref(json);
}

void json_set_time(json_t *object)
{
    char text[32], whole[48];
    struct timespec now;
    struct tm parts;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(whole, sizeof whole, "%s.%03ldZ", text, now.tv_nsec / 1000000);
    json_object_set_new(object, "time", json_string(whole));
}
