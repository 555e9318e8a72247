/* SPDX-License-Identifier: MIT */
/* Bodies of requests, by jansson. An unknown field is refused: it is a misspelt one, and a lease
 * without the ttl that its client believes in would be worse than none. */
#include "body.h"

#include "util/text.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* A reader of one object. The first thing that is wrong stays. */
struct reader {
    json_t *object;
    char *why;
    bool wrong;
};

__attribute__((format(printf, 2, 3))) static void refuse(struct reader *in, const char *format, ...)
{
    va_list list;

    if (in->wrong)
        return;
    va_start(list, format);
    vsnprintf(in->why, BODY_TEXT_MAX, format, list);
    va_end(list);
    in->wrong = true;
}

static bool begin(struct reader *in, const char *text, size_t len, const char *const *known)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_error_t error;
    const char *key;
    json_t *value;

    in->object = json_loadb(text, len, flags, &error);
    /* A number beyond 64 bits: no field takes one, but the field's own message is the better one. */
    if (!in->object && len > 0 && json_error_code(&error) == json_error_numeric_overflow)
        in->object = json_loadb(text, len, flags | JSON_DECODE_INT_AS_REAL, &error);
    if (!in->object && len > 0) {
        refuse(in, "the body is not a JSON object: line %d, column %d: %s", error.line,
               error.column, error.text);
        return false;
    }
    if (!json_is_object(in->object)) {
        refuse(in, "the body is not a JSON object");
        return false;
    }
    json_object_foreach(in->object, key, value)
    {
        size_t i = 0;

        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (!known[i]) {
            char shown[60];

            refuse(in, "%s: no such field", hfi_quote_name(key, strlen(key), shown, sizeof shown));
        }
    }
    return !in->wrong;
}

static const char *finish(struct reader *in)
{
    json_decref(in->object);
    return in->wrong ? in->why : NULL;
}

/* A number, or digits in a string, as this API writes 64-bit numbers. */
static uint64_t number(struct reader *in, const char *key, uint64_t min, uint64_t max,
                       uint64_t otherwise)
{
    json_t *value = json_object_get(in->object, key);
    uint64_t result = otherwise;
    bool fine = true;

    if (!value || json_is_null(value))
        return otherwise;
    if (json_is_integer(value)) {
        fine = json_integer_value(value) >= 0;
        result = (uint64_t)json_integer_value(value);
    } else {
        fine = json_is_string(value) &&
               strlen(json_string_value(value)) == json_string_length(value) &&
               !hfi_parse_u64(json_string_value(value), 0, UINT64_MAX, &result);
    }
    if (fine && result >= min && result <= max)
        return result;
    refuse(in, "%s: a whole number from %llu to %llu", key, (unsigned long long)min,
           (unsigned long long)max);
    return otherwise;
}

static void name_of(struct reader *in, struct bytes *ret_name)
{
    json_t *plain = json_object_get(in->object, "name");
    json_t *hex = json_object_get(in->object, "name_hex");
    struct bytes name = { .given = true };

    if (plain && hex)
        refuse(in, "name_hex: not together with name");
    else if (json_is_string(plain) && json_string_length(plain) >= 1 &&
             json_string_length(plain) <= HF_NAME_MAX) {
        name.len = json_string_length(plain);
        memcpy(name.at, json_string_value(plain), name.len);
    } else if (json_is_string(hex) && json_string_length(hex) >= 2 &&
               json_string_length(hex) <= (size_t)2 * HF_NAME_MAX &&
               json_string_length(hex) % 2 == 0 &&
               hfi_unhex(json_string_value(hex), json_string_length(hex), name.at,
                         json_string_length(hex) / 2))
        name.len = json_string_length(hex) / 2;
    else if (hex)
        refuse(in, "name_hex: 1 to 512 bytes, two hexadecimal digits each");
    else
        refuse(in, "name: a text of 1 to 512 bytes is needed");
    *ret_name = name;
}

static bool flag(struct reader *in, const char *key)
{
    json_t *value = json_object_get(in->object, key);

    if (value && !json_is_boolean(value))
        refuse(in, "%s: true or false", key);
    return json_is_true(value);
}

static hf_kind kind_of(struct reader *in)
{
    static const char *const words[] = { "mutex", "shared", "exclusive", "semaphore" };
    json_t *value = json_object_get(in->object, "kind");

    if (!value)
        return HF_KIND_MUTEX;
    for (int i = 0; i < 4; i++)
        if (json_is_string(value) && strcmp(json_string_value(value), words[i]) == 0)
            return (hf_kind)i;
    refuse(in, "kind: mutex, shared, exclusive or semaphore");
    return HF_KIND_MUTEX;
}

/* Cut as the library cuts labels, but between characters. */
static void label_of(struct reader *in, char *ret_label)
{
    json_t *value = json_object_get(in->object, "label");
    size_t len;

    ret_label[0] = 0;
    if (!value || json_is_null(value))
        return;
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value)) {
        refuse(in, "label: a text without NUL");
        return;
    }
    len = json_string_length(value);
    if (len > HF_LABEL_MAX) {
        len = HF_LABEL_MAX;
        while (len > 0 && ((unsigned char)json_string_value(value)[len] & 0xc0) == 0x80)
            len--;
    }
    memcpy(ret_label, json_string_value(value), len);
    ret_label[len] = 0;
}

const char *body_lease(const char *text, size_t len, struct lease_body *ret_body,
                       char why[BODY_TEXT_MAX])
{
    static const char *const known[] = { "name",     "name_hex", "kind",
                                         "capacity", "permits",  "ttl_ms",
                                         "wait_ms",  "label",    "with_connection",
                                         NULL };
    struct reader in = { .why = why };
    struct lease_body body = { 0 };

    if (begin(&in, text, len, known)) {
        name_of(&in, &body.name);
        body.kind = kind_of(&in);
        body.capacity = (uint32_t)number(&in, "capacity", 1, HF_CAPACITY_MAX, 0);
        body.permits = (uint32_t)number(&in, "permits", 1, HF_CAPACITY_MAX, 0);
        if (body.kind == HF_KIND_SEMAPHORE && body.capacity == 0)
            refuse(&in, "capacity: a semaphore needs one");
        if (body.kind != HF_KIND_SEMAPHORE && (body.capacity > 0 || body.permits > 0))
            refuse(&in, "%s: for a semaphore only", body.capacity > 0 ? "capacity" : "permits");
        body.ttl_ms = (int64_t)number(&in, "ttl_ms", HF_TTL_MIN_MS, TTL_MAX_MS, TTL_DEFAULT_MS);
        body.wait_ms = (int64_t)number(&in, "wait_ms", 0, WAIT_MAX_MS, 0);
        label_of(&in, body.label);
        body.with_connection = flag(&in, "with_connection");
    }
    if (!in.wrong)
        *ret_body = body;
    return finish(&in);
}

bool body_same(const struct lease_body *a, const struct lease_body *b)
{
    return a->name.len == b->name.len && memcmp(a->name.at, b->name.at, a->name.len) == 0 &&
           a->kind == b->kind && a->capacity == b->capacity && a->permits == b->permits &&
           a->ttl_ms == b->ttl_ms && a->wait_ms == b->wait_ms && strcmp(a->label, b->label) == 0 &&
           a->with_connection == b->with_connection;
}

const char *body_break(const char *text, size_t len, struct break_body *ret_body,
                       char why[BODY_TEXT_MAX])
{
    static const char *const known[] = { "token", "name", "name_hex", NULL };
    struct reader in = { .why = why };
    struct break_body body = { 0 };

    if (begin(&in, text, len, known)) {
        name_of(&in, &body.name);
        body.token = number(&in, "token", 1, UINT64_MAX, 0);
        if (body.token == 0)
            refuse(&in, "token: the token of the lease is needed");
    }
    if (!in.wrong)
        *ret_body = body;
    return finish(&in);
}

const char *body_renew(const char *text, size_t len, int64_t *ret_ttl_ms, char why[BODY_TEXT_MAX])
{
    static const char *const known[] = { "ttl_ms", NULL };
    struct reader in = { .why = why };
    int64_t ttl_ms = 0;

    if (len > 0 && begin(&in, text, len, known))
        ttl_ms = (int64_t)number(&in, "ttl_ms", HF_TTL_MIN_MS, TTL_MAX_MS, 0);
    if (!in.wrong)
        *ret_ttl_ms = ttl_ms;
    return finish(&in);
}
