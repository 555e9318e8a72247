/* SPDX-License-Identifier: MIT */
/*
 * The servers of a store, all together: opening and closing. One store is one server here;
 * sentinel.c and cluster.c (struct redis_topology) say which, and which of several. net_node.c has one
 * server and its link, net_send.c what is sent there.
 */
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/list.h"

#include <unistd.h>

/* ---- one server -------------------------------------------------------------------------- */

static hf_status single_open(struct hfi_conn *conn, hf_error *err)
{
    return redis_master_aim(conn, &conn->conf->url.hosts[0]) ? HF_OK : hfi_error_memory(err);
}

static bool single_ready(const struct hfi_conn *conn)
{
    return conn->inbox_up && hfi_link_state(conn->nodes[0]->link) == HFI_STREAM_UP &&
           (!conn->sync.link || hfi_link_state(conn->sync.link) == HFI_STREAM_UP);
}

static const hf_error *single_why(const struct hfi_conn *conn, bool hopeless)
{
    const struct redis_node *both[2] = { conn->nodes[0], &conn->inbox };

    for (int i = 0; i < 2; i++)
        if (hopeless ? redis_is_final(conn, &both[i]->why) : both[i]->why.status != HF_OK)
            return &both[i]->why;
    return NULL;
}

const struct redis_topology redis_single = {
    .open = single_open,
    .ready = single_ready,
    .why = single_why,
};

/* ---- time ------------------------------------------------------------------------------------ */

static void topology_due(struct hfi_source *timer, int64_t now_ms)
{
    struct hfi_conn *conn = hfi_container(timer, struct hfi_conn, topology_timer);

    conn->topology->tick(conn, now_ms);
}

static int64_t topology_next_ms(const struct hfi_source *timer)
{
    const struct hfi_conn *conn = hfi_container(timer, struct hfi_conn, topology_timer);

    return conn->topology->next_ms(conn);
}

/* Before any node's: it may lead one elsewhere instead of opening it. */
static bool add_topology_timer(struct hfi_conn *conn)
{
    static const struct hfi_source_calls calls = { .due = topology_due,
                                                   .next_ms = topology_next_ms };

    return !conn->topology->tick || hfi_source_add(&conn->topology_timer, &conn->reactor, &calls);
}

/* ---- opening and closing the store ----------------------------------------------------------- */

hf_status redis_net_open(struct hfi_conn *conn, hf_error *err)
{
    int64_t until_ms = conn->reactor.host->open_deadline_ms;
    const struct redis_topology *topology = conn->conf->way == HFI_WAY_SENTINEL  ? &redis_sentinel
                                            : conn->conf->way == HFI_WAY_CLUSTER ? &redis_cluster
                                                                                 : &redis_single;
    const hf_error *why = NULL;
    hf_status status;

    conn->topology = topology;
    status = add_topology_timer(conn) ? topology->open(conn, err) : hfi_error_memory(err);
    if (status == HF_OK)
        while (!topology->ready(conn) && !(why = topology->why(conn, true)) &&
               hfi_now_ms() < until_ms)
            hfi_reactor_turn(conn, until_ms);
    if (status == HF_OK && topology->ready(conn))
        return HF_OK;

    if (status == HF_OK) {
        if (!why)
            why = topology->why(conn, false);
        status = why && why->status != HF_OK
                     ? hfi_error_set(err, why->status, why->native, "%s", why->text)
                     : hfi_error_set(err, HF_UNAVAILABLE, 0, "%s: no answer in time",
                                     conn->conf->url.hosts[0].shown);
    }
    hfi_reactor_enter(&conn->reactor);
    conn->closing = true;
    redis_net_close(conn);
    hfi_reactor_leave_quietly(&conn->reactor, false);
    return status;
}

void redis_net_close(struct hfi_conn *conn)
{
    for (uint32_t i = 0; i < conn->node_count; i++)
        redis_node_drop(conn->nodes[i]); /* all, before any is gone: answers may look at others */
    for (uint32_t i = 0; i < conn->node_count; i++)
        hfi_free(conn->nodes[i]);
    hfi_free(conn->nodes);
    conn->nodes = NULL;
    conn->node_count = 0;
    conn->sync.conn = conn->inbox.conn = conn;
    redis_node_drop(&conn->sync);
    redis_node_drop(&conn->inbox);

    redis_net_end_parked(conn);
    hfi_source_remove(&conn->topology_timer);
    if (conn->topology->close)
        conn->topology->close(conn);
}
