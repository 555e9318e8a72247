/* SPDX-License-Identifier: MIT */
/*
 * The part of etcd's API that we use (etcdserverpb/rpc.proto): methods with the form of their replies, requests, and what
 * replies say. Pure.
 */
#ifndef HFI_ETCD_API_H
#define HFI_ETCD_API_H

#include "engine/etcd/text.h"

/* What can be called. A reply that does not have the form is not believed at all. */
struct etcd_method {
    const char *path; /* of the request: "/etcdserverpb.KV/Txn" */
    const struct etcd_form *reply;
    /* a member without a leader refuses it, or ends it, instead of being silent */
    bool needs_leader;
};
extern const struct etcd_method etcd_range_method, etcd_txn_method, etcd_grant_method,
    etcd_revoke_method, etcd_keep_method, etcd_ttl_method, etcd_watch_method,
    etcd_authenticate_method, etcd_status_method, etcd_members_method, etcd_alarm_method;

/* The numbers of fields of replies. */
enum { ETCD_RANGE_KVS = 2, ETCD_RANGE_MORE = 3, ETCD_RANGE_COUNT = 4 };
enum { ETCD_TXN_SUCCEEDED = 2 };
enum {
    ETCD_KV_KEY = 1,
    ETCD_KV_CREATED,
    ETCD_KV_MODIFIED,
    ETCD_KV_VERSION,
    ETCD_KV_VALUE,
    ETCD_KV_LEASE
};
enum { ETCD_LEASE_ID = 2, ETCD_LEASE_TTL = 3 };
enum { ETCD_AUTH_TOKEN = 2 };
enum { ETCD_STATUS_VERSION = 2, ETCD_STATUS_LEADER = 4, ETCD_STATUS_ERRORS = 8 };
enum { ETCD_MEMBERS = 2 };
enum { ETCD_ALARMS = 2, ETCD_ALARM_KIND = 2, ETCD_ALARM_NOSPACE = 1 };
enum {
    ETCD_WATCH_ID = 2,
    ETCD_WATCH_CREATED = 3,
    ETCD_WATCH_CANCELED = 4,
    ETCD_WATCH_COMPACTED = 5,
    ETCD_WATCH_EVENTS = 11
};
enum { ETCD_EVENT_TYPE = 1, ETCD_EVENT_KV = 2, ETCD_EVENT_DELETE = 1 };

/* ---- requests ------------------------------------------------------------------------------ */

struct etcd_range {
    const struct etcd_key *key, *to;                                     /* `to` NULL: one key */
    enum { ETCD_ANY_ORDER, ETCD_OLDEST_FIRST, ETCD_NEWEST_FIRST } order; /* by create revision */
    int64_t limit, revision, max_created;                                /* 0: none */
    bool serializable; /* as this member knows it, without asking the others */
    bool keys_only, count_only;
};

/* A whole request to read, and one for a lease (granted for seconds, or by its id). */
void etcd_add_range(struct etcd_text *text, const struct etcd_range *range);
void etcd_add_id(struct etcd_text *text, int64_t number);

/* Parts of a transaction: what it compares, and what it does then, or otherwise. */
enum etcd_branch { ETCD_THEN = 2, ETCD_ELSE = 3 };
enum etcd_compared { ETCD_CREATED_AT, ETCD_CREATED_BEFORE, ETCD_MODIFIED_AT };
void etcd_add_compare(struct etcd_text *text, const struct etcd_key *key, const struct etcd_key *to,
                      enum etcd_compared what, int64_t revision);
void etcd_add_op_range(struct etcd_text *text, enum etcd_branch branch,
                       const struct etcd_range *range);
/* `value` NULL: it keeps the one that it has. */
void etcd_add_op_put(struct etcd_text *text, enum etcd_branch branch, const struct etcd_key *key,
                     const void *value, size_t len, int64_t lease);
void etcd_add_op_delete(struct etcd_text *text, enum etcd_branch branch,
                        const struct etcd_key *key);
/* The most usual one: if the key was created at `revision`, it is deleted. */
void etcd_add_delete_if(struct etcd_text *text, const struct etcd_key *key, int64_t revision);
/* A transaction in a transaction: if the key was created at `revision`, it gets this lease. */
void etcd_add_op_move(struct etcd_text *text, const struct etcd_key *key, int64_t revision,
                      int64_t lease);
/* The same, and a note is put. */
void etcd_add_op_note(struct etcd_text *text, const struct etcd_key *key, int64_t revision,
                      const struct etcd_key *note, const void *value, size_t len, int64_t lease);
/* A move as a whole one. */
void etcd_add_move(struct etcd_text *text, const struct etcd_key *key, int64_t revision,
                   int64_t lease);

enum etcd_watched { ETCD_WATCH_ALL, ETCD_WATCH_DELETES, ETCD_WATCH_PUTS };
void etcd_add_watch(struct etcd_text *text, int64_t id, const struct etcd_key *key,
                    const struct etcd_key *to, int64_t start, enum etcd_watched what);
void etcd_add_unwatch(struct etcd_text *text, int64_t id);
void etcd_add_login(struct etcd_text *text, const char *user, const char *secret);

/* ---- replies ------------------------------------------------------------------------------- */

int64_t etcd_revision(struct etcd_message reply); /* of its header */
int64_t etcd_term(struct etcd_message reply);
/* Seconds (a ttl) as milliseconds, within 0 and HF_DURATION_MAX_MS whatever the server says. */
int64_t etcd_ttl_ms(struct etcd_message reply);
/* Response number `index` of a transaction; absent: it is none of this kind. */
enum etcd_response { ETCD_RESPONSE_RANGE = 1, ETCD_RESPONSE_PUT = 2, ETCD_RESPONSE_TXN = 4 };
struct etcd_message etcd_response(struct etcd_message reply, size_t index, enum etcd_response kind);
/* One of the keys of a range. false: not one of ours. */
bool etcd_kv(const char *prefix, struct etcd_message kv, struct etcd_record *ret_record);
bool etcd_kv_key(struct etcd_message kv, struct etcd_key *ret_key); /* false: too long */

#endif
