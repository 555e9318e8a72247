/* SPDX-License-Identifier: MIT */
/*
 * mode=row and mode=session: the ops. A lease has no ttl and is never renewed: it is a lock of the
 * server's, and ends when it is released or its connection ends; see native_lock.h.
 *
 * An acquire never ends with HF_UNKNOWN: if its connection is lost, a grant to it is lost with the
 * connection.
 */
#include "engine/sql/native_lock.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 8 /* attempts after rows that vanished or foreign interrupts */
#define FREE_TRIES 3 /* where the server asks for another */

/* The outcome of one attempt. */
enum sql_turn {
    TURN_GRANTED,
    TURN_BUSY,  /* another session has it */
    TURN_AGAIN, /* temporary: the statement was interrupted, or the row does not exist (any more) */
    TURN_FAILED
};

static void acquire(struct sql_store *store, struct hfi_op *op);
static hf_status acquire_on_connection(struct sql_locks *locks, struct sql_lock_wait *wait,
                                       hf_error *err);
static enum sql_turn ask(struct sql_locks *locks, struct sql_lock_wait *wait,
                         struct sql_lock_connection *lock_conn, enum sql_lock_how how,
                         hf_status *ret_status, hf_error *err);
static void release(struct sql_store *store, struct hfi_op *op);
static hf_status raise_token(struct sql_store *store, struct hfi_op *op, hf_error *err);
static hf_status free_lock(struct sql_locks *locks, struct sql_lock_connection *lock_conn,
                           struct hfi_claim *claim, int64_t deadline_ms, hf_error *err);

/* ---- open, close ------------------------------------------------------------------------------------ */

static hf_status init(struct sql_locks *locks, hf_error *err)
{
    struct epoll_event event = { .events = EPOLLIN };
    const struct sql_conf *conf = &locks->store->conf;
    pthread_condattr_t attr;

    pthread_mutex_init(&locks->lock, NULL);
    pthread_mutex_init(&locks->share_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&locks->changed, &attr);
    pthread_condattr_destroy(&attr);
    locks->sql->table(conf->schema, conf->prefix, locks->sql->names, locks->names_table);
    locks->sql->table(conf->schema, conf->prefix, locks->sql->rows, locks->rows_table);
    locks->sql->table(conf->schema, conf->prefix, "lock_waits", locks->waits_table);
    locks->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    locks->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (locks->epoll_fd < 0 || locks->kick_fd < 0 ||
        epoll_ctl(locks->epoll_fd, EPOLL_CTL_ADD, locks->kick_fd, &event) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "no descriptor is left: %s",
                             strerror(errno));
    return HF_OK;
}

hf_status sql_locks_open(struct sql_store *store, hf_error *err)
{
    struct sql_locks *locks;

    if (store->conf.connections < 2)
        return hfi_error_set(err, HF_CONFIG, 0,
                             "connections: mode=row and mode=session need 2 at least");
    locks = hfi_calloc(1, sizeof *locks);
    if (!locks)
        return hfi_error_memory(err);
    store->locks = locks;
    locks->store = store;
    locks->sql = store->driver->lock_sql;
    locks->limit = store->conf.connections - 1; /* one connection stays with the pool */
    locks->locks_max = store->conf.mode == SQL_MODE_ROW ? 1 : SQL_LOCKS_MAX;
    return init(locks, err);
}

void sql_locks_close(struct sql_store *store)
{
    struct sql_locks *locks = store->locks;

    if (!locks)
        return;
    sql_watch_stop(locks);
    while (locks->lock_conns) {
        locks->lock_conns->count = 0; /* what core could not release: core has forgotten it */
        sql_lock_connection_end(locks, locks->lock_conns, "");
    }
    if (locks->epoll_fd >= 0)
        close(locks->epoll_fd);
    if (locks->kick_fd >= 0)
        close(locks->kick_fd);
    pthread_mutex_destroy(&locks->lock);
    pthread_mutex_destroy(&locks->share_lock);
    pthread_cond_destroy(&locks->changed);
    hfi_free(locks);
    store->locks = NULL;
}

/* The connections themselves are in store's list. */
void sql_locks_abandon(struct sql_store *store)
{
    struct sql_locks *locks = store->locks;

    if (!locks)
        return;
    for (struct sql_lock_connection *lock_conn = locks->lock_conns; lock_conn;
         lock_conn = lock_conn->next)
        close(lock_conn->fd);
    close(locks->epoll_fd);
    close(locks->kick_fd);
}

/* ---- ops ---------------------------------------------------------------------------------------------- */

static void renew(struct sql_locks *locks, struct hfi_op *op)
{
    pthread_mutex_lock(&locks->lock);
    for (size_t i = 0; i < op->u.renew.count; i++) {
        struct hfi_renewal *item = &op->u.renew.items[i];

        item->status = sql_lock_claim(item->claim)->lock_conn ? HF_OK : HF_LOST;
        item->claim->granted_ttl_ms = 0;
        item->claim->sent_ms = hfi_now_ms();
    }
    pthread_mutex_unlock(&locks->lock);
    sql_finish(op, HF_OK, NULL);
}

void sql_locks_submit(struct sql_store *store, struct hfi_op *op)
{
    switch (op->kind) {
    case HFI_OP_ACQUIRE:
        acquire(store, op);
        return;
    case HFI_OP_RELEASE:
        release(store, op);
        return;
    case HFI_OP_RENEW:
        renew(store->locks, op);
        return;
    case HFI_OP_LIST:
        sql_locks_list(store, op);
        return;
    default:
        sql_finish(op, HF_UNSUPPORTED, NULL);
        return;
    }
}

void sql_locks_cancel(struct sql_store *store, struct hfi_op *op, hf_status status)
{
    struct sql_locks *locks = store->locks;

    pthread_mutex_lock(&locks->lock);
    for (struct sql_lock_wait *wait = locks->lock_waits; wait; wait = wait->next)
        if (wait->op == op && wait->stop == HF_OK) {
            wait->stop = status;
            wait->act_ms = hfi_now_ms();
            sql_watch_at(locks, wait->act_ms);
            pthread_cond_broadcast(&locks->changed);
        }
    pthread_mutex_unlock(&locks->lock);
}

/* ---- acquire ------------------------------------------------------------------------------------------- */

static hf_status enter(struct sql_locks *locks, struct sql_lock_wait *wait, hf_error *err)
{
    hf_status status = HF_OK;

    pthread_mutex_lock(&locks->lock);
    if (sql_watch_start(locks)) {
        wait->next = locks->lock_waits;
        locks->lock_waits = wait;
        wait->stop = atomic_load(&wait->op->stop); /* cancel() may have been here before */
    } else {
        status = hfi_error_memory(err);
    }
    pthread_mutex_unlock(&locks->lock);
    return status;
}

static void leave(struct sql_locks *locks, struct sql_lock_wait *wait)
{
    struct sql_lock_wait **at = &locks->lock_waits;

    pthread_mutex_lock(&locks->lock);
    while (*at != wait)
        at = &(*at)->next;
    *at = wait->next;
    pthread_mutex_unlock(&locks->lock);
}

static void acquire(struct sql_store *store, struct hfi_op *op)
{
    struct sql_locks *locks = store->locks;
    struct sql_lock_wait wait = { .op = op, .act_ms = HFI_NEVER };
    hf_error err = { .status = HF_OK };
    hf_status status = enter(locks, &wait, &err);

    if (status == HF_OK) {
        status = acquire_on_connection(locks, &wait, &err);
        leave(locks, &wait);
        sql_unshare_wait(locks, &wait);
    }
    if (status == HF_OK && store->conf.tokens)
        status = raise_token(store, op, &err);
    sql_finish(op, status, &err);
}

/* The time limit of a statement that does not wait. Giving it up closes the connection, with all
 * leases on it, so the op's own deadline does not count. */
static int64_t short_ms(struct sql_locks *locks)
{
    return hfi_after_ms(hfi_now_ms(), locks->store->conf.op_ms);
}

/* Run one statement on a connection of the pool that holds no lease. */
static hf_status run_on_pool(struct sql_locks *locks, const char *template,
                             const struct hfi_name *name, struct sql_rows *ret_rows, hf_error *err)
{
    int64_t until_ms = short_ms(locks);
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_connection *connection;
    char sql[SQL_SQL_ROOM];
    hf_status status;

    if (!sql_lock_fill(locks, template, name, sql, sizeof sql))
        return hfi_error_memory(err);
    status = sql_take(locks->store, until_ms, &connection, err);
    if (status != HF_OK)
        return status;
    status = sql_text(connection, sql, until_ms, ret_rows, &trouble);
    sql_give(connection);
    if (status == HF_UNKNOWN) /* it records or makes a row: repeating it is harmless */
        status = trouble.status == HF_NO_MEMORY ? HF_NO_MEMORY : HF_UNAVAILABLE;
    if (status != HF_OK)
        hfi_error_set(err, status, trouble.error.native, "%s", trouble.error.text);
    return status;
}

/* It becomes part of statements: letters and digits only. */
static void copy_key(const struct sql_value *value, char ret_text[SQL_KNOWN_KEY_MAX + 1])
{
    const char *bytes = value->bytes;

    if ((value->type != SQL_TEXT && value->type != SQL_BYTES) || value->len > SQL_KNOWN_KEY_MAX)
        return;
    for (size_t i = 0; i < value->len; i++)
        if (!isalnum((unsigned char)bytes[i]))
            return;
    memcpy(ret_text, bytes, value->len);
    ret_text[value->len] = 0;
}

/*
 * The key of a lock is a hash of its name: the name is written down beside it, once, so that two names
 * with one key are an error and never one lock. A store remembers what it has found.
 */
static hf_status record(struct sql_locks *locks, const struct hfi_name *name, int64_t *ret_key,
                        hf_error *err)
{
    struct sql_known *known = &locks->known[name->hash[0] % SQL_KNOWN];
    const struct sql_value *value;
    struct sql_rows rows = { 0 };
    char text[SQL_KNOWN_KEY_MAX + 1];
    hf_status status;
    bool found;

    pthread_mutex_lock(&locks->lock);
    found = known->hash[0] == name->hash[0] && known->hash[1] == name->hash[1];
    *ret_key = known->key;
    pthread_mutex_unlock(&locks->lock);
    if (found)
        return HF_OK;
    *ret_key = sql_lock_key(locks, name);
    status = run_on_pool(locks, locks->sql->session_record, name, &rows, err);
    if (status != HF_OK)
        return status;
    value = sql_at(&rows, 0, 0);
    text[0] = 0;
    if (rows.columns > 1)
        copy_key(sql_at(&rows, 0, 1), text);
    if (value->type != SQL_BYTES && value->type != SQL_TEXT)
        status = hfi_error_set(err, HF_UNAVAILABLE, 0, "the name was recorded, and is gone");
    else if (value->len != name->len || memcmp(value->bytes, name->bytes, name->len) != 0)
        status = hfi_error_set(err, HF_CONFIG, 0,
                               "another name has the same lock number here: use another prefix=");
    sql_rows_free(&rows);
    if (status == HF_OK) {
        pthread_mutex_lock(&locks->lock);
        memcpy(known->hash, name->hash, sizeof name->hash);
        known->key = *ret_key;
        memcpy(known->text, text, sizeof text);
        pthread_mutex_unlock(&locks->lock);
    }
    return status;
}

/* mode=row: make the row if it does not exist, since a missing row cannot be locked. *ret_made: it
 * did not exist. */
static hf_status make_row(struct sql_locks *locks, const struct hfi_name *name, bool *ret_made,
                          hf_error *err)
{
    struct sql_rows rows = { 0 };
    hf_status status = run_on_pool(locks, locks->sql->row_known, name, &rows, err);

    if (status != HF_OK)
        return status;
    *ret_made = rows.count == 0;
    sql_rows_free(&rows);
    if (!*ret_made)
        return HF_OK;
    status = run_on_pool(locks, locks->sql->row_add, name, &rows, err);
    if (status == HF_OK)
        sql_rows_free(&rows);
    return status;
}

static hf_status acquire_on_connection(struct sql_locks *locks, struct sql_lock_wait *wait,
                                       hf_error *err)
{
    struct hfi_op *op = wait->op;
    hf_status status = HF_OK;
    bool tried = false, made;
    unsigned again = 0;

    if (locks->store->conf.mode == SQL_MODE_SESSION)
        status = record(locks, &op->claim->name, &wait->key, err);
    while (status == HF_OK) {
        struct sql_lock_connection *lock_conn;
        enum sql_lock_how how;
        enum sql_turn change;

        if (wait->stop != HF_OK)
            return (hf_status)wait->stop;
        status = sql_lock_connection_take(locks, wait, tried, &lock_conn, &how, err);
        if (status != HF_OK)
            break;
        change = ask(locks, wait, lock_conn, how, &status, err);
        sql_lock_connection_give(locks, lock_conn);
        if (change == TURN_GRANTED || change == TURN_FAILED)
            break;
        made = false;
        if (locks->store->conf.mode == SQL_MODE_ROW && wait->stop == HF_OK)
            status = make_row(locks, &op->claim->name, &made, err);
        if (status != HF_OK || wait->stop != HF_OK)
            continue;
        if (change == TURN_BUSY && !made && !op->may_wait)
            return HF_BUSY;
        tried = change == TURN_BUSY && !made;
        if (!tried && ++again > ROUNDS_MAX)
            status = hfi_error_set(err, HF_UNAVAILABLE, 0, "the server ends our statements");
    }
    return status;
}

/* ---- one round ------------------------------------------------------------------------------------------- */

static bool granted(const struct sql_locks *locks, const struct sql_rows *rows,
                    enum sql_lock_how how)
{
    const struct sql_value *value = sql_at(rows, 0, 0);

    if (value->type == SQL_NULL)
        return false;
    /* PostgreSQL's pg_advisory_lock() returns void: its answer is the grant. */
    if (locks->store->conf.mode == SQL_MODE_SESSION &&
        (how == SQL_LOCK_BY_TRY || value->type == SQL_INT))
        return value->number == 1;
    return true;
}

/* From here the watch thread can end it, until unwatch(). */
static void watch_wait(struct sql_locks *locks, struct sql_lock_wait *wait,
                       struct sql_lock_connection *lock_conn)
{
    pthread_mutex_lock(&locks->lock);
    wait->lock_conn = lock_conn;
    wait->act_ms = wait->stop != HF_OK ? 0 : wait->op->deadline_ms;
    wait->cut_ms = 0;
    wait->asked = 0;
    sql_watch_at(locks, wait->act_ms);
    pthread_mutex_unlock(&locks->lock);
}

static void unwatch(struct sql_locks *locks, struct sql_lock_wait *wait)
{
    pthread_mutex_lock(&locks->lock);
    while (wait->interrupting) /* the interrupt must not hit the next statement of this
                                * connection */
        sql_locks_sleep(locks, HFI_NEVER);
    wait->lock_conn = NULL;
    pthread_mutex_unlock(&locks->lock);
}

/* Make sure that the lock is released: a refused statement may have been granted before. */
static bool give_back(struct sql_locks *locks, struct sql_lock_connection *lock_conn,
                      const char *template, const struct hfi_name *name)
{
    struct sql_trouble trouble;
    struct sql_rows rows = { 0 };
    char sql[SQL_SQL_ROOM];
    bool ok = sql_lock_fill(locks, template, name, sql, sizeof sql) &&
              sql_text(lock_conn->connection, sql, short_ms(locks), &rows, &trouble) == HF_OK;

    if (ok)
        sql_rows_free(&rows);
    else
        lock_conn->connection->dead = true; /* then closing the connection releases it */
    lock_conn->connection->in_txn = false;
    return ok;
}

static void keep_lock(struct sql_locks *locks, struct sql_lock_wait *wait,
                      struct sql_lock_connection *lock_conn, int64_t sent_ms)
{
    struct hfi_claim *claim = wait->op->claim;

    claim->token = 0;
    claim->tokens = 1;
    claim->granted_ttl_ms = 0;
    claim->sent_ms = sent_ms;
    pthread_mutex_lock(&locks->lock);
    sql_lock_connection_put(lock_conn, claim, wait->key);
    pthread_mutex_unlock(&locks->lock);
}

/* Interrupted by an administrator, or by us too late? */
static bool was_interrupted(const struct sql_locks *locks, const struct sql_trouble *trouble)
{
    bool text = strlen(locks->sql->interrupted) == 5;

    return trouble->error.native == (int)strtol(locks->sql->interrupted, NULL, text ? 36 : 10);
}

/* One statement about one lock: the prepared call, by its number, where the server has one (not for readers); else the filled
 * template. */
static enum sql_outcome run_lock(struct sql_locks *locks, struct sql_lock_connection *lock_conn,
                                 enum sql_call call, int64_t key, const char *template,
                                 const struct hfi_claim *claim, int64_t deadline_ms,
                                 struct sql_rows *ret_rows, struct sql_trouble *trouble)
{
    struct sql_connection *connection = lock_conn->connection;
    struct sql_value number = sql_int_of(key);
    char sql[SQL_SQL_ROOM];

    if (locks->sql->calls && locks->store->conf.mode == SQL_MODE_SESSION &&
        !sql_lock_is_shared(claim))
        return sql_send(connection, call, &number, 1, deadline_ms, ret_rows, trouble);
    if (sql_lock_fill(locks, template, &claim->name, sql, sizeof sql))
        return locks->store->driver->text(connection, sql, deadline_ms, ret_rows, trouble);
    trouble->status = hfi_error_memory(&trouble->error);
    return SQL_REFUSED;
}

static enum sql_turn ask(struct sql_locks *locks, struct sql_lock_wait *wait,
                         struct sql_lock_connection *lock_conn, enum sql_lock_how how,
                         hf_status *ret_status, hf_error *err)
{
    const struct sql_lock_sql *words = locks->sql;
    bool row = locks->store->conf.mode == SQL_MODE_ROW, has = false;
    const char *templates[3][2] = { { words->session_try, words->session_wait },
                                    { words->row_try, words->row_wait },
                                    { words->shared_try, words->shared_wait } };
    const struct hfi_claim *claim = wait->op->claim;
    int kind = sql_lock_is_shared(claim) ? 2 : row;
    struct sql_trouble trouble = { .status = HF_OK };
    int64_t sent_ms = hfi_now_ms();
    int64_t until_ms = how == SQL_LOCK_BY_WAIT ? HFI_NEVER : short_ms(locks);
    enum sql_outcome outcome;
    struct sql_rows rows = { 0 };

    if (how == SQL_LOCK_BY_WAIT)
        watch_wait(locks, wait, lock_conn);
    outcome = run_lock(locks, lock_conn, how == SQL_LOCK_BY_WAIT ? SQL_LOCK_WAIT : SQL_LOCK_TRY,
                       wait->key, templates[kind][how], claim, until_ms, &rows, &trouble);
    if (how == SQL_LOCK_BY_WAIT)
        unwatch(locks, wait);
    if (outcome == SQL_DONE && (rows.columns != 1 || rows.count > 1 || (!row && rows.count != 1))) {
        trouble.status = sql_odd(lock_conn->connection, "lock", &rows, &trouble.error);
        outcome = SQL_MAYBE; /* if we have the lock, it ends with the connection */
    }
    lock_conn->connection->in_txn = row && (outcome == SQL_DONE || outcome == SQL_REFUSED);
    if (outcome == SQL_DONE) {
        has = granted(locks, &rows, how);
        sql_rows_free(&rows);
    }
    if (has) {
        keep_lock(locks, wait, lock_conn, sent_ms);
        return TURN_GRANTED;
    }
    if ((row || how == SQL_LOCK_BY_WAIT || outcome != SQL_DONE) && !lock_conn->connection->dead)
        give_back(locks, lock_conn, sql_lock_free_words(locks, claim), &claim->name);
    if (outcome == SQL_DONE)
        return how == SQL_LOCK_BY_TRY ? TURN_BUSY : TURN_AGAIN;
    if (wait->stop != HF_OK || outcome == SQL_UNSENT || (outcome == SQL_REFUSED && trouble.again) ||
        was_interrupted(locks, &trouble))
        return TURN_AGAIN; /* the caller checks wait->stop first */
    *ret_status =
        outcome == SQL_REFUSED || trouble.status == HF_NO_MEMORY ? trouble.status : HF_UNAVAILABLE;
    hfi_error_set(err, *ret_status, trouble.error.native, "%s", trouble.error.text);
    return TURN_FAILED;
}

/* ---- tokens=on ------------------------------------------------------------------------------------------- */

/* Raise and commit the token on another connection while we have the lock: a rolled back
 * transaction would undo it. */
static hf_status raise_token(struct sql_store *store, struct hfi_op *op, hf_error *err)
{
    struct hfi_claim *claim = op->claim;
    struct sql_value params[2] = { sql_bytes(claim->name.bytes, claim->name.len), sql_int_of(1) };
    struct sql_request request = { .call = SQL_TOKEN, .params = params, .count = 2, .again = true };
    struct sql_lock_connection *lock_conn;
    hf_status status;

    request.deadline_ms = hfi_after_ms(hfi_now_ms(), store->conf.op_ms);
    status = sql_call(store, &request);
    if (status == HF_OK) {
        if (request.rows.count > 0)
            claim->token = (uint64_t)sql_int(&request.rows, 0, 0);
        sql_rows_free(&request.rows);
        if (claim->token != 0)
            return HF_OK;
        status = hfi_error_set(err, HF_FULL, 0, "no token is left for this name");
    } else {
        if (status == HF_UNKNOWN) /* an unused token does no harm */
            status = request.trouble.status == HF_NO_MEMORY ? HF_NO_MEMORY : HF_UNAVAILABLE;
        hfi_error_set(err, status, request.trouble.error.native, "%s", request.trouble.error.text);
    }
    lock_conn = sql_lock_connection_of(store->locks, claim);
    if (lock_conn) {
        (void)free_lock(store->locks, lock_conn, claim,
                        hfi_after_ms(hfi_now_ms(), store->conf.op_ms), NULL);
        sql_lock_connection_give(store->locks, lock_conn);
    }
    return status;
}

/* ---- release ---------------------------------------------------------------------------------------------- */

static hf_status free_lock(struct sql_locks *locks, struct sql_lock_connection *lock_conn,
                           struct hfi_claim *claim, int64_t deadline_ms, hf_error *err)
{
    bool row = locks->store->conf.mode == SQL_MODE_ROW;
    const char *template = sql_lock_free_words(locks, claim);
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_rows rows = { 0 };
    enum sql_outcome outcome;
    bool freed;

    lock_conn->connection->in_txn = false;
    for (int tries = 0; tries < FREE_TRIES; tries++) {
        outcome = run_lock(locks, lock_conn, SQL_LOCK_FREE, sql_lock_claim(claim)->key, template,
                           claim, deadline_ms, &rows, &trouble);
        if (outcome != SQL_REFUSED || !trouble.again)
            break;
    }
    if (outcome != SQL_DONE) {
        lock_conn->connection->dead =
            true; /* it ends with the connection, whatever the statement did */
        return hfi_error_set(err, trouble.status == HF_NO_MEMORY ? HF_NO_MEMORY : HF_UNKNOWN,
                             trouble.error.native, "%s", trouble.error.text);
    }
    freed = row || sql_int(&rows, 0, 0) == 1;
    sql_rows_free(&rows);
    return freed ? HF_OK : HF_LOST;
}

static void release(struct sql_store *store, struct hfi_op *op)
{
    struct sql_locks *locks = store->locks;
    struct sql_lock_connection *lock_conn;
    hf_error err = { .status = HF_OK };
    hf_status status = HF_LOST;

    sql_unshare_wait(locks, NULL);
    lock_conn = sql_lock_connection_of(locks, op->claim);
    if (lock_conn) {
        status = free_lock(locks, lock_conn, op->claim, op->deadline_ms, &err);
        sql_lock_connection_give(locks, lock_conn);
    }
    if (status == HF_OK && store->conf.tokens)
        sql_sweep_released(store);
    sql_finish(op, status, &err);
}
