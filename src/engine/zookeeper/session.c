/* SPDX-License-Identifier: MIT */
/*
 * The library's handle, which is one session: connecting, its end, heartbeats. With the lock; by the
 * driver, or when nobody drives.
 *
 * The library reconnects by itself, to one server after the other, but it gives each of them two thirds
 * of the timeout to say something. A lease would not survive two that are silent. So a connection that
 * does not come about, or on which nothing that we asked the leader is answered, is shut down after a
 * smaller part of the timeout; the library finds it broken and goes on to the next server.
 *
 * Heartbeats are our own: the library's pings are answered by a server that is cut off from the leader.
 */
#include "engine/zookeeper/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define DIAL_PARTS  6   /* a connection attempt may take this part of the timeout ... */
#define EXPLAIN_MS  200 /* to find out why a store could not be opened */
#define DIAL_MIN_MS 1000

static const char disconnected[] = "the session with ZooKeeper is disconnected";

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context);
static void quiet(const char *message);

static void auth_done(int rc, const void *data)
{
    struct hfi_conn *conn = (struct hfi_conn *)(uintptr_t)data; /* NOLINT: the library's const */

    if (rc == ZAUTHFAILED || rc == ZNOAUTH) {
        conn->denied = true;
        hfi_error_set(&conn->why, HF_DENIED, rc, "the server refused our user or password");
    }
}

static hf_status new_handle(struct hfi_conn *conn, hf_error *err)
{
    int64_t now_ms = hfi_now_ms();

    zk_library_use();
    zk_library_lock();
    conn->zh = zookeeper_init2(conn->servers.text, on_session, (int)conn->conf->timeout_ms, NULL,
                               conn, ZOO_NO_LOG_CLIENTENV, quiet);
    if (conn->zh && conn->conf->auth)
        zoo_add_auth(conn->zh, "digest", conn->conf->auth, (int)strlen(conn->conf->auth), auth_done,
                     conn);
    zk_library_unlock();
    if (!conn->zh)
        return hfi_error_set(err, HF_UNAVAILABLE, 0, "the library makes no handle: %s",
                             strerror(errno));
    zoo_set_servers_resolution_delay(conn->zh, -1); /* they are addresses */
    conn->connected = conn->fresh = conn->expired = false;
    conn->begun_ms = conn->primed_ms = now_ms;
    conn->asking = 0;
    conn->asked_ms = HFI_NEVER;
    return HF_OK;
}

/* Everything that is under way is answered from here. */
static void close_handle(struct hfi_conn *conn)
{
    if (!conn->zh)
        return;
    zk_library_lock();
    zookeeper_close(conn->zh);
    zk_library_unlock();
    conn->zh = NULL;
}

static void quiet(const char *message)
{
    (void)message; /* a library never prints */
}

/* ---- events ------------------------------------------------------------------------------------- */

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    struct hfi_conn *conn = context;

    (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    if (state == ZOO_CONNECTED_STATE) {
        zk_validity_begin(&conn->validity, conn->primed_ms, zoo_recv_timeout(zh));
        atomic_store(&conn->reactor.host->max_ttl_ms, conn->validity.timeout_ms);
        conn->connected = conn->fresh = true;
        conn->beat_ms = hfi_now_ms() + conn->validity.timeout_ms / ZK_BEATS;
        return;
    }
    if (state == ZOO_EXPIRED_SESSION_STATE)
        conn->expired = true;
    else if (state == ZOO_AUTH_FAILED_STATE)
        auth_done(ZAUTHFAILED, conn);
    else if (conn->connected || !hfi_list_empty(&conn->claim_nodes))
        conn->reactor.doubt = disconnected; /* leases are AT_RISK until a renewal is answered */
    conn->connected = false;
}

/*
 * After every call of the library, which began at before_ms. If the handshake was sent in it, that was
 * not before then: the session's time is counted from there.
 */
void zk_session_look(struct hfi_conn *conn, int64_t before_ms)
{
    int state = zoo_state(conn->zh);

    if (state == ZOO_EXPIRED_SESSION_STATE)
        conn->expired = true;
    if (state == ZOO_CONNECTED_STATE && !conn->expired)
        return;
    if (conn->connected) {
        conn->connected = false;
        conn->reactor.doubt = disconnected;
    }
    if (state != ZOO_ASSOCIATING_STATE && state != ZOO_CONNECTED_STATE)
        conn->primed_ms = before_ms; /* not yet */
    /* 0 after a failure. The library has closed its socket, and the number may be another's by now. */
    if ((state == 0 || state == ZOO_NOTCONNECTED_STATE) && conn->socket_fd >= 0) {
        conn->socket_fd = -1;
        conn->begun_ms = before_ms;
        conn->library_due_ms = 0; /* let it connect */
    }
}

/* ---- ticking ------------------------------------------------------------------------------------- */

static int64_t dial_ms(const struct hfi_conn *conn)
{
    int64_t dial_ms = conn->conf->timeout_ms / DIAL_PARTS;

    return dial_ms > DIAL_MIN_MS ? dial_ms : DIAL_MIN_MS;
}

void zk_session_drop(struct hfi_conn *conn)
{
    if (conn->socket_fd >= 0)
        (void)shutdown(conn->socket_fd, SHUT_RDWR);
    if (conn->connected) {
        conn->reactor.doubt = disconnected;
        hfi_error_set(&conn->why, HF_UNAVAILABLE, 0, "no answer from the server");
    }
    conn->connected = false;
    conn->begun_ms = hfi_now_ms();
    conn->library_due_ms = 0; /* let the library see it */
}

/* A new session instead of the one that has ended. What was under way is answered by closing it. */
static void renew_session(struct hfi_conn *conn)
{
    struct hfi_list *next;
    hf_error err;

    conn->connected = false;
    conn->socket_fd = -1;
    close_handle(conn);
    for (struct hfi_list *at = conn->claim_nodes.next; at != &conn->claim_nodes; at = next) {
        next = at->next;
        zk_claim_node_expire(hfi_container(at, struct zk_claim_node, listed));
    }
    zk_cells_expire(conn);
    hfi_error_set(&conn->why, HF_UNAVAILABLE, 0, "the session has expired");
    if (new_handle(conn, &err) != HF_OK)
        conn->begun_ms = hfi_now_ms(); /* again at the next tick */
}

static void resume(struct hfi_conn *conn)
{
    struct hfi_list *next;
    struct hfi_op *op;

    conn->fresh = false;
    for (struct hfi_list *at = conn->claim_nodes.next; at != &conn->claim_nodes; at = next) {
        next = at->next;
        zk_claim_node_resume(hfi_container(at, struct zk_claim_node, listed));
    }
    /* Connecting went to the leader: it has renewed everything. */
    zk_renewals_confirmed(conn, INT64_MAX);
    while (conn->connected && (op = conn->parked)) {
        conn->parked = zk_op(op)->next;
        zk_begin(conn, op);
    }
}

void zk_session_tick(struct hfi_conn *conn, int64_t now_ms)
{
    zk_failed_calls(conn);
    if (conn->denied)
        return;
    if (conn->expired || !conn->zh)
        renew_session(conn);
    if (conn->connected && conn->fresh)
        resume(conn);
    if (conn->connected && now_ms >= conn->beat_ms && conn->asking == 0)
        zk_beat(conn);
    if (conn->connected && conn->asked_ms != HFI_NEVER &&
        now_ms - conn->asked_ms >= conn->validity.timeout_ms / ZK_STALL)
        zk_session_drop(conn);
    if (!conn->connected && conn->socket_fd >= 0 && now_ms - conn->begun_ms >= dial_ms(conn))
        zk_session_drop(conn);
}

int64_t zk_session_next_ms(const struct hfi_conn *conn)
{
    int64_t next_ms = conn->library_due_ms;

    if (conn->denied)
        return HFI_NEVER;
    if (conn->failed || conn->expired || !conn->zh || (conn->connected && conn->fresh))
        return 0;
    if (!conn->connected)
        return conn->begun_ms + dial_ms(conn) < next_ms ? conn->begun_ms + dial_ms(conn) : next_ms;
    if (conn->asking == 0 && conn->beat_ms < next_ms)
        next_ms = conn->beat_ms;
    if (conn->asked_ms != HFI_NEVER &&
        conn->asked_ms + conn->validity.timeout_ms / ZK_STALL < next_ms)
        next_ms = conn->asked_ms + conn->validity.timeout_ms / ZK_STALL;
    return next_ms;
}

/* ---- open and close -------------------------------------------------------------------------------- */

hf_status zk_session_open(struct hfi_conn *conn, hf_error *err)
{
    int64_t until_ms = conn->reactor.host->open_deadline_ms;
    hf_status status = zk_servers_resolve(conn->conf, until_ms, &conn->servers, err);

    if (status != HF_OK)
        return status;
    hfi_error_set(&conn->why, HF_UNAVAILABLE, 0, "no server answers");
    if (conn->reactor.host->open_once && zk_servers_refuse(&conn->servers, until_ms, err))
        return HF_UNAVAILABLE;
    hfi_reactor_enter(&conn->reactor);
    status = new_handle(conn, err);
    hfi_reactor_leave_quietly(&conn->reactor, false);
    while (status == HF_OK && !conn->connected && !conn->denied) {
        if (hfi_now_ms() >= until_ms) /* the library does not say why */
            return zk_servers_refuse(&conn->servers, hfi_now_ms() + EXPLAIN_MS, err)
                       ? HF_UNAVAILABLE
                       : hfi_error_set(err, HF_UNAVAILABLE, conn->why.native, "%s", conn->why.text);
        hfi_reactor_turn(&conn->reactor, until_ms);
    }
    if (status == HF_OK && conn->denied)
        return hfi_error_set(err, HF_DENIED, conn->why.native, "%s", conn->why.text);
    return status;
}

void zk_session_close(struct hfi_conn *conn)
{
    conn->connected = false;
    close_handle(conn); /* ends the session, and so deletes what is left of its nodes */
    zk_failed_calls(conn);
}
