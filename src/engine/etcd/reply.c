/* SPDX-License-Identifier: MIT */
/* Answers, taken apart; and the parts of which requests are made. With the lock, or none needed. */
#include "engine/etcd/ec.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

int64_t hfi_ec_seconds_ms(const json_t *object, const char *key)
{
    int64_t seconds = hfi_ec_number(object, key);

    return hfi_told_ms(seconds > HF_MS_MAX / 1000 ? HF_MS_MAX : seconds < 0 ? 0 : seconds * 1000);
}

int64_t hfi_ec_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (json_is_integer(value))
        return json_integer_value(value);
    return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10) : 0;
}

int64_t hfi_ec_revision(const json_t *reply)
{
    return hfi_ec_number(json_object_get(reply, "header"), "revision");
}

int64_t hfi_ec_term(const json_t *reply)
{
    return hfi_ec_number(json_object_get(reply, "header"), "raft_term");
}

json_t *hfi_ec_response(const json_t *reply, size_t index, const char *kind)
{
    return json_object_get(json_array_get(json_object_get(reply, "responses"), index), kind);
}

bool hfi_ec_kv(const struct hfi_conn *conn, const json_t *kv, struct ec_record *ret_record)
{
    const json_t *key = json_object_get(kv, "key"), *value = json_object_get(kv, "value");
    char bytes[EC_KEY_MAX], text[HF_LABEL_MAX + 160];
    size_t len;

    if (!json_is_string(key) || !json_is_string(value))
        return false;
    len = hfi_ec_unbase64(json_string_value(key), json_string_length(key), bytes, sizeof bytes);
    if (len == SIZE_MAX || !hfi_ec_read_key(conn->conf->prefix, bytes, len, ret_record))
        return false;
    len = hfi_ec_unbase64(json_string_value(value), json_string_length(value), text, sizeof text);
    if (len == SIZE_MAX || !hfi_ec_read_value(text, len, ret_record))
        return false;
    ret_record->revision = (uint64_t)hfi_ec_number(kv, "create_revision");
    ret_record->lease = hfi_ec_number(kv, "lease");
    return ret_record->revision > 0 && ret_record->permits <= ret_record->capacity;
}

void hfi_ec_finish_odd(struct hfi_conn *conn, struct hfi_op *op)
{
    hf_error err;

    hfi_error_set(&err, HF_CORRUPT, 0, "an answer that etcd does not give");
    hfi_ec_finish(conn, op, HF_CORRUPT, &err);
}

/* ---- requests ---------------------------------------------------------------------------------- */

void hfi_ec_add_key(struct ec_text *text, const char *field, const struct ec_key *key)
{
    hfi_ec_add(text, "\"");
    hfi_ec_add(text, field);
    hfi_ec_add(text, "\":\"");
    hfi_ec_add_base64(text, key->bytes, key->len);
    hfi_ec_add(text, "\"");
}

void hfi_ec_add_compare(struct ec_text *text, const struct ec_key *key, const struct ec_key *to,
                        const char *result, const char *target, int64_t revision)
{
    bool create = strcmp(target, "CREATE") == 0;

    hfi_ec_add(text, "{");
    hfi_ec_add_key(text, "key", key);
    if (to) {
        hfi_ec_add(text, ",");
        hfi_ec_add_key(text, "range_end", to);
    }
    hfi_ec_add(text, create ? ",\"target\":\"CREATE\"" : ",\"target\":\"MOD\"");
    if (strcmp(result, "EQUAL") != 0) { /* which is what it is if it is not said */
        hfi_ec_add(text, ",\"result\":\"");
        hfi_ec_add(text, result);
        hfi_ec_add(text, "\"");
    }
    hfi_ec_add(text, create ? ",\"create_revision\":\"" : ",\"mod_revision\":\"");
    hfi_ec_add_number(text, revision);
    hfi_ec_add(text, "\"}");
}

void hfi_ec_add_range(struct ec_text *text, const struct ec_key *key, const struct ec_key *to,
                      const char *more)
{
    hfi_ec_add(text, "{\"request_range\":{");
    hfi_ec_add_key(text, "key", key);
    if (to) {
        hfi_ec_add(text, ",");
        hfi_ec_add_key(text, "range_end", to);
    }
    hfi_ec_add(text, more);
    hfi_ec_add(text, "}}");
}

void hfi_ec_add_delete(struct ec_text *text, const struct ec_key *key)
{
    hfi_ec_add(text, "{\"request_delete_range\":{");
    hfi_ec_add_key(text, "key", key);
    hfi_ec_add(text, "}}");
}
