/* SPDX-License-Identifier: MIT */
/* Parses answers, and builds parts of requests. With the lock, or without shared state. */
#include "engine/etcd/internal.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

int64_t etcd_seconds_ms(const json_t *object, const char *key)
{
    int64_t seconds = etcd_read_number(object, key);

    return hfi_told_ms(seconds > HF_DURATION_MAX_MS / 1000 ? HF_DURATION_MAX_MS
                       : seconds < 0                       ? 0
                                                           : seconds * 1000);
}

int64_t etcd_read_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (json_is_integer(value))
        return json_integer_value(value);
    return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10) : 0;
}

int64_t etcd_revision(const json_t *reply)
{
    return etcd_read_number(json_object_get(reply, "header"), "revision");
}

int64_t etcd_term(const json_t *reply)
{
    return etcd_read_number(json_object_get(reply, "header"), "raft_term");
}

json_t *etcd_response(const json_t *reply, size_t index, const char *kind)
{
    return json_object_get(json_array_get(json_object_get(reply, "responses"), index), kind);
}

bool etcd_kv(const struct etcd_store *store, const json_t *kv, struct etcd_record *ret_record)
{
    const json_t *key = json_object_get(kv, "key"), *value = json_object_get(kv, "value");
    char bytes[ETCD_KEY_MAX], text[HF_LABEL_MAX + 160];
    size_t len;

    if (!json_is_string(key) || !json_is_string(value))
        return false;
    len = etcd_unbase64(json_string_value(key), json_string_length(key), bytes, sizeof bytes);
    if (len == SIZE_MAX || !etcd_read_key(store->conf->prefix, bytes, len, ret_record))
        return false;
    len = etcd_unbase64(json_string_value(value), json_string_length(value), text, sizeof text);
    if (len == SIZE_MAX || !etcd_read_value(text, len, ret_record))
        return false;
    ret_record->revision = (uint64_t)etcd_read_number(kv, "create_revision");
    ret_record->lease = etcd_read_number(kv, "lease");
    return ret_record->revision > 0 && ret_record->permits <= ret_record->capacity;
}

void etcd_finish_odd(struct etcd_store *store, struct hfi_op *op)
{
    hf_error err;

    hfi_error_set(&err, HF_CORRUPT, 0, "an answer that etcd does not give");
    etcd_finish(store, op, HF_CORRUPT, &err);
}

/* ---- requests ---------------------------------------------------------------------------------- */

void etcd_add_key(struct etcd_text *text, const char *field, const struct etcd_key *key)
{
    etcd_add(text, "\"");
    etcd_add(text, field);
    etcd_add(text, "\":\"");
    etcd_add_base64(text, key->bytes, key->len);
    etcd_add(text, "\"");
}

void etcd_add_compare(struct etcd_text *text, const struct etcd_key *key, const struct etcd_key *to,
                      const char *result, const char *target, int64_t revision)
{
    bool create = strcmp(target, "CREATE") == 0;

    etcd_add(text, "{");
    etcd_add_key(text, "key", key);
    if (to) {
        etcd_add(text, ",");
        etcd_add_key(text, "range_end", to);
    }
    etcd_add(text, create ? ",\"target\":\"CREATE\"" : ",\"target\":\"MOD\"");
    if (strcmp(result, "EQUAL") != 0) { /* EQUAL is the default */
        etcd_add(text, ",\"result\":\"");
        etcd_add(text, result);
        etcd_add(text, "\"");
    }
    etcd_add(text, create ? ",\"create_revision\":\"" : ",\"mod_revision\":\"");
    etcd_add_number(text, revision);
    etcd_add(text, "\"}");
}

void etcd_add_range(struct etcd_text *text, const struct etcd_key *key, const struct etcd_key *to,
                    const char *more)
{
    etcd_add(text, "{\"request_range\":{");
    etcd_add_key(text, "key", key);
    if (to) {
        etcd_add(text, ",");
        etcd_add_key(text, "range_end", to);
    }
    etcd_add(text, more);
    etcd_add(text, "}}");
}

void etcd_add_delete(struct etcd_text *text, const struct etcd_key *key)
{
    etcd_add(text, "{\"request_delete_range\":{");
    etcd_add_key(text, "key", key);
    etcd_add(text, "}}");
}
