/* SPDX-License-Identifier: MIT */
/*
 * hf_sql_lock(), hf_sql_get_lock(): a lock in the caller's own transaction. The engine of the URL writes the statements, because its
 * names have the same keys and rows; the caller's function runs them. On the calling thread; no store is opened.
 *
 *   wait: make the row, if one is to be locked and is not there -> lock it
 *   try:  lock it -- a row: locked
 *           +------- none: known? yes: HF_BUSY; no: make it, lock it
 *
 * No plain read comes before a lock that is granted: it would fix the snapshot of a transaction in REPEATABLE READ on MariaDB, and
 * what was committed while the lock waited would not be seen. A wait makes the row first, because asking for a missing one in that
 * level locks the gap, in which others make theirs.
 */
#include "core/by_url.h"
#include "core/request.h"
#include "engine/sql/extension.h"
#include "holdfast/primitives.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/hash.h"

#include <stdio.h>
#include <string.h>

struct locking {
    hf_sql_lock_request request;
    struct hfi_by_url at;
    const struct hfi_sql_extension *sql;
    struct hfi_name name;
};

static hf_status check(const hf_sql_lock_request *request, struct hfi_name *ret_name, hf_error *err)
{
    hf_status status = hfi_name_check(request->name, request->name_len, &ret_name->len, err);

    if (status != HF_OK)
        return status;
    ret_name->bytes = request->name;
    hfi_hash128(ret_name->bytes, ret_name->len, ret_name->hash);
    if (request->kind != HF_KIND_MUTEX && request->kind != HF_KIND_EXCLUSIVE &&
        request->kind != HF_KIND_SHARED)
        return hfi_error_set(err, HF_INVALID, 0, "kind: a mutex, a reader or a writer only");
    if (request->wait_ms != 0 && request->wait_ms != HF_FOREVER)
        return hfi_error_set(err, HF_INVALID, 0,
                             "wait_ms: 0 or HF_FOREVER; the server's own settings limit a wait");
    return HF_OK;
}

/* After HF_OK hfi_by_url_close() is due. */
static hf_status begin(struct locking *locking, const hf_sql_lock_request *given, hf_error *err)
{
    hf_status status =
        hfi_request_copy(&locking->request, sizeof locking->request, given,
                         offsetof(hf_sql_lock_request, run), "HF_SQL_LOCK_REQUEST_INIT", err);

    if (status == HF_OK)
        status = check(&locking->request, &locking->name, err);
    if (status == HF_OK)
        status = hfi_by_url_open(&locking->at, locking->request.url, HFI_SQL_EXTENSION,
                                 sizeof *locking->sql, err);
    if (status == HF_OK)
        locking->sql = locking->at.extension;
    return status;
}

static enum hfi_sql_statement lock_of(const hf_sql_lock_request *request)
{
    if (request->kind == HF_KIND_SHARED)
        return request->wait_ms ? HFI_SQL_LOCK_SHARED : HFI_SQL_LOCK_SHARED_TRY;
    return request->wait_ms ? HFI_SQL_LOCK : HFI_SQL_LOCK_TRY;
}

static enum hfi_sql_statement make_of(const hf_sql_lock_request *request)
{
    return request->kind == HF_KIND_SHARED ? HFI_SQL_ROW_MAKE_SHARED : HFI_SQL_ROW_MAKE;
}

/* ---- running them ---------------------------------------------------------------------------------- */

/* *ret_number: what it gave; 1 for a statement that is not needed. */
static hf_status run(struct locking *locking, enum hfi_sql_statement which, int64_t *ret_number,
                     hf_error *err)
{
    char *sql = NULL;
    hf_status status = locking->sql->get_lock(locking->at.conf, &locking->name, which, &sql, err);
    int failed = 0;

    if (status != HF_OK)
        return status;
    *ret_number = !*sql;
    if (*sql)
        failed = locking->request.run(sql, ret_number, locking->request.run_arg);
    hfi_free(sql);
    return failed ? hfi_error_set(err, HF_UNAVAILABLE, 0,
                                  "the statement of the lock failed: roll back")
                  : HF_OK;
}

static hf_status make_and_lock(struct locking *locking, int64_t *ret_locked, hf_error *err)
{
    int64_t none = 0;
    hf_status status = run(locking, make_of(&locking->request), &none, err);

    return status == HF_OK ? run(locking, lock_of(&locking->request), ret_locked, err) : status;
}

static hf_status lock(struct locking *locking, hf_error *err)
{
    bool try = locking->request.wait_ms == 0;
    int64_t locked = 0, known = 0;
    hf_status status;

    if (!try) {
        status = make_and_lock(locking, &locked, err);
    } else {
        status = run(locking, lock_of(&locking->request), &locked, err);
        if (status == HF_OK && locked != 1)
            status = run(locking, HFI_SQL_ROW_KNOWN, &known, err);
        if (status == HF_OK && locked != 1 && !known)
            status = make_and_lock(locking, &locked, err);
    }
    if (status != HF_OK || locked == 1)
        return status;
    if (try)
        return hfi_error_set(err, HF_BUSY, 0, "%s", hf_status_text(HF_BUSY));
    return hfi_error_set(err, HF_UNAVAILABLE, 0,
                         "the statement of the lock gave no row: roll back");
}

hf_status hf_sql_lock(const hf_sql_lock_request *request, hf_error *err)
{
    struct locking locking;
    hf_status status = begin(&locking, request, err);

    if (status != HF_OK)
        return status;
    status =
        locking.request.run ? lock(&locking, err) : hfi_error_set(err, HF_INVALID, 0, "run: NULL");
    status = hfi_by_url_close(&locking.at, status, err);
    return status == HF_OK ? hfi_ok(err) : status;
}

/* ---- writing them ---------------------------------------------------------------------------------- */

/* A text cannot look at what one statement gives before the next: that of a try makes the row in a way that waits for no holder. */
static enum hfi_sql_statement make_by_text(const hf_sql_lock_request *request)
{
    if (request->wait_ms != 0)
        return make_of(request);
    return request->kind == HF_KIND_SHARED ? HFI_SQL_ROW_MAKE_SHARED_TRY : HFI_SQL_ROW_MAKE_TRY;
}

hf_status hf_sql_get_lock(const hf_sql_lock_request *request, char **ret_sql, hf_error *err)
{
    struct locking locking;
    char *make = NULL, *last = NULL, *all = NULL;
    size_t room;
    hf_status status;

    if (!ret_sql)
        return hfi_error_set(err, HF_INVALID, 0, "ret_sql: NULL");
    status = begin(&locking, request, err);
    if (status != HF_OK)
        return status;
    status = locking.sql->get_lock(locking.at.conf, &locking.name, make_by_text(&locking.request),
                                   &make, err);
    if (status == HF_OK)
        status = locking.sql->get_lock(locking.at.conf, &locking.name, lock_of(&locking.request),
                                       &last, err);
    if (status == HF_OK) {
        room = strlen(make) + strlen(last) + 5;
        all = hfi_malloc(room);
        if (all)
            snprintf(all, room, "%s%s%s;\n", make, *make ? ";\n" : "", last);
        status = all ? HF_OK : hfi_error_memory(err);
    }
    hfi_free(make);
    hfi_free(last);
    status = hfi_by_url_close(&locking.at, status, err);
    if (status != HF_OK)
        return status;
    *ret_sql = all;
    return hfi_ok(err);
}
