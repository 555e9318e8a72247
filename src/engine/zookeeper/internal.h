/* SPDX-License-Identifier: MIT */
/*
 * The zookeeper engine, inside.
 *
 *   engine.c      the table; open, close, submit
 *   drive.c       the library as a source of the reactor
 *   session.c     the library's handle: connecting, expiry, heartbeats, dropping a dead connection
 *   call.c        one request under way, and its answer
 *   claim_node.c  a claim's node, from its creation to its end, and back after a lost connection
 *   wait.c        the members before us: looking, watching, being granted
 *   twin.c        a second node of a claim, by a create that comes late
 *   lease.c       release, renew, expiry
 *   wanted.c      a holder learns that others wait
 *   inspect.c     inspect, break and ask
 *   cells.c       read and swap; cell_wait.c  waiting for a cell to change
 *   doctor.c      what these servers mean for the promises
 *   library.c     one lock for all calls of the library, of all stores
 *   servers.c     the servers' addresses
 *   conf.c, path.c, node_data.c, queue.c, validity.c   the URL, names, what a node holds, the order of a queue, until when;
 *                 pure, and tested alone
 *
 * Everything is under the reactor's lock (kit/reactor.h), every call of the library too: it has no locks of its own
 * (library.c). The library calls us back from zookeeper_process(), zookeeper_interest() and zookeeper_close(), with the
 * lock held.
 */
#ifndef HFI_ZOOKEEPER_INTERNAL_H
#define HFI_ZOOKEEPER_INTERNAL_H

#include "engine/kit/reactor.h"
#include "engine/native.h"
#include "engine/zookeeper/claim_node.h"
#include "engine/zookeeper/servers.h"
#include "engine/zookeeper/validity.h"

#include <pthread.h>
#include <zookeeper/zookeeper.h>

#define ZK_DEFAULT_TTL_MS 30000
#define ZK_BEATS          8 /* heartbeats in one timeout */
#define ZK_STALL          3 /* a connection without an answer for this part of the timeout is dropped */
#define ZK_ARM_MS         100  /* a lease that is held for longer watches its own node */
#define ZK_STOP_MS        1500 /* a cancelled acquire ends with UNKNOWN then */
#define ZK_SILENT_MS \
    2000 /* a connection on which nothing was heard for so long is dropped when an op is late */
#define ZK_TWIN_MS 10000 /* so long a create in doubt may still come */
#define ZK_TRIES_MAX \
    20                 /* attempts to make a node whose parents are deleted again and
                                * again */
#define ZK_AGAIN_MS 20 /* without memory: try again then */
#define ZK_BUCKETS  1024
#define ZK_MARK_LEN 16 /* of a cell's mark: hex digits */
#define ZK_NODE_VERSION_MAX \
    (INT32_MAX - 1)        /* the server's own version of a node wraps, and -1 means "any" */
#define ZK_LIB_NAP_MS 1000 /* the longest sleep without asking the library */

struct zk_call;
struct zk_cell_wait;

/* An answer of any request. The pointers are the library's, good during the call only. */
struct zk_reply {
    int rc;
    const char *text; /* a path, or data */
    int len;          /* of data; -1: none */
    const struct Stat *stat;
    const struct String_vector *list;
};
typedef void zk_answer_fn(struct zk_call *call, const struct zk_reply *reply);

/* One request under way. Freed after its answer, which always comes: from the server, or as
 * "connection lost" or "closing" from the library. */
struct zk_call {
    struct zk_call *next; /* in store->failed */
    struct zk_store *store;
    zk_answer_fn *answer;
    struct zk_claim_node *node; /* or NULL */
    void *data;
    int64_t sent_ms;
    bool leader; /* only the leader can answer this: so the answer shows that the session lives */
    bool watches;
    size_t index;
    uint64_t line_id; /* wanted.c: it is out of date if line.watcher has another id */
    int32_t sequence; /* of the waiter that it reads */
    int rc;           /* of a call that could not be sent */
};

struct zk_store {
    struct hfi_reactor reactor;
    struct hfi_source library;
    struct zk_conf *conf;
    struct zk_servers servers;
    struct ACL_vector acl;
    struct ACL acl_room[2];

    zhandle_t *zh;
    bool connected;
    bool met;             /* it was connected before */
    bool fresh;           /* it has reconnected: continue what was under way */
    bool expired;         /* the session has ended: a new one is needed */
    bool denied;          /* authentication failed; for good */
    bool greeting;        /* the handshake was sent, and is not answered yet */
    unsigned turned_away; /* how many handshakes in a row were answered by a hang-up */
    struct zk_validity validity;
    int64_t begun_ms;  /* not connected: when this attempt began */
    int64_t primed_ms; /* ... and the earliest time at which its handshake can have been sent */
    int64_t beat_ms;   /* when the next heartbeat is due */
    int64_t asked_ms;  /* when the oldest unanswered request for the leader was sent; HFI_NEVER */
    unsigned asking;   /* how many are unanswered */
    int64_t heard_ms;  /* connected: when the server last answered anything */
    hf_error why;      /* not connected */

    int socket_fd; /* the library's; -1: none */
    uint32_t socket_events;
    int64_t library_due_ms; /* when the library wants to be asked again */

    struct hfi_list claim_nodes;
    struct hfi_list twins; /* FREED claim nodes that may have one */
    struct zk_watcher *watchers[ZK_BUCKETS];
    uint64_t last_watch;
    bool listens; /* there was a WATCHED claim */
    struct zk_cell_wait *cell_waits;
    int64_t due_ms; /* no node has anything to do before */
    struct zk_call *failed;
    struct hfi_op *parked;     /* ops that are no claims: not connected */
    struct hfi_op *renewals;   /* waiting for the leader */
    struct zk_member *members; /* room to parse a list in */
    size_t member_room;
};

/* In op->room. */
struct zk_op {
    struct hfi_reactor_op reactor;
    struct hfi_op *next;            /* in a list of store */
    struct zk_claim_node *node;     /* an acquire, until it is to be finished */
    struct zk_cell_wait *cell_wait; /* a wait for a cell, likewise */
    int64_t since_ms;               /* a renewal: when it was submitted */
};

static inline struct zk_op *zk_op(struct hfi_op *op)
{
    return (struct zk_op *)(void *)op->room;
}

/* In claim->room. */
struct zk_claim {
    struct zk_claim_node *node; /* NULL: none */
};

static inline struct zk_claim *zk_claim(struct hfi_claim *claim)
{
    return (struct zk_claim *)(void *)claim->room;
}

/* ---- engine.c */
void zk_finish(struct zk_store *store, struct hfi_op *op, hf_status status, const hf_error *err);
void zk_begin(struct zk_store *store, struct hfi_op *op); /* an op that is no claim; connected */
/* Begin the op again when the store is connected: nothing has been changed or reported yet. Its deadline may have passed. */
void zk_park(struct zk_store *store, struct hfi_op *op);
bool zk_op_take(struct hfi_op **list,
                struct hfi_op *op); /* out of a list of the store; false: it is not there */

/* ---- drive.c */
extern const struct hfi_source_calls zk_library_calls;

/* ---- session.c */
hf_status zk_session_open(struct zk_store *store, hf_error *err);
void zk_session_close(struct zk_store *store);
void zk_session_tick(struct zk_store *store, int64_t now_ms);
int64_t zk_session_next_ms(const struct zk_store *store);
void zk_session_drop(struct zk_store *store); /* drop this connection */
void zk_session_look(struct zk_store *store,
                     int64_t before_ms); /* after every call of the library */
void zk_beat(struct zk_store *store);

/* ---- library.c */
void zk_library_use(void); /* before the first call */
void zk_library_lock(void);
void zk_library_unlock(void);

/* ---- call.c */
/* NULL: out of memory. */
struct zk_call *zk_call_new(struct zk_store *store, zk_answer_fn *answer,
                            struct zk_claim_node *node);
void zk_send_create(struct zk_call *call, const char *path, const char *data, int len, int flags);
void zk_send_delete(struct zk_call *call, const char *path);
void zk_send_set(struct zk_call *call, const char *path, const char *data, int len);
void zk_send_exists(struct zk_call *call, const char *path, uint64_t watch_id);
void zk_send_get(struct zk_call *call, const char *path, uint64_t watch_id);
void zk_send_children(struct zk_call *call, const char *path, uint64_t watch_id);
void zk_send_sync(struct zk_call *call, const char *path);
void zk_send_multi(struct zk_call *call, const zoo_op_t *ops, int count, zoo_op_result_t *results);
void zk_failed_calls(struct zk_store *store);
/* Is this the answer of a server? Otherwise the request may have been executed or not. */
bool zk_is_reply(int rc);
/* The status for a refusal by a server, with its text. */
hf_status zk_refusal(int rc, const char *what, hf_error *ret_err);
/* Parse a list into store->members. false: out of memory. */
bool zk_members(struct zk_store *store, const struct String_vector *list, size_t *ret_count);

/* ---- claim_node.c: see claim_node.h, too */
void zk_acquire(void *self, struct hfi_op *op);
void zk_cancel(void *self, struct hfi_op *op, hf_status status);
void zk_parent_path(const struct zk_store *store, const char *kind, const struct hfi_name *name,
                    char *ret_path);
/* Make every parent of `path` that is missing; answers are ignored. */
void zk_make_parents(struct zk_store *store, const char *path);

/* ---- wait.c */
void zk_looked(struct zk_call *call, const struct zk_reply *reply);
void zk_node_event(struct zk_store *store, int type, uint64_t watch_id);

/* ---- twin.c: see claim_node.h, too */
void zk_twins_connected(struct zk_store *store);
void zk_twins_forget(struct zk_store *store); /* the session has ended, and all nodes with it */

/* ---- wanted.c: see claim_node.h, too */
void zk_wanted_tick(struct zk_store *store);
void zk_wanted_repeat(struct zk_store *store); /* with every heartbeat */
/* Our node was read: was somebody's text put into it? */
void zk_wanted_asked(struct zk_claim_node *node, const struct zk_reply *reply);

/* ---- lease.c */
void zk_release(void *self, struct hfi_op *op);
void zk_renew(void *self, struct hfi_op *op);
/* Their deadline has passed. */
void zk_release_late(void *self, struct hfi_op *op, hf_status status);
void zk_renew_late(void *self, struct hfi_op *op, hf_status status);
void zk_renewals_confirmed(struct zk_store *store, int64_t sent_ms);
void zk_claim_nodes_tick(struct zk_store *store, int64_t now_ms);

/* ---- inspect.c, cells.c, doctor.c */
void zk_list(struct zk_store *store, struct hfi_op *op);
void zk_look_at(struct zk_store *store, struct hfi_op *op);
void zk_break(struct zk_store *store, struct hfi_op *op);
void zk_ask(struct zk_store *store, struct hfi_op *op);
void zk_cell_read(struct zk_store *store, struct hfi_op *op);
void zk_cell_swap(struct zk_store *store, struct hfi_op *op);
bool zk_is_cell(const struct zk_reply *reply);
/* Why it is none. */
hf_status zk_not_a_cell(const struct zk_reply *reply, hf_error *ret_err);
void zk_cells_commit(struct zk_store *store, struct hfi_op *op); /* commit.c */

/* ---- cell_wait.c */
void zk_cell_wait(void *self, struct hfi_op *op);
void zk_cell_cancel(void *self, struct hfi_op *op, hf_status status);
void zk_cell_event(struct zk_store *store, uint64_t watch_id);
void zk_cells_expire(struct zk_store *store); /* the session has ended */
void zk_time(struct zk_store *store, struct hfi_op *op);

hf_status zk_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err);

#endif
