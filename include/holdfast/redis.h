/* SPDX-License-Identifier: MIT */
/*
 * Holdfast: what only Redis (and a server that speaks its protocol) has: Lua scripts, and the nodes
 * of a Redlock store. The conventions of holdfast.h apply.
 */
#ifndef HOLDFAST_REDIS_H
#define HOLDFAST_REDIS_H

#include <holdfast/holdfast.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- scripts ----------------------------------------------------------------- */

#define HF_SCRIPT_MAX          (16 << 20) /* bytes of a script with its keys and arguments */
#define HF_SCRIPT_KILL_WAIT_MS 10000
#define HF_SCRIPT_SHA1_LEN     40   /* hex digits */
#define HF_SCRIPT_EXISTS_MAX   1024 /* scripts that one call asks for */

/* The server refuses every write of the script: EVAL_RO and EVALSHA_RO, since Redis 7.0. */
#define HF_SCRIPT_FLAG_READ_ONLY (UINT64_C(1) << 0)

typedef struct hf_script_request {
    size_t size;
    const char *text;        /* Lua; NULL: the script that has this `sha1` */
    size_t text_len;         /* HF_CSTRING: it ends with a NUL */
    const char *const *keys; /* KEYS[1], ... */
    const size_t *key_lens;  /* NULL: each ends with a NUL */
    size_t key_count;
    const char *const *args; /* ARGV[1], ... */
    const size_t *arg_lens;  /* NULL: each ends with a NUL */
    size_t arg_count;
    const char *sha1; /* 40 hex digits and a NUL, instead of `text` */
    uint64_t flags;   /* HF_SCRIPT_FLAG_* */
    uint64_t reserved[2];
} hf_script_request;
#define HF_SCRIPT_REQUEST_INIT HF_INIT(hf_script_request)

typedef struct hf_value hf_value;
typedef enum hf_value_kind {
    HF_VALUE_KIND_NIL,
    HF_VALUE_KIND_INTEGER,
    HF_VALUE_KIND_BYTES, /* any bytes, followed by a NUL */
    HF_VALUE_KIND_STATE, /* a status reply: "OK" */
    HF_VALUE_KIND_ERROR, /* an error inside a list: what redis.pcall() returned */
    HF_VALUE_KIND_LIST
} hf_value_kind;

/*
 * Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Run a Lua script on the server, atomically (HF_CAP_SCRIPTS: Redis). A `text` is sent by its
 * SHA-1, and whole if the server does not know it; a `sha1` names a script that was loaded or run
 * before. *ret_value (may be NULL) is what the script returned, to be freed by hf_free(). Keys are
 * taken as they are, without the prefix of the store; in a cluster they must be of one slot, which
 * decides which server runs the script. Lists may be seven deep.
 *
 * HF_INVALID: the script is at fault, and the text is that of the server. It does not compile
 * (nothing was done); or it raised or returned an error: what it had written by then stays
 * written. Also for keys of several slots (nothing was done), and for a write with
 * HF_SCRIPT_FLAG_READ_ONLY. HF_NOT_FOUND: the server that has the keys does not know this `sha1`
 * (NOSCRIPT). HF_UNSUPPORTED: the engine has no scripts, or the server has no EVAL_RO; the script
 * did not run. HF_CANCELLED: it was killed; it had written nothing. HF_UNAVAILABLE: it did not
 * run; with "BUSY" in the text because another script has run for longer than the
 * busy-reply-threshold of the server. HF_DENIED, HF_FULL: refused; it did not run. HF_UNKNOWN: the
 * answer was lost or did not come in time (op_timeout=): it may have run, or may run now, and is
 * never sent twice.
 */
HF_API HF_USE hf_status hf_script_run(hf_store *store, const hf_script_request *script,
                                      hf_value **ret_value, hf_error *err);

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Give a script to the server (in a cluster: to every master) without running it, and write its
 * SHA-1 with a NUL into ret_sha1 (may be NULL). len HF_CSTRING: the text ends with a NUL. A server
 * forgets its scripts when it restarts and by hf_script_flush(), and a replica that becomes the
 * master may never have had them. HF_INVALID: it does not compile; the text is that of the server.
 * HF_UNKNOWN: some servers may have it. */
HF_API HF_USE hf_status hf_script_load(hf_store *store, const char *text, size_t len,
                                       char ret_sha1[HF_SCRIPT_SHA1_LEN + 1], hf_error *err);

/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Does the server (in a cluster: every master) know this script? `text` is the script, or its
 * SHA-1 in 40 hex digits; len HF_CSTRING: it ends with a NUL. */
HF_API HF_USE hf_status hf_script_exists(hf_store *store, const char *text, size_t len,
                                         bool *ret_exists, hf_error *err);
/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * The same for 1 to HF_SCRIPT_EXISTS_MAX scripts at once; lens NULL: each ends with a NUL. ret_exists has room for `count`. */
HF_API HF_USE hf_status hf_script_exists_each(hf_store *store, const char *const *texts,
                                              const size_t *lens, size_t count, bool *ret_exists,
                                              hf_error *err);
/* Blocks: a round trip. Callbacks: none. After fork: HF_FORKED.
 * Make the servers forget all scripts, those of other clients too. Scripts are sent again when
 * they are needed. */
HF_API HF_USE hf_status hf_script_flush(hf_store *store, hf_error *err);

/*
 * Blocks: up to wait_ms. Callbacks: none. After fork: works.
 * End the script that runs now at the server of `url` (of a cluster: at the servers that the URL
 * names), whichever client runs it, over a new connection: existing ones may be stuck behind the
 * script, and no store can be opened. A server answers nothing before its busy-reply-threshold (5
 * s) is over; the call waits at most wait_ms for that, 0: HF_SCRIPT_KILL_WAIT_MS.
 *
 * HF_NOT_FOUND: none runs. HF_IN_USE: the script has written already, and Redis does not kill it
 * then, because half of its work would stay. HF_UNSUPPORTED: this engine runs no scripts.
 */
HF_API HF_USE hf_status hf_script_kill(const char *url, int64_t wait_ms, hf_error *err);

/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * What the script returned is in result->value. hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_script_run_async(hf_store *store, const hf_script_request *script,
                                            hf_done_fn *done, void *arg, hf_op **ret_op,
                                            hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * The SHA-1 is in result->value (HF_VALUE_KIND_BYTES). hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_script_load_async(hf_store *store, const char *text, size_t len,
                                             hf_done_fn *done, void *arg, hf_op **ret_op,
                                             hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * result->number is 1 if the server knows it, else 0. hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_script_exists_async(hf_store *store, const char *text, size_t len,
                                               hf_done_fn *done, void *arg, hf_op **ret_op,
                                               hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * result->value is a list of integers, 1 or 0, in the order of `texts`; result->number says how many are 1. hf_op_cancel()
 * has no effect on it. */
HF_API HF_USE hf_status hf_script_exists_each_async(hf_store *store, const char *const *texts,
                                                    const size_t *lens, size_t count,
                                                    hf_done_fn *done, void *arg, hf_op **ret_op,
                                                    hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_script_flush_async(hf_store *store, hf_done_fn *done, void *arg,
                                              hf_op **ret_op, hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * `store` says where `done` is called, and is not used for anything else: any store of any engine
 * will do, also one that is stuck behind the script. hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_script_kill_async(hf_store *store, const char *url, int64_t wait_ms,
                                             hf_done_fn *done, void *arg, hf_op **ret_op,
                                             hf_error *err);

/* Blocks: no. Callbacks: none. After fork: works.
 * The parts of a value. NULL is of HF_VALUE_KIND_NIL. A part that a value does not have is 0 or
 * NULL. hf_value_get_count() is the length of a list. Bytes and items live as long as the value
 * that hf_script_run() returned. ret_len may be NULL. */
HF_API HF_USE hf_value_kind hf_value_get_kind(const hf_value *value);
HF_API HF_USE int64_t hf_value_get_integer(const hf_value *value);
HF_API HF_USE const char *hf_value_get_bytes(const hf_value *value, size_t *ret_len);
HF_API HF_USE size_t hf_value_get_count(const hf_value *value);
HF_API HF_USE const hf_value *hf_value_get_item(const hf_value *list, size_t index);

/* ---- the nodes of a Redlock store ------------------------------------------------ */

/* holdfast-redlock(7) explains epochs and healing. The store is not opened: a store that needs this
 * may be in no state to be opened. HF_UNSUPPORTED: not a Redlock store. */

typedef enum hf_redlock_state {
    HF_REDLOCK_STATE_READY = 0,
    HF_REDLOCK_STATE_EMPTY = 1, /* it has lost its data, or is new */
    HF_REDLOCK_STATE_UNFIT = 2, /* it answers, but cannot be used: `why` */
    HF_REDLOCK_STATE_UNREACHABLE = 3
} hf_redlock_state;

typedef struct hf_redlock_node {
    const char *name; /* its address, as in the URL */
    hf_redlock_state state;
    bool votes;
    /* READY */
    uint64_t epoch;
    const char *epoch_id; /* in hex; "" of other states, as the next one */
    const char *cluster;
    uint64_t lag; /* epochs behind the highest one */
    uint32_t nodes;
    int64_t max_ttl_ms;
    uint64_t top;   /* highest token */
    uint64_t floor; /* tokens begin above it */
    uint64_t names;
    /* EMPTY */
    const char *marker; /* in hex; "": it is not marked */
    int64_t age_ms;     /* empty for this long */
    /* UNFIT, UNREACHABLE */
    const char *why;
} hf_redlock_node;

typedef enum hf_redlock_step {
    HF_REDLOCK_STEP_NOTHING = 0,
    HF_REDLOCK_STEP_START = 1,
    HF_REDLOCK_STEP_MARK = 2,
    HF_REDLOCK_STEP_WAIT = 3,
    HF_REDLOCK_STEP_SEAL = 4,
    HF_REDLOCK_STEP_INSTALL = 5,
    HF_REDLOCK_STEP_LIFT = 6,
    HF_REDLOCK_STEP_OPERATOR = 7, /* a person must decide */
    HF_REDLOCK_STEP_NODES = 8     /* more nodes must answer */
} hf_redlock_step;

typedef struct hf_redlock_status {
    uint32_t votes;       /* nodes that vote */
    uint32_t needed;      /* a majority */
    uint32_t nodes;       /* of the URL */
    hf_redlock_step next; /* what healing does next */
    int64_t wait_ms;      /* WAIT: for this long */
} hf_redlock_status;

/* Blocks: a round trip. Callbacks: none. After fork: works.
 * The state of every node of the Redlock store at `url`. *ret_status, to be freed by hf_free(), is
 * set also with a status that says why the store cannot be healed; NULL: no node was asked.
 * HF_UNSUPPORTED: not a Redlock store. */
HF_API HF_USE hf_status hf_redlock_get_status(const char *url, hf_redlock_status **ret_status,
                                              hf_error *err);
/* Blocks: no. Callbacks: none. After fork: works.
 * Node number `index`, from 0, in the order of the URL. It lives as long as the status. NULL: no
 * such index. */
HF_API HF_USE const hf_redlock_node *hf_redlock_get_node(const hf_redlock_status *status,
                                                         size_t index);

/* Told of each step of hf_redlock_join(); `topic` is a node. The strings are valid during the call
 * only. */
typedef void hf_redlock_fn(hf_check_level level, const char *topic, const char *text, void *arg);

#define HF_REDLOCK_JOIN_FLAG_FORCE (UINT64_C(1) << 0) /* see holdfast-redlock(1) */

/* Blocks: for as long as max_ttl. Callbacks: here. After fork: works.
 * Heal what can be healed, and wait for what must pass first. `node`, an address of the URL, is
 * the one that shall join; NULL: all. `told` (may be NULL) is called for each step. */
HF_API HF_USE hf_status hf_redlock_join(const char *url, const char *node, uint64_t flags,
                                        hf_redlock_fn *told, void *arg, hf_error *err);

/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * The status is in result->redlock, or NULL, as the blocking form returns it. `store` says where
 * `done` is called, and is not used for anything else: any store of any engine will do.
 * hf_op_cancel() has no effect on it. */
HF_API HF_USE hf_status hf_redlock_get_status_async(hf_store *store, const char *url,
                                                    hf_done_fn *done, void *arg, hf_op **ret_op,
                                                    hf_error *err);
/* Blocks: no. Callbacks: process. After fork: HF_FORKED.
 * `store` as above. `told` (may be NULL) and `done` get `arg`; the next step begins after `told` has
 * heard of this one. hf_op_cancel() ends it between two steps: what was done stays done, and a later
 * join goes on from there. */
HF_API HF_USE hf_status hf_redlock_join_async(hf_store *store, const char *url, const char *node,
                                              uint64_t flags, hf_redlock_fn *told, hf_done_fn *done,
                                              void *arg, hf_op **ret_op, hf_error *err);

#ifdef __cplusplus
}
#endif
#endif
