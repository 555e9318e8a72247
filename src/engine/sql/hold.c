/* SPDX-License-Identifier: MIT */
/*
 * mode=row and mode=session: the ops. A lease has no ttl and is never renewed: it is a lock of the
 * server's, and ends when it is released or its connection ends; see hold.h.
 *
 * What an acquire answers is never HF_UNKNOWN: if its connection is lost, what was granted to it is lost
 * with it, and nobody can use it.
 */
#include "engine/sql/hold.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 8 /* rows that vanish, interrupts that were not ours: more is not an accident */

/* What one round of asking the server came to. */
enum sql_turn {
    TURN_GRANTED,
    TURN_BUSY,  /* somebody has it */
    TURN_AGAIN, /* nobody's fault: the statement was ended, or the row is not there (any more) */
    TURN_FAILED
};

static void acquire(struct hfi_conn *conn, struct hfi_op *op);
static hf_status acquire_seated(struct sql_hold *hold, struct sql_stay *stay, hf_error *err);
static enum sql_turn ask(struct sql_hold *hold, struct sql_stay *stay, struct sql_seat *seat,
                         enum sql_way way, hf_status *ret_status, hf_error *err);
static void release(struct hfi_conn *conn, struct hfi_op *op);
static hf_status raise_token(struct hfi_conn *conn, struct hfi_op *op, hf_error *err);
static hf_status free_lock(struct sql_hold *hold, struct sql_seat *seat, struct hfi_claim *claim,
                           int64_t deadline_ms, hf_error *err);

/* ---- open, close ------------------------------------------------------------------------------------ */

static hf_status init(struct sql_hold *hold, hf_error *err)
{
    struct epoll_event event = { .events = EPOLLIN };
    const struct sql_conf *conf = &hold->conn->conf;
    pthread_condattr_t attr;

    pthread_mutex_init(&hold->lock, NULL);
    pthread_mutex_init(&hold->tell_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&hold->changed, &attr);
    pthread_condattr_destroy(&attr);
    hold->words->table(conf->schema, conf->prefix, hold->words->names, hold->names);
    hold->words->table(conf->schema, conf->prefix, hold->words->rows, hold->rows);
    hold->words->table(conf->schema, conf->prefix, "lock_waits", hold->waits);
    hold->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    hold->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hold->epoll_fd < 0 || hold->kick_fd < 0 ||
        epoll_ctl(hold->epoll_fd, EPOLL_CTL_ADD, hold->kick_fd, &event) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "no descriptor to be had: %s",
                             strerror(errno));
    return HF_OK;
}

hf_status sql_hold_open(struct hfi_conn *conn, hf_error *err)
{
    struct sql_hold *hold;

    if (conn->conf.connections < 2)
        return hfi_error_set(err, HF_CONFIG, 0,
                             "connections: mode=row and mode=session need 2 at least");
    hold = hfi_calloc(1, sizeof *hold);
    if (!hold)
        return hfi_error_memory(err);
    conn->hold = hold;
    hold->conn = conn;
    hold->words = conn->driver->hold;
    hold->limit = conn->conf.connections - 1; /* one stays with the pool */
    hold->seat_max = conn->conf.mode == SQL_MODE_ROW ? 1 : SQL_SEAT_MAX;
    return init(hold, err);
}

void sql_hold_close(struct hfi_conn *conn)
{
    struct sql_hold *hold = conn->hold;

    if (!hold)
        return;
    sql_watch_stop(hold);
    while (hold->seats) {
        hold->seats->count = 0; /* what core could not give back: it has forgotten it */
        sql_seat_end(hold, hold->seats, "");
    }
    if (hold->epoll_fd >= 0)
        close(hold->epoll_fd);
    if (hold->kick_fd >= 0)
        close(hold->kick_fd);
    pthread_mutex_destroy(&hold->lock);
    pthread_mutex_destroy(&hold->tell_lock);
    pthread_cond_destroy(&hold->changed);
    hfi_free(hold);
    conn->hold = NULL;
}

/* The links themselves are in conn's list. */
void sql_hold_abandon(struct hfi_conn *conn)
{
    struct sql_hold *hold = conn->hold;

    if (!hold)
        return;
    for (struct sql_seat *seat = hold->seats; seat; seat = seat->next)
        close(seat->fd);
    close(hold->epoll_fd);
    close(hold->kick_fd);
}

/* ---- ops ---------------------------------------------------------------------------------------------- */

static void renew(struct sql_hold *hold, struct hfi_op *op)
{
    pthread_mutex_lock(&hold->lock);
    for (size_t i = 0; i < op->u.renew.count; i++) {
        struct hfi_renewal *item = &op->u.renew.items[i];

        item->status = sql_lock_claim(item->claim)->seat ? HF_OK : HF_LOST;
        item->claim->granted_ttl_ms = 0;
        item->claim->sent_ms = hfi_now_ms();
    }
    pthread_mutex_unlock(&hold->lock);
    sql_finish(op, HF_OK, NULL);
}

void sql_hold_submit(struct hfi_conn *conn, struct hfi_op *op)
{
    switch (op->kind) {
    case HFI_OP_ACQUIRE:
        acquire(conn, op);
        return;
    case HFI_OP_RELEASE:
        release(conn, op);
        return;
    case HFI_OP_RENEW:
        renew(conn->hold, op);
        return;
    case HFI_OP_INSPECT:
        sql_hold_look(conn, op);
        return;
    default:
        sql_finish(op, HF_UNSUPPORTED, NULL);
        return;
    }
}

void sql_hold_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    struct sql_hold *hold = conn->hold;

    pthread_mutex_lock(&hold->lock);
    for (struct sql_stay *stay = hold->stays; stay; stay = stay->next)
        if (stay->op == op && stay->stop == HF_OK) {
            stay->stop = status;
            stay->act_ms = hfi_now_ms();
            sql_watch_at(hold, stay->act_ms);
            pthread_cond_broadcast(&hold->changed);
        }
    pthread_mutex_unlock(&hold->lock);
}

/* ---- acquire ------------------------------------------------------------------------------------------- */

static hf_status enter(struct sql_hold *hold, struct sql_stay *stay, hf_error *err)
{
    hf_status status = HF_OK;

    pthread_mutex_lock(&hold->lock);
    if (sql_watch_start(hold)) {
        stay->next = hold->stays;
        hold->stays = stay;
        stay->stop = atomic_load(&stay->op->stop); /* cancel() may have been here before */
    } else {
        status = hfi_error_memory(err);
    }
    pthread_mutex_unlock(&hold->lock);
    return status;
}

static void leave(struct sql_hold *hold, struct sql_stay *stay)
{
    struct sql_stay **at = &hold->stays;

    pthread_mutex_lock(&hold->lock);
    while (*at != stay)
        at = &(*at)->next;
    *at = stay->next;
    pthread_mutex_unlock(&hold->lock);
}

static void acquire(struct hfi_conn *conn, struct hfi_op *op)
{
    struct sql_hold *hold = conn->hold;
    struct sql_stay stay = { .op = op, .act_ms = HFI_NEVER };
    hf_error err = { .status = HF_OK };
    hf_status status = enter(hold, &stay, &err);

    if (status == HF_OK) {
        status = acquire_seated(hold, &stay, &err);
        leave(hold, &stay);
        sql_take_back(hold, &stay);
    }
    if (status == HF_OK && conn->conf.tokens)
        status = raise_token(conn, op, &err);
    sql_finish(op, status, &err);
}

/* How long a statement may take that waits for nobody: cut off later, it would take a seat's other leases
 * with it, so the op's own deadline does not count. */
static int64_t short_ms(struct sql_hold *hold)
{
    return hfi_after_ms(hfi_now_ms(), hold->conn->conf.op_ms);
}

/* One statement on a link of the pool, which has nothing to do with any lease. */
static hf_status aside(struct sql_hold *hold, const char *template, const struct hfi_name *name,
                       struct sql_rows *ret_rows, hf_error *err)
{
    int64_t until_ms = short_ms(hold);
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_link *link;
    char sql[SQL_SQL_ROOM];
    hf_status status;

    if (!sql_hold_fill(hold, template, name, sql, sizeof sql))
        return hfi_error_memory(err);
    status = sql_take(hold->conn, until_ms, &link, err);
    if (status != HF_OK)
        return status;
    status = sql_text(link, sql, until_ms, ret_rows, &trouble);
    sql_give(link);
    if (status == HF_UNKNOWN) /* it names or makes a row, and may do so twice */
        status = trouble.status == HF_NO_MEMORY ? HF_NO_MEMORY : HF_UNAVAILABLE;
    if (status != HF_OK)
        hfi_error_set(err, status, trouble.error.native, "%s", trouble.error.text);
    return status;
}

/*
 * The key of a lock is a hash of its name: the name is written down beside it, once, so that two names
 * with one key are an error and never one lock. Who has looked remembers it.
 */
static hf_status record(struct sql_hold *hold, const struct hfi_name *name, hf_error *err)
{
    uint64_t *known = hold->known[name->hash[0] % SQL_KNOWN];
    const struct sql_value *value;
    struct sql_rows rows = { 0 };
    hf_status status;
    bool found;

    pthread_mutex_lock(&hold->lock);
    found = known[0] == name->hash[0] && known[1] == name->hash[1];
    pthread_mutex_unlock(&hold->lock);
    if (found)
        return HF_OK;
    status = aside(hold, hold->words->session_record, name, &rows, err);
    if (status != HF_OK)
        return status;
    value = sql_at(&rows, 0, 0);
    if (value->type != SQL_BYTES && value->type != SQL_TEXT)
        status = hfi_error_set(err, HF_UNAVAILABLE, 0, "the name was recorded, and is gone");
    else if (value->len != name->len || memcmp(value->bytes, name->bytes, name->len) != 0)
        status = hfi_error_set(err, HF_CONFIG, 0,
                               "another name has the same lock number here: use another prefix=");
    sql_rows_free(&rows);
    if (status == HF_OK) {
        pthread_mutex_lock(&hold->lock);
        memcpy(known, name->hash, sizeof name->hash);
        pthread_mutex_unlock(&hold->lock);
    }
    return status;
}

/* mode=row: a row that is not there locks nothing. *ret_made: it was not there. */
static hf_status make_row(struct sql_hold *hold, const struct hfi_name *name, bool *ret_made,
                          hf_error *err)
{
    struct sql_rows rows = { 0 };
    hf_status status = aside(hold, hold->words->row_known, name, &rows, err);

    if (status != HF_OK)
        return status;
    *ret_made = rows.count == 0;
    sql_rows_free(&rows);
    if (!*ret_made)
        return HF_OK;
    status = aside(hold, hold->words->row_add, name, &rows, err);
    if (status == HF_OK)
        sql_rows_free(&rows);
    return status;
}

static hf_status acquire_seated(struct sql_hold *hold, struct sql_stay *stay, hf_error *err)
{
    struct hfi_op *op = stay->op;
    hf_status status = HF_OK;
    bool tried = false, made;
    unsigned again = 0;

    if (hold->conn->conf.mode == SQL_MODE_SESSION)
        status = record(hold, &op->claim->name, err);
    while (status == HF_OK) {
        struct sql_seat *seat;
        enum sql_way way;
        enum sql_turn turn;

        if (stay->stop != HF_OK)
            return (hf_status)stay->stop;
        status = sql_seat_take(hold, stay, tried, &seat, &way, err);
        if (status != HF_OK)
            break;
        turn = ask(hold, stay, seat, way, &status, err);
        sql_seat_give(hold, seat);
        if (turn == TURN_GRANTED || turn == TURN_FAILED)
            break;
        made = false;
        if (hold->conn->conf.mode == SQL_MODE_ROW && stay->stop == HF_OK)
            status = make_row(hold, &op->claim->name, &made, err);
        if (status != HF_OK || stay->stop != HF_OK)
            continue;
        if (turn == TURN_BUSY && !made && !op->may_wait)
            return HF_BUSY;
        tried = turn == TURN_BUSY && !made;
        if (!tried && ++again > ROUNDS_MAX)
            status = hfi_error_set(err, HF_UNAVAILABLE, 0, "the server ends our statements");
    }
    return status;
}

/* ---- one round ------------------------------------------------------------------------------------------- */

static bool granted(const struct sql_hold *hold, const struct sql_rows *rows, enum sql_way way)
{
    const struct sql_value *value = sql_at(rows, 0, 0);

    if (value->type == SQL_NULL)
        return false;
    /* PostgreSQL's pg_advisory_lock() is void: that it answers is the grant. */
    if (hold->conn->conf.mode == SQL_MODE_SESSION && (way == SQL_WAY_TRY || value->type == SQL_INT))
        return value->number == 1;
    return true;
}

/* From here the watch thread can end it, until unwatch(). */
static void watch_stay(struct sql_hold *hold, struct sql_stay *stay, struct sql_seat *seat)
{
    pthread_mutex_lock(&hold->lock);
    stay->seat = seat;
    stay->act_ms = stay->stop != HF_OK ? 0 : stay->op->deadline_ms;
    stay->cut_ms = 0;
    stay->asked = 0;
    sql_watch_at(hold, stay->act_ms);
    pthread_mutex_unlock(&hold->lock);
}

static void unwatch(struct sql_hold *hold, struct sql_stay *stay)
{
    pthread_mutex_lock(&hold->lock);
    while (stay->interrupting) /* it may not hit the next statement of this connection */
        sql_hold_sleep(hold, HFI_NEVER);
    stay->seat = NULL;
    pthread_mutex_unlock(&hold->lock);
}

/* A statement that was refused may have been granted before: this is certain. */
static bool give_back(struct sql_hold *hold, struct sql_seat *seat, const char *template,
                      const struct hfi_name *name)
{
    struct sql_trouble trouble;
    struct sql_rows rows = { 0 };
    char sql[SQL_SQL_ROOM];
    bool ok = sql_hold_fill(hold, template, name, sql, sizeof sql) &&
              sql_text(seat->link, sql, short_ms(hold), &rows, &trouble) == HF_OK;

    if (ok)
        sql_rows_free(&rows);
    else
        seat->link->dead = true; /* then the connection takes it along */
    seat->link->in_txn = false;
    return ok;
}

static void hold_it(struct sql_hold *hold, struct sql_stay *stay, struct sql_seat *seat,
                    int64_t sent_ms)
{
    struct hfi_claim *claim = stay->op->claim;

    claim->token = 0;
    claim->tokens = 1;
    claim->granted_ttl_ms = 0;
    claim->sent_ms = sent_ms;
    pthread_mutex_lock(&hold->lock);
    sql_seat_put(seat, claim);
    pthread_mutex_unlock(&hold->lock);
}

/* By an administrator, or by us, too late. */
static bool was_interrupted(const struct sql_hold *hold, const struct sql_trouble *trouble)
{
    bool text = strlen(hold->words->interrupted) == 5;

    return trouble->error.native == (int)strtol(hold->words->interrupted, NULL, text ? 36 : 10);
}

static enum sql_outcome number_call(struct sql_hold *hold, struct sql_seat *seat,
                                    enum sql_call call, const struct hfi_name *name,
                                    int64_t deadline_ms, struct sql_rows *ret_rows,
                                    struct sql_trouble *trouble)
{
    struct sql_value key = sql_int_of(sql_hold_key(hold, name));

    return sql_send(seat->link, call, &key, 1, deadline_ms, ret_rows, trouble);
}

static enum sql_turn ask(struct sql_hold *hold, struct sql_stay *stay, struct sql_seat *seat,
                         enum sql_way way, hf_status *ret_status, hf_error *err)
{
    const struct sql_hold_words *words = hold->words;
    bool row = hold->conn->conf.mode == SQL_MODE_ROW, has = false;
    const char *templates[2][2] = { { words->session_try, words->session_wait },
                                    { words->row_try, words->row_wait } };
    const struct hfi_name *name = &stay->op->claim->name;
    struct sql_trouble trouble = { .status = HF_OK };
    int64_t sent_ms = hfi_now_ms();
    enum sql_outcome outcome;
    struct sql_rows rows = { 0 };
    char sql[SQL_SQL_ROOM];

    if (!sql_hold_fill(hold, templates[row][way], name, sql, sizeof sql)) {
        *ret_status = hfi_error_memory(err);
        return TURN_FAILED;
    }
    if (way == SQL_WAY_WAIT)
        watch_stay(hold, stay, seat);
    if (way == SQL_WAY_TRY && !row && words->calls)
        outcome = number_call(hold, seat, SQL_LOCK_TRY, name, short_ms(hold), &rows, &trouble);
    else
        outcome = hold->conn->driver->text(
            seat->link, sql, way == SQL_WAY_WAIT ? HFI_NEVER : short_ms(hold), &rows, &trouble);
    if (way == SQL_WAY_WAIT)
        unwatch(hold, stay);
    if (outcome == SQL_DONE && (rows.columns != 1 || rows.count > 1 || (!row && rows.count != 1))) {
        trouble.status = sql_odd(seat->link, "lock", &rows, &trouble.error);
        outcome = SQL_MAYBE; /* it ends with its connection, if it is ours */
    }
    seat->link->in_txn = row && (outcome == SQL_DONE || outcome == SQL_REFUSED);
    if (outcome == SQL_DONE) {
        has = granted(hold, &rows, way);
        sql_rows_free(&rows);
    }
    if (has) {
        hold_it(hold, stay, seat, sent_ms);
        return TURN_GRANTED;
    }
    if ((row || way == SQL_WAY_WAIT || outcome != SQL_DONE) && !seat->link->dead)
        give_back(hold, seat, row ? words->row_free : words->session_free, name);
    if (outcome == SQL_DONE)
        return way == SQL_WAY_TRY ? TURN_BUSY : TURN_AGAIN;
    if (stay->stop != HF_OK || outcome == SQL_UNSENT || (outcome == SQL_REFUSED && trouble.again) ||
        was_interrupted(hold, &trouble))
        return TURN_AGAIN; /* the caller looks at stay->stop first */
    *ret_status =
        outcome == SQL_REFUSED || trouble.status == HF_NO_MEMORY ? trouble.status : HF_UNAVAILABLE;
    hfi_error_set(err, *ret_status, trouble.error.native, "%s", trouble.error.text);
    return TURN_FAILED;
}

/* ---- tokens=on ------------------------------------------------------------------------------------------- */

/* Raised and committed on another connection while the lock is ours: a transaction that is rolled back
 * would take it back. */
static hf_status raise_token(struct hfi_conn *conn, struct hfi_op *op, hf_error *err)
{
    struct hfi_claim *claim = op->claim;
    struct sql_value params[2] = { sql_bytes(claim->name.bytes, claim->name.len), sql_int_of(1) };
    struct sql_request request = { .call = SQL_TOKEN, .params = params, .count = 2, .again = true };
    struct sql_seat *seat;
    hf_status status;

    request.deadline_ms = hfi_after_ms(hfi_now_ms(), conn->conf.op_ms);
    status = sql_call(conn, &request);
    if (status == HF_OK) {
        if (request.rows.count > 0)
            claim->token = (uint64_t)sql_int(&request.rows, 0, 0);
        sql_rows_free(&request.rows);
        if (claim->token != 0)
            return HF_OK;
        status = hfi_error_set(err, HF_FULL, 0, "no token is left for this name");
    } else {
        if (status == HF_UNKNOWN) /* a token that nobody got harms nobody */
            status = request.trouble.status == HF_NO_MEMORY ? HF_NO_MEMORY : HF_UNAVAILABLE;
        hfi_error_set(err, status, request.trouble.error.native, "%s", request.trouble.error.text);
    }
    seat = sql_seat_of(conn->hold, claim);
    if (seat) {
        (void)free_lock(conn->hold, seat, claim, hfi_after_ms(hfi_now_ms(), conn->conf.op_ms),
                        NULL);
        sql_seat_give(conn->hold, seat);
    }
    return status;
}

/* ---- release ---------------------------------------------------------------------------------------------- */

static hf_status free_lock(struct sql_hold *hold, struct sql_seat *seat, struct hfi_claim *claim,
                           int64_t deadline_ms, hf_error *err)
{
    bool row = hold->conn->conf.mode == SQL_MODE_ROW;
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_rows rows = { 0 };
    char sql[SQL_SQL_ROOM];
    hf_status status;
    bool freed;

    if (!sql_hold_fill(hold, row ? hold->words->row_free : hold->words->session_free, &claim->name,
                       sql, sizeof sql)) {
        seat->link->dead = true; /* it has to end; so it ends with its connection */
        return hfi_error_memory(err);
    }
    seat->link->in_txn = false;
    if (!row && hold->words->calls)
        status = number_call(hold, seat, SQL_LOCK_FREE, &claim->name, deadline_ms, &rows,
                             &trouble) == SQL_DONE
                     ? HF_OK
                     : HF_UNKNOWN;
    else
        status = sql_text(seat->link, sql, deadline_ms, &rows, &trouble);
    if (status != HF_OK) {
        seat->link->dead = true; /* it ends with the connection, whatever became of the statement */
        return hfi_error_set(err, trouble.status == HF_NO_MEMORY ? HF_NO_MEMORY : HF_UNKNOWN,
                             trouble.error.native, "%s", trouble.error.text);
    }
    freed = row || sql_int(&rows, 0, 0) == 1;
    sql_rows_free(&rows);
    return freed ? HF_OK : HF_LOST;
}

static void release(struct hfi_conn *conn, struct hfi_op *op)
{
    struct sql_hold *hold = conn->hold;
    struct sql_seat *seat;
    hf_error err = { .status = HF_OK };
    hf_status status = HF_LOST;

    sql_take_back(hold, NULL);
    seat = sql_seat_of(hold, op->claim);
    if (seat) {
        status = free_lock(hold, seat, op->claim, op->deadline_ms, &err);
        sql_seat_give(hold, seat);
    }
    sql_finish(op, status, &err);
}
