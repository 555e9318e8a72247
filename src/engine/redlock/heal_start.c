/* SPDX-License-Identifier: MIT */
/*
 * A new cluster: all nodes answer, all are empty, and any client may make one of them, but only one
 * client can. With the lock; answers come from the driver.
 *
 *   1. mark one node with a fresh marker M: the one with the smallest run id, so that starters meet there
 *      and all but one turn back before they have touched another node;
 *   2. mark all others with M;
 *   3. ask all again: each must be empty and carry M still;
 *   4. install epoch (1, M) on all, each by its marker.
 *
 * Why only one cluster comes of it. Who installs has seen, in step 3, M on all nodes after all of them had
 * taken it. For another starter to see its own M' on all, it must have written over M on all, and only after that was
 * RL_START_STALE_MS old; then no install by M succeeds any more (install compares the marker), and the
 * first one that did keeps the other from seeing all empty. The ages are for progress only: a marker of a
 * starter that died must not be in the way for ever. That neither is left with a part needs that
 * installs arrive before their marker is stale, so a starter that was slow (RL_START_LIMIT_MS) does not begin with them.
 *
 * A starter that died in step 4 leaves some nodes in epoch (1, M) and the others empty with M on them. Those
 * were never installed since (install uses M up, loss of data loses it, and no marker is sent twice), so to install
 * them now is what the starter would have done, and anybody does (heal_plan.c).
 */
#include "engine/redlock/heal.h"

#include "util/clock.h"
#include "util/random.h"

#include <string.h>

static void marked(struct rl_round *round, unsigned node, enum rl_outcome outcome,
                   const struct hfi_reply *reply, const hf_error *err);
static void first_marked(struct rl_round *round);
static void all_marked(struct rl_round *round);
static void confirmed(struct rl_round *round, unsigned node, enum rl_outcome outcome,
                      const struct hfi_reply *reply, const hf_error *err);
static void all_confirmed(struct rl_round *round);
static void all_installed(struct rl_round *round);

static uint32_t all_nodes(const struct hfi_conn *conn)
{
    return (1u << conn->n) - 1;
}

static unsigned meeting_point(const struct hfi_conn *conn)
{
    unsigned first = 0;

    for (unsigned i = 1; i < conn->n; i++)
        if (strcmp(conn->nodes[i].run_id, conn->nodes[first].run_id) < 0)
            first = i;
    return first;
}

/* Somebody else is at it, or something went wrong: look again soon. */
static void turn_back(struct hfi_conn *conn)
{
    conn->healing->eager = false;
    if (conn->healing->failures < 4) {
        conn->healing->failures++;
        hfi_rl_heal_soon(conn, 20, 80);
    } else {
        hfi_rl_heal_again(conn);
    }
}

static void send_marks(struct hfi_conn *conn, uint32_t nodes, rl_over_fn *over)
{
    struct rl_round *round = hfi_rl_heal_round(conn, &hfi_rl_script_mark, marked);

    if (!round) {
        turn_back(conn);
        return;
    }
    hfi_rl_say_mark(&round->command, conn->healing->marker, RL_START_STALE_MS);
    round->over = over;
    hfi_rl_round_send(round, nodes);
}

void hfi_rl_start(struct hfi_conn *conn)
{
    struct rl_healing *healing = conn->healing;

    healing->start_ms = hfi_now_ms();
    healing->mine = 0;
    hfi_random_bytes(healing->marker, sizeof healing->marker);
    send_marks(conn, 1u << meeting_point(conn), first_marked);
}

static void marked(struct rl_round *round, unsigned node, enum rl_outcome outcome,
                   const struct hfi_reply *reply, const hf_error *err)
{
    struct rl_healing *healing = round->conn->healing;
    const unsigned char *marker = outcome == RL_ANSWERED ? hfi_rl_read_marker(reply) : NULL;

    (void)err;
    if (marker && memcmp(marker, healing->marker, HFI_EPOCH_ID) == 0)
        healing->mine |= 1u << node;
}

static void first_marked(struct rl_round *round)
{
    struct hfi_conn *conn = round->conn;

    conn->healing->steps--;
    if (conn->closing)
        return;
    if (conn->healing->mine != round->asked)
        turn_back(conn);
    else
        send_marks(conn, all_nodes(conn) & ~round->asked, all_marked);
}

static void all_marked(struct rl_round *round)
{
    struct hfi_conn *conn = round->conn;
    struct rl_round *ask;

    conn->healing->steps--;
    if (conn->closing)
        return;
    if (conn->healing->mine != all_nodes(conn)) {
        turn_back(conn);
        return;
    }
    conn->healing->mine = 0;
    ask = hfi_rl_heal_round(conn, &hfi_rl_script_status, confirmed);
    if (!ask) {
        turn_back(conn);
        return;
    }
    ask->over = all_confirmed;
    hfi_rl_round_send(ask, all_nodes(conn));
}

static void confirmed(struct rl_round *round, unsigned node, enum rl_outcome outcome,
                      const struct hfi_reply *reply, const hf_error *err)
{
    struct rl_healing *healing = round->conn->healing;
    struct rl_told told;

    (void)err;
    if (outcome == RL_ANSWERED && hfi_rl_read_status(reply, &told) &&
        told.view.state == HFI_NODE_EMPTY && told.view.marked &&
        memcmp(told.view.marker, healing->marker, HFI_EPOCH_ID) == 0)
        healing->mine |= 1u << node;
}

static void all_confirmed(struct rl_round *round)
{
    struct hfi_conn *conn = round->conn;
    struct rl_healing *healing = conn->healing;
    struct hfi_node_view as = { .n = conn->n, .max_ttl_ms = conn->max_ttl_ms };
    struct hfi_epoch epoch = { .number = 1 };
    struct rl_round *install;

    healing->steps--;
    if (conn->closing)
        return;
    if (healing->mine != all_nodes(conn) || hfi_now_ms() - healing->start_ms > RL_START_LIMIT_MS) {
        turn_back(conn);
        return;
    }
    install = hfi_rl_heal_round(conn, &hfi_rl_script_install, hfi_rl_heal_answered);
    if (!install) {
        turn_back(conn);
        return;
    }
    hfi_random_bytes(as.cluster, sizeof as.cluster);
    memcpy(epoch.id, healing->marker, sizeof epoch.id);
    hfi_rl_say_install(&install->command, healing->marker, &as, &epoch, 0);
    install->over = all_installed;
    hfi_rl_round_send(install, all_nodes(conn));
}

static void all_installed(struct rl_round *round)
{
    hfi_rl_heal_stepped(round->conn);
}
