/* SPDX-License-Identifier: MIT */
/* etcd's API: methods, requests and replies. The numbers are those of etcd's rpc.proto and kv.proto. See api.h. */
#include "engine/etcd/api.h"

#include <string.h>

/* ---- forms of replies ----------------------------------------------------------------------- */

static const struct etcd_form header = { .fields = { { 3, ETCD_NUMBER, NULL },
                                                     { 4, ETCD_NUMBER, NULL } } };
static const struct etcd_form kv = { .fields = { { ETCD_KV_KEY, ETCD_BYTES, NULL },
                                                 { ETCD_KV_CREATED, ETCD_NUMBER, NULL },
                                                 { ETCD_KV_MODIFIED, ETCD_NUMBER, NULL },
                                                 { ETCD_KV_VALUE, ETCD_BYTES, NULL },
                                                 { ETCD_KV_LEASE, ETCD_NUMBER, NULL } } };
static const struct etcd_form range = { .fields = { { 1, ETCD_MESSAGE, &header },
                                                    { ETCD_RANGE_KVS, ETCD_MESSAGES, &kv },
                                                    { ETCD_RANGE_MORE, ETCD_NUMBER, NULL },
                                                    { ETCD_RANGE_COUNT, ETCD_NUMBER, NULL } } };
static const struct etcd_form other = { .fields = { { 1, ETCD_MESSAGE, &header } } };
static const struct etcd_form txn;
static const struct etcd_form response = { .fields = { { 1, ETCD_MESSAGE, &range },
                                                       { 2, ETCD_MESSAGE, &other },
                                                       { 3, ETCD_MESSAGE, &other },
                                                       { 4, ETCD_MESSAGE, &txn } } };
static const struct etcd_form txn = { .fields = { { 1, ETCD_MESSAGE, &header },
                                                  { ETCD_TXN_SUCCEEDED, ETCD_NUMBER, NULL },
                                                  { 3, ETCD_MESSAGES, &response } } };
static const struct etcd_form lease = { .fields = { { 1, ETCD_MESSAGE, &header },
                                                    { ETCD_LEASE_ID, ETCD_NUMBER, NULL },
                                                    { ETCD_LEASE_TTL, ETCD_NUMBER, NULL } } };
static const struct etcd_form event = { .fields = { { ETCD_EVENT_TYPE, ETCD_NUMBER, NULL },
                                                    { ETCD_EVENT_KV, ETCD_MESSAGE, &kv } } };
static const struct etcd_form watch = { .fields = {
                                            { 1, ETCD_MESSAGE, &header },
                                            { ETCD_WATCH_ID, ETCD_NUMBER, NULL },
                                            { ETCD_WATCH_CREATED, ETCD_NUMBER, NULL },
                                            { ETCD_WATCH_CANCELED, ETCD_NUMBER, NULL },
                                            { ETCD_WATCH_COMPACTED, ETCD_NUMBER, NULL },
                                            { ETCD_WATCH_EVENTS, ETCD_MESSAGES, &event } } };
static const struct etcd_form auth = { .fields = { { 1, ETCD_MESSAGE, &header },
                                                   { ETCD_AUTH_TOKEN, ETCD_BYTES, NULL } } };
static const struct etcd_form status = { .fields = { { 1, ETCD_MESSAGE, &header },
                                                     { ETCD_STATUS_VERSION, ETCD_BYTES, NULL },
                                                     { ETCD_STATUS_LEADER, ETCD_NUMBER, NULL },
                                                     { ETCD_STATUS_ERRORS, ETCD_BYTES, NULL } } };
static const struct etcd_form members = { .fields = { { 1, ETCD_MESSAGE, &header },
                                                      { ETCD_MEMBERS, ETCD_BYTES, NULL } } };
static const struct etcd_form alarm_form = { .fields = { { ETCD_ALARM_KIND, ETCD_NUMBER, NULL } } };
static const struct etcd_form alarms = {
    .fields = { { 1, ETCD_MESSAGE, &header }, { ETCD_ALARMS, ETCD_MESSAGES, &alarm_form } }
};

#define METHOD(name, path, form, leader) \
    const struct etcd_method name = { "/etcdserverpb." path, form, leader }
METHOD(etcd_range_method, "KV/Range", &range, false);
METHOD(etcd_txn_method, "KV/Txn", &txn, false);
METHOD(etcd_grant_method, "Lease/LeaseGrant", &lease, false);
METHOD(etcd_revoke_method, "Lease/LeaseRevoke", &other, false);
METHOD(etcd_keep_method, "Lease/LeaseKeepAlive", &lease, true);
METHOD(etcd_ttl_method, "Lease/LeaseTimeToLive", &lease, false);
METHOD(etcd_watch_method, "Watch/Watch", &watch, true);
METHOD(etcd_authenticate_method, "Auth/Authenticate", &auth, false);
METHOD(etcd_status_method, "Maintenance/Status", &status, false);
METHOD(etcd_members_method, "Cluster/MemberList", &members, false);
METHOD(etcd_alarm_method, "Maintenance/Alarm", &alarms, false);

/* ---- requests ------------------------------------------------------------------------------ */

static void put_key(struct etcd_text *text, unsigned field, const struct etcd_key *key)
{
    etcd_put_bytes(text, field, key->bytes, key->len);
}

static void put_true(struct etcd_text *text, unsigned field, bool on)
{
    if (on)
        etcd_put_number(text, field, 1);
}

static void put_nonzero(struct etcd_text *text, unsigned field, int64_t number)
{
    if (number)
        etcd_put_number(text, field, number);
}

void etcd_add_range(struct etcd_text *text, const struct etcd_range *one)
{
    put_key(text, 1, one->key);
    if (one->to)
        put_key(text, 2, one->to);
    put_nonzero(text, 3, one->limit);
    put_nonzero(text, 4, one->revision);
    if (one->order != ETCD_ANY_ORDER) {
        etcd_put_number(text, 5, one->order);
        etcd_put_number(text, 6, 2); /* by create revision */
    }
    put_true(text, 7, one->serializable);
    put_true(text, 8, one->keys_only);
    put_true(text, 9, one->count_only);
    put_nonzero(text, 13, one->max_created);
}

void etcd_add_id(struct etcd_text *text, int64_t number)
{
    etcd_put_number(text, 1, number);
}

void etcd_add_compare(struct etcd_text *text, const struct etcd_key *key, const struct etcd_key *to,
                      enum etcd_compared what, int64_t revision)
{
    size_t begun = etcd_put_begin(text, 1);

    if (what == ETCD_CREATED_BEFORE)
        etcd_put_number(text, 1, 2);
    etcd_put_number(text, 2, what == ETCD_MODIFIED_AT ? 2 : 1);
    put_key(text, 3, key);
    etcd_put_number(text, what == ETCD_MODIFIED_AT ? 6 : 5, revision);
    if (to)
        put_key(text, 64, to);
    etcd_put_end(text, begun);
}

void etcd_add_op_range(struct etcd_text *text, enum etcd_branch branch,
                       const struct etcd_range *one)
{
    size_t op = etcd_put_begin(text, branch), begun = etcd_put_begin(text, 1);

    etcd_add_range(text, one);
    etcd_put_end(text, begun);
    etcd_put_end(text, op);
}

void etcd_add_op_put(struct etcd_text *text, enum etcd_branch branch, const struct etcd_key *key,
                     const void *value, size_t len, int64_t id)
{
    size_t op = etcd_put_begin(text, branch), begun = etcd_put_begin(text, 2);

    put_key(text, 1, key);
    if (value)
        etcd_put_bytes(text, 2, value, len);
    put_nonzero(text, 3, id);
    put_true(text, 5, !value);
    etcd_put_end(text, begun);
    etcd_put_end(text, op);
}

void etcd_add_op_delete(struct etcd_text *text, enum etcd_branch branch, const struct etcd_key *key)
{
    size_t op = etcd_put_begin(text, branch), begun = etcd_put_begin(text, 3);

    put_key(text, 1, key);
    etcd_put_end(text, begun);
    etcd_put_end(text, op);
}

void etcd_add_delete_if(struct etcd_text *text, const struct etcd_key *key, int64_t revision)
{
    etcd_add_compare(text, key, NULL, ETCD_CREATED_AT, revision);
    etcd_add_op_delete(text, ETCD_THEN, key);
}

void etcd_add_move(struct etcd_text *text, const struct etcd_key *key, int64_t revision, int64_t id)
{
    etcd_add_compare(text, key, NULL, ETCD_CREATED_AT, revision);
    etcd_add_op_put(text, ETCD_THEN, key, NULL, 0, id);
}

void etcd_add_op_move(struct etcd_text *text, const struct etcd_key *key, int64_t revision,
                      int64_t id)
{
    size_t op = etcd_put_begin(text, ETCD_THEN), begun = etcd_put_begin(text, 4);

    etcd_add_move(text, key, revision, id);
    etcd_put_end(text, begun);
    etcd_put_end(text, op);
}

void etcd_add_op_note(struct etcd_text *text, const struct etcd_key *key, int64_t revision,
                      const struct etcd_key *note, const void *value, size_t len, int64_t id)
{
    size_t op = etcd_put_begin(text, ETCD_THEN), begun = etcd_put_begin(text, 4);

    etcd_add_compare(text, key, NULL, ETCD_CREATED_AT, revision);
    etcd_add_op_put(text, ETCD_THEN, note, value, len, id);
    etcd_put_end(text, begun);
    etcd_put_end(text, op);
}

void etcd_add_watch(struct etcd_text *text, int64_t id, const struct etcd_key *key,
                    const struct etcd_key *to, int64_t start, enum etcd_watched what)
{
    size_t begun = etcd_put_begin(text, 1);

    put_key(text, 1, key);
    if (to)
        put_key(text, 2, to);
    put_nonzero(text, 3, start);
    if (what != ETCD_WATCH_ALL)
        etcd_put_number(text, 5, what == ETCD_WATCH_DELETES ? 0 : 1); /* what is left out */
    etcd_put_number(text, 7, id);
    etcd_put_end(text, begun);
}

void etcd_add_unwatch(struct etcd_text *text, int64_t id)
{
    size_t begun = etcd_put_begin(text, 2);

    etcd_put_number(text, 1, id);
    etcd_put_end(text, begun);
}

void etcd_add_login(struct etcd_text *text, const char *user, const char *secret)
{
    etcd_put_bytes(text, 1, user, strlen(user));
    etcd_put_bytes(text, 2, secret, strlen(secret));
}

/* ---- replies ------------------------------------------------------------------------------- */

int64_t etcd_revision(struct etcd_message reply)
{
    return etcd_number(etcd_part(reply, 1), 3);
}

int64_t etcd_term(struct etcd_message reply)
{
    return etcd_number(etcd_part(reply, 1), 4);
}

int64_t etcd_ttl_ms(struct etcd_message reply)
{
    int64_t seconds = etcd_number(reply, ETCD_LEASE_TTL);

    return hfi_told_ms(seconds > HF_DURATION_MAX_MS / 1000 ? HF_DURATION_MAX_MS
                       : seconds < 0                       ? 0
                                                           : seconds * 1000);
}

struct etcd_message etcd_response(struct etcd_message reply, size_t index, enum etcd_response kind)
{
    struct etcd_message one;

    for (size_t i = 0; etcd_next(&reply, 3, &one); i++)
        if (i == index)
            return etcd_part(one, kind);
    return (struct etcd_message){ NULL, 0 };
}

bool etcd_kv_key(struct etcd_message one, struct etcd_key *ret_key)
{
    struct etcd_message key = etcd_part(one, ETCD_KV_KEY);

    if (!key.at || key.len > sizeof ret_key->bytes)
        return false;
    memcpy(ret_key->bytes, key.at, key.len);
    ret_key->len = key.len;
    return true;
}

bool etcd_kv(const char *prefix, struct etcd_message one, struct etcd_record *ret_record)
{
    struct etcd_message key = etcd_part(one, ETCD_KV_KEY), value = etcd_part(one, ETCD_KV_VALUE);

    if (!key.at || !value.at || !etcd_read_key(prefix, (const char *)key.at, key.len, ret_record) ||
        !etcd_read_value((const char *)value.at, value.len, ret_record))
        return false;
    ret_record->revision = (uint64_t)etcd_number(one, ETCD_KV_CREATED);
    ret_record->lease = etcd_number(one, ETCD_KV_LEASE);
    return ret_record->revision > 0 && ret_record->revision < HFI_TOKEN_LIMIT &&
           ret_record->permits <= ret_record->capacity;
}
