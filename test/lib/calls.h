/* SPDX-License-Identifier: MIT */
/* Calls that take a request struct, with its fields as parameters: tests of one call in many variants read better so. */
#ifndef TEST_CALLS_H
#define TEST_CALLS_H

#include "holdfast/primitives.h"

/* Ignore a status on purpose; (void) is not enough for gcc. */
#define IGNORE(call) \
    do {             \
        if (call) {  \
        }            \
    } while (0)

static inline hf_status call_cell_set(hf_store *store, const void *name, size_t name_len,
                                      const void *bytes, size_t len, int64_t ttl_ms,
                                      uint64_t *ret_version, hf_error *err)
{
    hf_cell_request request = HF_CELL_REQUEST_INIT;

    request.name = name;
    request.name_len = name_len;
    request.bytes = bytes;
    request.len = len;
    request.ttl_ms = ttl_ms;
    return hf_cell_set(store, &request, ret_version, err);
}

static inline hf_status call_cell_swap(hf_store *store, const void *name, size_t name_len,
                                       uint64_t version, const void *bytes, size_t len,
                                       int64_t ttl_ms, uint64_t *ret_version, hf_error *err)
{
    hf_cell_request request = HF_CELL_REQUEST_INIT;

    request.name = name;
    request.name_len = name_len;
    request.version = version;
    request.bytes = bytes;
    request.len = len;
    request.ttl_ms = ttl_ms;
    return hf_cell_swap(store, &request, ret_version, err);
}

static inline hf_status call_cell_update(hf_store *store, const void *name, size_t name_len,
                                         hf_cell_fn *fn, void *arg, int64_t wait_ms,
                                         hf_cancel *cancel, uint64_t *ret_version, hf_error *err)
{
    hf_cell_request request = HF_CELL_REQUEST_INIT;

    request.name = name;
    request.name_len = name_len;
    request.fn = fn;
    request.fn_arg = arg;
    request.wait_ms = wait_ms;
    request.cancel = cancel;
    return hf_cell_update(store, &request, ret_version, err);
}

static inline hf_status call_cell_wait(hf_store *store, const void *name, size_t name_len,
                                       uint64_t version, int64_t wait_ms, hf_cancel *cancel,
                                       uint64_t *ret_version, hf_error *err)
{
    hf_cell_request request = HF_CELL_REQUEST_INIT;

    request.name = name;
    request.name_len = name_len;
    request.version = version;
    request.wait_ms = wait_ms;
    request.cancel = cancel;
    return hf_cell_wait(store, &request, ret_version, err);
}

static inline hf_party_request party_request(const void *name, size_t name_len, uint32_t parties,
                                             const char *who, int64_t wait_ms, hf_cancel *cancel)
{
    hf_party_request request = HF_PARTY_REQUEST_INIT;

    request.name = name;
    request.name_len = name_len;
    request.parties = parties;
    request.who = who;
    request.wait_ms = wait_ms;
    request.cancel = cancel;
    return request;
}

static inline hf_status call_latch_join(hf_store *store, const void *name, size_t name_len,
                                        const char *who, int64_t wait_ms, hf_cancel *cancel,
                                        hf_lease **ret_lease, hf_error *err)
{
    hf_party_request request = party_request(name, name_len, 0, who, wait_ms, cancel);

    return hf_latch_join(store, &request, ret_lease, err);
}

static inline hf_status call_latch_wait(hf_store *store, const void *name, size_t name_len,
                                        int64_t wait_ms, hf_cancel *cancel, hf_error *err)
{
    hf_party_request request = party_request(name, name_len, 0, NULL, wait_ms, cancel);

    return hf_latch_wait(store, &request, err);
}

static inline hf_status call_barrier_wait(hf_store *store, const void *name, size_t name_len,
                                          uint32_t parties, const char *who, int64_t wait_ms,
                                          hf_cancel *cancel, hf_error *err)
{
    hf_party_request request = party_request(name, name_len, parties, who, wait_ms, cancel);

    return hf_barrier_wait(store, &request, err);
}

static inline hf_status call_barrier_enter(hf_store *store, const void *name, size_t name_len,
                                           uint32_t parties, const char *who, int64_t wait_ms,
                                           hf_cancel *cancel, hf_lease **ret_party, hf_error *err)
{
    hf_party_request request = party_request(name, name_len, parties, who, wait_ms, cancel);

    return hf_barrier_enter(store, &request, ret_party, err);
}

static inline hf_status call_election_wait(hf_store *store, const void *name, size_t name_len,
                                           const hf_leader *last, int64_t wait_ms,
                                           hf_cancel *cancel, hf_leader **ret_leader, hf_error *err)
{
    hf_election_request request = HF_ELECTION_REQUEST_INIT;

    request.name = name;
    request.name_len = name_len;
    request.last = last;
    request.wait_ms = wait_ms;
    request.cancel = cancel;
    return hf_election_wait(store, &request, ret_leader, err);
}

static inline hf_status call_guard_claim_sql(hf_sql_dialect dialect, const char *table,
                                             const void *name, size_t name_len, uint64_t token,
                                             hf_sql_fn *run, void *arg, hf_error *err)
{
    hf_guard_sql_request request = HF_GUARD_SQL_REQUEST_INIT;

    request.dialect = dialect;
    request.table = table;
    request.name = name;
    request.name_len = name_len;
    request.token = token;
    request.run = run;
    request.run_arg = arg;
    return hf_guard_claim_sql(&request, err);
}

static inline hf_status call_lease_adopt(hf_store *store, const void *name, size_t name_len,
                                         const char *text, int64_t ttl_ms, bool renew,
                                         hf_lease **ret_lease, hf_error *err)
{
    hf_adopt_request request = HF_ADOPT_REQUEST_INIT;

    request.name = name;
    request.name_len = name_len;
    request.text = text;
    request.ttl_ms = ttl_ms;
    request.renew = renew;
    return hf_lease_adopt(store, &request, ret_lease, err);
}

/* hf_store_check(), one finding after the other. */
typedef void call_finding_fn(hf_check_level level, const char *topic, const char *text, void *arg);

static inline hf_status call_store_check(hf_store *store, call_finding_fn *finding, void *arg,
                                         hf_error *err)
{
    hf_report *report = NULL;
    hf_status status = hf_store_check(store, &report, err);

    for (size_t i = 0; i < hf_report_count(report); i++) {
        const hf_finding *item = hf_report_item(report, i);

        finding(item->level, item->topic, item->text, arg);
    }
    hf_free(report);
    return status;
}

#endif
