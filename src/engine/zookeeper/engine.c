/* SPDX-License-Identifier: MIT */
/*
 * The zookeeper engine: its table, opening and closing, and the calls of core. See internal.h for
 * the parts. Event-driven: submit() sends, the driver reads and finishes.
 */
#include "engine/zookeeper/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

static hf_status init(struct zk_store *store, struct hfi_host *host, hf_error *err);
static void destroy(struct zk_store *store);
static const struct hfi_op_calls ops[HFI_OP_KINDS];

/* ---- open and close ------------------------------------------------------------------------- */

static hf_status zk_open(void *self, struct hfi_conf *conf, struct hfi_host *host, hf_error *err)
{
    struct zk_store *store = self;
    hf_status status;

    store->socket_fd = -1;
    hfi_list_init(&store->claim_nodes);
    hfi_list_init(&store->twins);
    store->conf = (struct zk_conf *)conf;
    status = zk_conf_finish(store->conf, err);
    host->location = store->conf->location;
    if (status == HF_OK)
        status = init(store, host, err);
    if (status == HF_OK)
        status = zk_session_open(store, err);
    if (status != HF_OK) {
        zk_session_close(store);
        destroy(store);
    }
    return status;
}

static void init_acl(struct zk_store *store)
{
    bool open = store->conf->acl == ZK_ACL_OPEN;

    store->acl.data = store->acl_room;
    store->acl.count = store->conf->acl == ZK_ACL_READ ? 2 : 1;
    store->acl_room[0].perms = ZOO_PERM_ALL;
    store->acl_room[0].id = open ? ZOO_ANYONE_ID_UNSAFE : ZOO_AUTH_IDS;
    store->acl_room[1].perms = ZOO_PERM_READ;
    store->acl_room[1].id = ZOO_ANYONE_ID_UNSAFE;
}

static hf_status init(struct zk_store *store, struct hfi_host *host, hf_error *err)
{
    hf_status status;

    store->due_ms = store->asked_ms = HFI_NEVER;
    store->validity.timeout_ms = store->conf->timeout_ms;
    atomic_store(&host->max_ttl_ms, store->conf->timeout_ms);
    init_acl(store);
    status = hfi_reactor_init(&store->reactor, host, ops, err);
    if (status == HF_OK && !hfi_source_add(&store->library, &store->reactor, &zk_library_calls))
        status = hfi_error_memory(err);
    return status;
}

static void destroy(struct zk_store *store)
{
    while (!hfi_list_empty(&store->claim_nodes))
        zk_claim_node_free(hfi_container(store->claim_nodes.next, struct zk_claim_node, listed));
    zk_twins_forget(store);
    hfi_reactor_done(&store->reactor);
    hfi_free(store->members);
    zk_servers_done(&store->servers);
}

static void zk_close(void *self)
{
    struct zk_store *store = self;

    hfi_reactor_enter(&store->reactor);
    zk_session_close(store);
    hfi_reactor_leave_quietly(&store->reactor, false);
    destroy(store);
}

/* ---- ops ------------------------------------------------------------------------------------- */

void zk_begin(struct zk_store *store, struct hfi_op *op)
{
    switch (op->kind) {
    case HFI_OP_LIST:
        zk_list(store, op);
        return;
    case HFI_OP_LOOK:
        zk_look_at(store, op);
        return;
    case HFI_OP_BREAK:
        zk_break(store, op);
        return;
    case HFI_OP_ASK:
        zk_ask(store, op);
        return;
    case HFI_OP_CELL_READ:
        zk_cell_read(store, op);
        return;
    case HFI_OP_CELL_SWAP:
        zk_cell_swap(store, op);
        return;
    case HFI_OP_CELLS_COMMIT:
        zk_cells_commit(store, op);
        return;
    case HFI_OP_TIME:
        zk_time(store, op);
        return;
    default:
        zk_finish(store, op, HF_UNSUPPORTED, NULL);
    }
}

void zk_park(struct zk_store *store, struct hfi_op *op)
{
    if (op->deadline_ms <= hfi_now_ms()) {
        zk_finish(store, op, HF_UNAVAILABLE, store->connected ? NULL : &store->why);
        return;
    }
    zk_op(op)->next = store->parked;
    store->parked = op;
}

bool zk_op_take(struct hfi_op **list, struct hfi_op *op)
{
    while (*list && *list != op)
        list = &zk_op(*list)->next;
    if (!*list)
        return false;
    *list = zk_op(op)->next;
    return true;
}

/* The deadline of an op that is no claim has passed. If a server says nothing at all, its connection goes, and that answers
 * every request on it; an op of many requests that are answered goes on. */
static void end_late(void *self, struct hfi_op *op, hf_status status)
{
    struct zk_store *store = self;

    (void)status;
    if (zk_op_take(&store->parked, op))
        zk_finish(store, op, HF_UNAVAILABLE, &store->why);
    else if (store->connected && hfi_now_ms() - store->heard_ms >= ZK_SILENT_MS)
        zk_session_drop(store);
}

/* Begin an op that needs a session: without one it is parked. */
static void begin_connected(void *self, struct hfi_op *op)
{
    struct zk_store *store = self;

    if (store->denied) {
        zk_finish(store, op, HF_DENIED, &store->why);
    } else if (store->connected) {
        zk_begin(store, op);
    } else {
        zk_park(store, op);
    }
}

static const struct hfi_op_calls ops[HFI_OP_KINDS] = {
    [HFI_OP_ACQUIRE] = { zk_acquire, zk_cancel },
    [HFI_OP_RELEASE] = { zk_release, zk_release_late },
    [HFI_OP_RENEW] = { zk_renew, zk_renew_late },
    [HFI_OP_LIST] = { begin_connected, end_late },
    [HFI_OP_LOOK] = { begin_connected, end_late },
    [HFI_OP_BREAK] = { begin_connected, end_late },
    [HFI_OP_ASK] = { begin_connected, end_late },
    [HFI_OP_CELL_READ] = { begin_connected, end_late },
    [HFI_OP_CELL_SWAP] = { begin_connected, end_late },
    [HFI_OP_CELLS_COMMIT] = { begin_connected, end_late },
    [HFI_OP_CELL_WAIT] = { zk_cell_wait, zk_cell_cancel },
    [HFI_OP_TIME] = { begin_connected, end_late },
};

void zk_finish(struct zk_store *store, struct hfi_op *op, hf_status status, const hf_error *err)
{
    zk_op(op)->node = NULL;
    zk_op(op)->cell_wait = NULL;
    hfi_reactor_finish(&store->reactor, op, status, err);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Why not. */
static const hf_engine_lack lacks[] = {
    { HF_CAP_PROCESS,
      "the ensemble does not see a process end; the timeout of its session frees the name" },
    { HF_CAP_DETACHED, "a claim ends with its session; to outlive its process each would need a "
                       "session, and its password where others find it" },
    { HF_CAP_PASS | HF_CAP_LINGER,
      "a token is the transaction that made the node; ZooKeeper gives no blocks of tokens" },
    { HF_CAP_CONVERT, "what a claim takes is written in its key, and the claims behind it have "
                      "counted it; it cannot grow" },
    { HF_CAP_NUMBERED, "a grant writes nothing (a claim sees for itself that it fits), so no step "
                       "could give out a number" },
    { HF_CAP_RESIZE, "a claim sees for itself that it fits, and two that count with different "
                     "sizes would both be right" },
    { HF_CAP_BARGE, "a holder knows that it holds because no claim can be put before its own" },
    { HF_CAP_LOCK_DELAY,
      "a node ends with its session, and nothing can run then that would keep the name closed" },
    { HF_CAP_CELL_TTL, "the ensemble removes a node with a ttl up to a minute late, and has such "
                       "nodes only if extendedTypesEnabled is set" },
    { HF_CAP_WATCH, "the C library of ZooKeeper has no watch on a whole tree" },
    { HF_CAP_SCRIPTS, "ZooKeeper has no scripts" },
    { 0, NULL },
};

static const struct hfi_engine zookeeper = {
    .abi = HFI_ENGINE_ABI,
    HFI_REACTOR_CALLS,
    HFI_STORAGE(struct zk_store, struct zk_op, struct zk_claim),
    .open = zk_open,
    .close = zk_close,
    .conf = &zk_conf_type,
    .admin = &(const struct hfi_admin){ .doctor = zk_doctor },
    .promises =
        &(const struct hfi_promises){
            .default_ttl_ms = ZK_DEFAULT_TTL_MS,
            .min_ttl_ms = 1000,
            .name = "zookeeper",
            .lacks = lacks,
            .schemes = "zk",
            .tokens = HF_TOKEN_STRENGTH_WHILE_DURABLE,
            .on_crash = "freed when the session times out",
            .on_pause = "freed when the session times out; the token fences",
            .on_clock_jump = "none: the servers count with a steady clock",
            .on_server_loss = "goes on while a majority of the ensemble lives; one that lost its "
                              "data forgets leases and lets tokens go back",
            .on_partition = "unavailable on the far side; LOST by the client's own clock before "
                            "the session ends",
            .fairness = "FIFO",
            .wakeup = "a watch on the member before us",
            .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_TTL |
                    HF_CAP_TOKEN | HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_BREAK | HF_CAP_CELLS |
                    HF_CAP_CELL_WATCH | HF_CAP_CLOCK | HF_CAP_WANTED | HF_CAP_COMMIT },
};

HFI_ENGINE_ENTRY(zookeeper)
