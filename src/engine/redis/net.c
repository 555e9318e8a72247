/* SPDX-License-Identifier: MIT */
/*
 * The servers of a store, all together: opening, closing, their time. One store is one server here;
 * sentinel.c and cluster.c (struct redis_topology) say which, and which of several. net_node.c has one
 * server and its link, net_send.c what is sent there.
 */
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <unistd.h>

/* ---- one server -------------------------------------------------------------------------- */

static hf_status single_open(struct hfi_conn *conn, hf_error *err)
{
    return redis_master_aim(conn, &conn->conf->url.hosts[0]) ? HF_OK : hfi_error_memory(err);
}

static bool single_ready(const struct hfi_conn *conn)
{
    return conn->inbox_up && hfi_link_state(conn->nodes[0]->link) == HFI_LINK_UP &&
           (!conn->sync.link || hfi_link_state(conn->sync.link) == HFI_LINK_UP);
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

/* ---- opening and closing the store ----------------------------------------------------------- */

hf_status redis_net_open(struct hfi_conn *conn, hf_error *err)
{
    int64_t until_ms = conn->pump.host->open_deadline_ms;
    const struct redis_topology *topology = conn->conf->way == HFI_WAY_SENTINEL  ? &redis_sentinel
                                            : conn->conf->way == HFI_WAY_CLUSTER ? &redis_cluster
                                                                                 : &redis_single;
    const hf_error *why = NULL;
    hf_status status;

    conn->topology = topology;
    status = topology->open(conn, err);
    if (status == HF_OK)
        while (!topology->ready(conn) && !(why = topology->why(conn, true)) &&
               hfi_now_ms() < until_ms)
            hfi_pump_turn(&conn->pump, until_ms);
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
    hfi_pump_enter(&conn->pump);
    conn->closing = true;
    redis_net_close(conn);
    pthread_mutex_unlock(&conn->pump.lock);
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
    if (conn->topology->close)
        conn->topology->close(conn);
}

/* ---- being driven ------------------------------------------------------------------------------- */

void redis_net_flush(struct hfi_conn *conn)
{
    for (uint32_t i = 0; i < conn->node_count; i++)
        if (conn->nodes[i]->link)
            hfi_link_flush(conn->nodes[i]->link);
    if (conn->sync.link)
        hfi_link_flush(conn->sync.link);
    if (conn->inbox.link)
        hfi_link_flush(conn->inbox.link);
}

struct hfi_link *redis_net_busy(struct hfi_conn *conn)
{
    struct hfi_link *busy = NULL;

    if (conn->sync.link && hfi_link_in_flight(conn->sync.link))
        return NULL;

    for (uint32_t i = 0; i < conn->node_count; i++) {
        struct hfi_link *link = conn->nodes[i]->link;

        if (link && hfi_link_in_flight(link)) {
            if (busy || hfi_link_state(link) != HFI_LINK_UP)
                return NULL;
            busy = link;
        }
    }
    return busy;
}

void redis_net_tick(struct hfi_conn *conn, int64_t now_ms)
{
    if (conn->topology->tick)
        conn->topology->tick(conn, now_ms);
    for (uint32_t i = 0; i < conn->node_count; i++)
        if (conn->nodes[i]->link)
            redis_node_tick(conn->nodes[i], now_ms);
    if (conn->sync.link)
        redis_node_tick(&conn->sync, now_ms);
    if (conn->inbox.link)
        redis_node_tick(&conn->inbox, now_ms);
    if (conn->parked_ms <= now_ms)
        redis_net_unpark(conn, now_ms);
}

int64_t redis_net_next_ms(struct hfi_conn *conn)
{
    int64_t next_ms = conn->inbox.link ? redis_node_next_ms(&conn->inbox) : HFI_NEVER, at_ms;

    at_ms = conn->sync.link ? redis_node_next_ms(&conn->sync) : HFI_NEVER;
    next_ms = at_ms < next_ms ? at_ms : next_ms;
    for (uint32_t i = 0; i < conn->node_count; i++) {
        at_ms = conn->nodes[i]->link ? redis_node_next_ms(conn->nodes[i]) : HFI_NEVER;
        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    at_ms = conn->topology->next_ms ? conn->topology->next_ms(conn) : HFI_NEVER;
    next_ms = at_ms < next_ms ? at_ms : next_ms;
    return conn->parked_ms < next_ms ? conn->parked_ms : next_ms;
}
