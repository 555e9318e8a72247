/* SPDX-License-Identifier: MIT */
/*
 * A lock server in memory: the permit model in its plainest form.
 *
 * It is the server of the test engines (mem_event.c, mem_block.c), and the model against which the
 * simulation checks the clients' decisions. It has no thread, clock or network: every call passes
 * the time, the caller locks, and messages without a request go through `push`. It uses plain
 * malloc and aborts without memory: it stands for another machine, so the oom suite must not fail
 * its allocations.
 */
#ifndef MEM_SERVER_H
#define MEM_SERVER_H

#include "engine/engine.h"

/* A waiter that has not been heard of for this long is passed over. */
#define MEM_WAITER_LIFE_MS 10000

enum mem_verb {
    MEM_ACQUIRE, /* a repeated one of the same owner is a heartbeat */
    MEM_CANCEL,  /* leave the queue: HF_CANCELLED, or HF_OK with the grant that came first */
    MEM_RELEASE,
    MEM_RENEW,
    MEM_ADOPT,
    MEM_BREAK,
    MEM_RESIZE,    /* `capacity` is the size, or 0 */
    MEM_ASK,       /* tell the holders that listen; `label` is the text */
    MEM_INSPECT,   /* only counted and delayed; mem_inspect() does it */
    MEM_CELL_READ, /* these: mem_cells.h */
    MEM_CELL_SWAP,
    MEM_CELL_COMMIT,
    MEM_CELL_WAIT,
    MEM_TIME,
    MEM_VERBS
};

/* A request with copies of everything: it may arrive late, or twice. */
struct mem_request {
    enum mem_verb verb;
    uint64_t session; /* where pushes about this owner go */
    unsigned char name[HF_NAME_MAX];
    uint32_t name_len;
    unsigned char owner[HFI_OWNER_LEN];
    unsigned char replaced[HFI_OWNER_LEN]; /* HFI_CLAIM_REPLACES */
    enum hfi_mode mode;
    uint32_t capacity, permits;
    unsigned flags;         /* HFI_CLAIM_* */
    uint32_t tokens_wanted; /* MEM_RENEW: of a further block, or 0 */
    int64_t ttl_ms, lock_delay_ms;
    uint64_t token; /* MEM_BREAK */
    bool may_wait;
    int64_t pid;
    char label[HF_LABEL_MAX + 1];
    uint64_t version;  /* MEM_CELL_* */
    const void *bytes; /* MEM_CELL_COMMIT: mem_cells_keep_commit() */
    size_t len;
};

struct mem_reply {
    hf_status status;
    bool queued;      /* with HF_OK: not granted yet, a push will follow */
    bool others_wait; /* grants and renewals of a WATCHED claim */
    bool lingers;     /* with HF_BUSY: the holder has a LINGERS claim, and nobody waits */
    uint64_t token;   /* queued: the last one that was given */
    uint32_t tokens;
    int64_t ttl_ms;
    int64_t granted_ms; /* server time of the grant or renewal */
    enum hfi_mode mode;
    uint32_t capacity, permits;
    unsigned flags; /* of a holder */
    uint32_t slots[HF_SLOTS_MAX];
    uint64_t version;  /* of a cell */
    const void *bytes; /* of a cell; MEM_CELL_COMMIT: the version of each item */
    size_t len;
    int64_t time_us;
    bool is_wanted; /* a push for a holder: `wanted`, with `text` */
    enum hfi_wanted wanted;
    char text[HF_LABEL_MAX + 1];
};

/* A push: `reply` is a grant, a cell's new version or a message for a holder, or its status is HF_LOST. */
typedef void mem_push_fn(void *arg, uint64_t session, const unsigned char owner[HFI_OWNER_LEN],
                         const struct mem_reply *reply);

struct mem_server;

struct mem_server *mem_server_new(mem_push_fn *push, void *arg);
void mem_server_free(struct mem_server *server);

/* Execute one request, after everything that is due by now_ms. Never fails in itself. */
struct mem_reply mem_server_call(struct mem_server *server, const struct mem_request *request,
                                 int64_t now_ms);

/* Expire what is due, hand off what that frees. */
void mem_server_tick(struct mem_server *server, int64_t now_ms);
/* When the next tick has something to do; HFI_NEVER: nothing is due. */
int64_t mem_server_next_ms(const struct mem_server *server);

/* HFI_OP_LIST: one page, of bare names, or `whole`: of entries. HFI_OP_LOOK. false: the sink was out of memory. */
bool mem_server_list(struct mem_server *server, struct hfi_cursor *cursor, bool whole,
                     struct hfi_sink *sink, int64_t now_ms);
bool mem_server_look(struct mem_server *server, const struct hfi_name *key, struct hfi_sink *sink,
                     int64_t now_ms);

/* The notes of local passing: see hfi_engine.passed. */
void mem_server_passed(struct mem_server *server, const struct hfi_name *name,
                       const unsigned char owner[HFI_OWNER_LEN], uint64_t token, int64_t tid);

/* Changes with everything that an inspect could show. Never 0. */
uint64_t mem_server_seq(const struct mem_server *server);

/* Does this owner hold? For the simulation's judge: expires nothing. */
bool mem_server_holds(const struct mem_server *server, const void *name, uint32_t name_len,
                      const unsigned char owner[HFI_OWNER_LEN]);

/* Lose all data but the token counter, telling nobody. */
void mem_server_forget(struct mem_server *server);
/* Lose the memory of owners that have ended: a late copy of an acquire could bring one back. */
void mem_server_forget_ended(struct mem_server *server);
/* Give a lingering claim at most so many tokens at a time. */
void mem_server_set_block(struct mem_server *server, uint32_t tokens);
/* The next grant's token will be `token`. */
void mem_server_set_token(struct mem_server *server, uint64_t token);

#endif
