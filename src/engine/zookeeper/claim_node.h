/* SPDX-License-Identifier: MIT */
/*
 * A claim's node, from the submit of the acquire to the end of the release. It has memory of its own and may outlive the
 * claim: calls of it may be under way, and are answered later.
 *
 *   PARKED --> CREATING --> LOOKING <--> WATCHING --> CONFIRMING --> HELD
 *     ^  \        |            |            |             |           |
 *     |   \       v            v            v             v           v
 *     |    +--> FINDING      (any) -----> LEAVING ----------------> GONE --> FREED
 *     +--------- the session has ended: begin again, unless it was held
 *
 * claim_node.c has the table of all transitions.
 */
#ifndef ZK_CLAIM_NODE_H
#define ZK_CLAIM_NODE_H

#include "engine/zookeeper/node_data.h"
#include "engine/zookeeper/queue.h"
#include "util/list.h"

enum zk_state {
    ZK_PARKED,     /* nothing is under way */
    ZK_CREATING,   /* create and the first read of the queue are under way */
    ZK_FINDING,    /* a create may have been done: searching for it by owner */
    ZK_LOOKING,    /* reading the queue */
    ZK_WATCHING,   /* waiting for a member before us to leave */
    ZK_CONFIRMING, /* granted, but too little validity of the session is left */
    ZK_HELD,
    ZK_LEAVING, /* to be deleted, or being deleted */
    ZK_GONE,    /* the node is gone; `ended` is for the release */
    ZK_FREED /* out of the list; its memory waits for the answer to its last call, or for twins */
};

/* What we know of the node in the store. */
enum zk_presence {
    ZK_NO_NODE,
    ZK_NO_PARENT,     /* none: the create failed because the parent is missing */
    ZK_NODE_CREATING, /* a create is under way */
    ZK_NODE_UNSURE,   /* the answer to a create was lost, or its number is not known */
    ZK_NODE_MADE      /* it is `path` */
};

enum zk_kind_check {
    ZK_KIND_UNCHECKED,
    ZK_KIND_DOUBTED, /* a mismatch was seen once: the first of the queue may be about to leave
                      * because of its own mismatch */
    ZK_KIND_ACCEPTED /* it has waited behind others once: it is never refused as a mismatch again */
};

/* A watch of ours on the server that counts. */
struct zk_watcher {
    struct zk_watcher *next; /* in its bucket of store->watchers, by id */
    struct zk_claim_node *node;
    uint64_t id; /* 0: none */
};

/* The waiters behind a holder that is WATCHED (wanted.c). */
struct zk_line {
    struct zk_watcher watcher;
    bool wanted;     /* as core knows it */
    bool skips;      /* those up to `skipped` are tries */
    int32_t skipped; /* a sequence */
};

struct zk_claim_node {
    struct hfi_list listed; /* in store->claim_nodes */
    struct zk_store *store;
    struct hfi_claim *claim;
    struct hfi_op *op;      /* the acquire, until it is finished */
    struct hfi_op *release; /* a release that waits for the node to be gone */
    enum zk_state state;
    enum zk_presence presence;
    enum zk_kind_check kind;
    enum zk_watch watch; /* WATCHING, HELD: what is watched */
    struct zk_watcher watcher;
    struct zk_line line;
    bool deleted;   /* a delete of it may have been done */
    bool lapsed;    /* it was held, and its validity ended */
    bool refreshed; /* it has asked for a fresh session once */
    bool tells;     /* HELD: the waiter behind it is to be told that it holds */
    bool doubted;   /* it may get a second node: twin.c */
    int64_t twin_ms, twin_pause_ms, twin_until_ms;
    unsigned calls, tries;
    uint64_t czxid;   /* the token; 0: not known */
    int64_t due_ms;   /* HELD: when to watch its own node; a cancelled acquire: when to give up */
    int64_t again_ms; /* there was no memory to go on */
    int64_t end_ms;   /* HELD: the end of the validity that core knows */
    hf_status stop;   /* HF_OK, or what the acquire is to end with */
    hf_status ended;  /* GONE: HF_OK or HF_LOST */
    hf_error error;   /* for stop */
    size_t parent_len;
    char path[]; /* parent '/' node; without a node: parent '/' prefix */
};

/* ---- claim_node.c */
void zk_claim_node_enter(struct zk_claim_node *node, enum zk_state state);
void zk_claim_node_restart(struct zk_claim_node *node); /* make a node */
void zk_claim_node_resume(struct zk_claim_node *node);  /* connected again */
void zk_claim_node_expire(struct zk_claim_node *node);  /* the session has ended */
void zk_claim_node_drop(struct zk_claim_node *node);    /* delete its node, if there is one */
/* End the acquire with this status, and leave. */
void zk_claim_node_end(struct zk_claim_node *node, hf_status status, const hf_error *err);
/* The node certainly does not exist any more. Finishes the op that waits for that, if there is
 * one. */
void zk_claim_node_gone(struct zk_claim_node *node, hf_status how);
void zk_claim_node_free(struct zk_claim_node *node);
/* There was no memory: resume it in a moment. */
void zk_claim_node_later(struct zk_claim_node *node);
/* What the node holds; its length. */
int zk_claim_node_data(const struct zk_claim_node *node, char ret_bytes[ZK_DATA_MAX]);
/* A new watch replaces the old one; returns its id. */
uint64_t zk_watch_set(struct zk_watcher *watcher);
void zk_watch_clear(struct zk_watcher *watcher);

/* ---- wait.c */
void zk_look(struct zk_claim_node *node, bool watch);
void zk_granted(struct zk_claim_node *node);
void zk_tell(struct zk_claim_node *node);

/* ---- wanted.c */
void zk_wanted_look(struct zk_claim_node *node); /* do others wait? Nothing, if it is not WATCHED */
void zk_wanted_event(struct zk_claim_node *node); /* of line.watcher */
void zk_wanted_end(struct zk_claim_node *node);

/* ---- twin.c */
void zk_twin_expect(struct zk_claim_node *node); /* the answer to its create was lost */
void zk_twin_keep(struct zk_claim_node *node);   /* FREED, and doubted */
void zk_twin_tick(struct zk_claim_node *node,
                  int64_t now_ms); /* a FREED one may be gone after this */
/* Leave the claim's twins out of store->members, and delete them. Returns how many members are left. */
size_t zk_twins_out(struct zk_claim_node *node, size_t count);

/* ---- lease.c */
void zk_grant_ttl(struct zk_claim_node *node, int64_t ttl_ms, int64_t now_ms);

#endif
