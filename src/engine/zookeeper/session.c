/* SPDX-License-Identifier: MIT */
/*
 * The library's handle, which is one session: connecting, expiry, heartbeats. With the lock, on the
 * thread that drives, or while no thread drives.
 *
 * The library reconnects by itself, to one server after the other, but it gives each of them two
 * thirds of the timeout to answer. A lease would not survive two silent servers. So a connection
 * that is not established, or on which a request for the leader is not answered, is shut down after
 * a smaller part of the timeout; the library finds it broken and tries the next server.
 *
 * Heartbeats are our own requests to the leader: the library's pings are answered even by a server
 * that is cut off from the leader.
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
#define AWAY_MAX    3 /* handshakes that end with a hang-up, until the session counts as ended */

static const char disconnected[] = "the session with ZooKeeper is disconnected";

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context);
static void quiet(const char *message);

static void auth_done(int rc, const void *data)
{
    struct zk_store *store = (struct zk_store *)(uintptr_t)data; /* NOLINT: the library's const */

    if (rc == ZAUTHFAILED || rc == ZNOAUTH) {
        store->denied = true;
        hfi_error_set(&store->why, HF_DENIED, rc, "the server refused our user or password");
    }
}

static hf_status new_handle(struct zk_store *store, hf_error *err)
{
    int64_t now_ms = hfi_now_ms();

    zk_library_use();
    zk_library_lock();
    store->zh = zookeeper_init2(store->servers.text, on_session, (int)store->conf->timeout_ms, NULL,
                                store, ZOO_NO_LOG_CLIENTENV, quiet);
    if (store->zh && store->conf->auth)
        zoo_add_auth(store->zh, "digest", store->conf->auth, (int)strlen(store->conf->auth),
                     auth_done, store);
    zk_library_unlock();
    if (!store->zh)
        return hfi_error_set(err, HF_UNAVAILABLE, 0, "the library makes no handle: %s",
                             strerror(errno));
    zoo_set_servers_resolution_delay(store->zh, -1); /* they are addresses */
    store->connected = store->fresh = store->expired = store->greeting = false;
    store->turned_away = 0;
    store->begun_ms = store->primed_ms = now_ms;
    store->asking = 0;
    store->asked_ms = HFI_NEVER;
    return HF_OK;
}

/* Closing answers every request that is under way. */
static void close_handle(struct zk_store *store)
{
    if (!store->zh)
        return;
    zk_library_lock();
    zookeeper_close(store->zh);
    zk_library_unlock();
    store->zh = NULL;
}

static void quiet(const char *message)
{
    (void)message; /* a library never prints */
}

/* ---- events ------------------------------------------------------------------------------------- */

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    struct zk_store *store = context;

    (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    if (state == ZOO_CONNECTED_STATE) {
        zk_validity_begin(&store->validity, store->primed_ms, zoo_recv_timeout(zh));
        atomic_store(&store->reactor.host->max_ttl_ms, store->validity.timeout_ms);
        if (store->met)
            hfi_host_reconnected(store->reactor.host);
        store->met = store->connected = store->fresh = true;
        store->greeting = false;
        store->turned_away = 0;
        store->heard_ms = hfi_now_ms();
        store->beat_ms = store->heard_ms + store->validity.timeout_ms / ZK_BEATS;
        return;
    }
    if (state == ZOO_EXPIRED_SESSION_STATE)
        store->expired = true;
    else if (state == ZOO_AUTH_FAILED_STATE)
        auth_done(ZAUTHFAILED, store);
    else if (store->connected || !hfi_list_empty(&store->claim_nodes))
        store->reactor.doubt = disconnected; /* leases are AT_RISK until a renewal is answered */
    store->connected = false;
}

/*
 * Called after every call of the library, which began at before_ms. If the handshake was sent in
 * that call, it was not sent before that: the session's time is counted from there.
 */
void zk_session_look(struct zk_store *store, int64_t before_ms)
{
    int state = zoo_state(store->zh);

    if (state == ZOO_EXPIRED_SESSION_STATE)
        store->expired = true;
    if (state == ZOO_CONNECTED_STATE && !store->expired)
        return;
    if (store->connected) {
        store->connected = false;
        store->reactor.doubt = disconnected;
    }
    if (state != ZOO_ASSOCIATING_STATE && state != ZOO_CONNECTED_STATE) {
        store->primed_ms = before_ms; /* not yet */
        store->turned_away += store->greeting;
    }
    store->greeting = state == ZOO_ASSOCIATING_STATE;
    /* The state is 0 after a failure. The library has closed its socket, and the number may be that
     * of another file now. */
    if ((state == 0 || state == ZOO_NOTCONNECTED_STATE) && store->socket_fd >= 0) {
        store->socket_fd = -1;
        store->begun_ms = before_ms;
        store->library_due_ms = 0; /* let it connect */
    }
}

/* ---- ticking ------------------------------------------------------------------------------------- */

static int64_t dial_ms(const struct zk_store *store)
{
    int64_t dial_ms = store->conf->timeout_ms / DIAL_PARTS;

    return dial_ms > DIAL_MIN_MS ? dial_ms : DIAL_MIN_MS;
}

void zk_session_drop(struct zk_store *store)
{
    if (store->socket_fd >= 0)
        (void)shutdown(store->socket_fd, SHUT_RDWR);
    if (store->connected) {
        store->reactor.doubt = disconnected;
        hfi_error_set(&store->why, HF_UNAVAILABLE, 0, "no answer from the server");
    }
    store->connected = false;
    store->begun_ms = hfi_now_ms();
    store->library_due_ms = 0; /* let the library see it */
}

/* Begin a new session after the old one has ended. Closing the old one answers what was under
 * way. */
static void renew_session(struct zk_store *store)
{
    hf_error err;

    store->connected = false;
    store->socket_fd = -1;
    close_handle(store);
    zk_twins_forget(store);
    hfi_list_each (struct zk_claim_node, node, &store->claim_nodes, listed)
        zk_claim_node_expire(node);
    zk_cells_expire(store);
    hfi_error_set(&store->why, HF_UNAVAILABLE, 0, "the session has expired");
    if (new_handle(store, &err) != HF_OK)
        store->begun_ms = hfi_now_ms(); /* again at the next tick */
}

/*
 * A server hangs up on a client that has seen a later transaction than the server itself has. Of an ensemble that has lost its
 * data, or was restored from a backup, all servers do so, for ever, and nobody says that the session has ended. It has, by our
 * own clock; nothing of it is worth keeping but the place in queues.
 */
static bool is_forgotten(const struct zk_store *store, int64_t now_ms)
{
    return !store->connected && store->met && store->turned_away >= AWAY_MAX &&
           zk_validity_left(&store->validity, now_ms) <= 0;
}

static void resume(struct zk_store *store)
{
    struct hfi_op *op;

    store->fresh = false;
    zk_twins_connected(store);
    hfi_list_each (struct zk_claim_node, node, &store->claim_nodes, listed)
        zk_claim_node_resume(node);
    /* Connecting involved the leader: so it has renewed everything. */
    zk_renewals_confirmed(store, INT64_MAX);
    while (store->connected && (op = store->parked)) {
        store->parked = zk_op(op)->next;
        zk_begin(store, op);
    }
}

/* The next acquire that waits for a connection, or NULL. */
static struct hfi_op *waiting_acquire(const struct zk_store *store)
{
    for (const struct hfi_list *at = store->claim_nodes.next; at != &store->claim_nodes;
         at = at->next) {
        const struct zk_claim_node *node = hfi_container(at, struct zk_claim_node, listed);

        if (node->op && node->stop == HF_OK)
            return node->op;
    }
    return NULL;
}

/* There will be no connection. What waits for one is told. */
static void refuse_waiting(struct zk_store *store)
{
    struct hfi_op *op;

    while ((op = store->parked)) {
        store->parked = zk_op(op)->next;
        zk_finish(store, op, HF_DENIED, &store->why);
    }
    while ((op = waiting_acquire(store)))
        zk_cancel(store, op, HF_DENIED);
}

void zk_session_tick(struct zk_store *store, int64_t now_ms)
{
    zk_failed_calls(store);
    if (store->denied) {
        refuse_waiting(store);
        return;
    }
    if (store->expired || !store->zh || is_forgotten(store, now_ms))
        renew_session(store);
    if (store->connected && store->fresh)
        resume(store);
    if (store->connected && now_ms >= store->beat_ms && store->asking == 0)
        zk_beat(store);
    if (store->connected && store->asked_ms != HFI_NEVER &&
        now_ms - store->asked_ms >= store->validity.timeout_ms / ZK_STALL)
        zk_session_drop(store);
    if (!store->connected && store->socket_fd >= 0 && now_ms - store->begun_ms >= dial_ms(store))
        zk_session_drop(store);
}

int64_t zk_session_next_ms(const struct zk_store *store)
{
    int64_t next_ms = store->library_due_ms;

    if (store->denied)
        return store->parked || waiting_acquire(store) ? 0 : HFI_NEVER;
    if (store->failed || store->expired || !store->zh || (store->connected && store->fresh))
        return 0;
    if (!store
             ->connected) /* without a socket there is nothing to give up: the library says when it tries again */
        return store->socket_fd >= 0 && store->begun_ms + dial_ms(store) < next_ms
                   ? store->begun_ms + dial_ms(store)
                   : next_ms;
    if (store->asking == 0 && store->beat_ms < next_ms)
        next_ms = store->beat_ms;
    if (store->asked_ms != HFI_NEVER &&
        store->asked_ms + store->validity.timeout_ms / ZK_STALL < next_ms)
        next_ms = store->asked_ms + store->validity.timeout_ms / ZK_STALL;
    return next_ms;
}

/* ---- open and close -------------------------------------------------------------------------------- */

hf_status zk_session_open(struct zk_store *store, hf_error *err)
{
    int64_t until_ms = store->reactor.host->open_deadline_ms;
    hf_status status = zk_servers_resolve(store->conf, until_ms, &store->servers, err);

    if (status != HF_OK)
        return status;
    hfi_error_set(&store->why, HF_UNAVAILABLE, 0, "no server answers");
    if (store->reactor.host->open_once && zk_servers_refuse(&store->servers, until_ms, err))
        return HF_UNAVAILABLE;
    hfi_reactor_enter(&store->reactor);
    status = new_handle(store, err);
    hfi_reactor_leave_quietly(&store->reactor, false);
    if (store->reactor.host->no_wait)
        return status;
    while (status == HF_OK && !store->connected && !store->denied) {
        if (hfi_now_ms() >= until_ms) /* the library does not say why */
            return zk_servers_refuse(&store->servers, hfi_now_ms() + EXPLAIN_MS, err)
                       ? HF_UNAVAILABLE
                       : hfi_error_set(err, HF_UNAVAILABLE, store->why.native, "%s",
                                       store->why.text);
        hfi_reactor_turn(&store->reactor, until_ms);
    }
    if (status == HF_OK && store->denied)
        return hfi_error_set(err, HF_DENIED, store->why.native, "%s", store->why.text);
    return status;
}

void zk_session_close(struct zk_store *store)
{
    store->connected = false;
    close_handle(store); /* ends the session, and so deletes what is left of its nodes */
    zk_failed_calls(store);
}
