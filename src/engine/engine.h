/* SPDX-License-Identifier: MIT */
/*
 * The engine contract: submit, drive, done.
 *
 * Core turns every public call into an *op*, submits it to the engine of the
 * store, and the engine finishes it exactly once with hfi_op_finish(). Engines
 * implement acquire / renew / release / cancel / inspect / break once, in the
 * permit model; kinds, reentrancy, local passing, deadlines, renewal, min_valid
 * and max_hold are core's business and never the engine's.
 *
 * Three kinds of engine fit:
 *
 *   HFI_INLINE    submit() finishes every op before it returns, but for an
 *                 acquire or a wait for a cell that must wait: that one is
 *                 finished later, by the waiting thread inside wait(), or by a
 *                 thread of the engine.
 *   HFI_EVENT     submit() writes, process() reads and finishes. Core drives it
 *                 with fd() / timeout_ms() / process(), one thread at a time.
 *   HFI_BLOCKING  submit() runs on the calling thread until the op is finished
 *                 or op->deadline_ms; many threads submit at once.
 *
 * What an engine must never do: retry by policy, print, imitate a capability it
 * does not declare, call another engine, use a client's clock where the
 * server's belongs, or treat a timeout after a write as "no". An outcome that
 * it cannot establish is HF_UNKNOWN; core then releases by owner id until the
 * engine answers HF_OK or HF_LOST.
 *
 * Locks: core calls no engine function while it holds a lock of its own that an
 * engine callback needs; an engine calls hfi_op_finish() and host->lost() with
 * none of its locks held. (ARCHITECTURE.md draws the order.)
 */
#ifndef HFI_ENGINE_H
#define HFI_ENGINE_H

#include "engine/conf.h"
#include "holdfast/holdfast.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define HFI_ENGINE_ABI  2u
#define HFI_OWNER_LEN   16
#define HFI_TOKEN_LIMIT (UINT64_C(1) << 53)  /* a grant that would reach it is refused: HF_FULL */
#define HFI_RW_MAX      UINT32_C(0x40000000) /* capacity of a read-write lock; a writer takes all */
#define HFI_NEVER       INT64_MAX

/* Bytes of the engine's own in every claim and in every op, for a struct of its own type: core zeroes
 * claim_size and op_size of them (HFI_ROOMS() below) before the first submit. A larger state is a
 * pointer there, to the engine's own memory. */
#define HFI_CLAIM_ROOM 128
#define HFI_OP_ROOM    256

/* A duration that a server says: never negative, nor longer than any that we take. Every engine does this where it decodes
 * it: what is made of it later is sums and products. */
static inline int64_t hfi_told_ms(int64_t ms)
{
    return ms < 0 ? 0 : ms > HF_DURATION_MAX_MS ? HF_DURATION_MAX_MS : ms;
}

#define HFI_TOLD_S_MAX \
    ((int64_t)(HFI_TOKEN_LIMIT / 1000000)) /* seconds since 1970, of a server's clock */

struct hfi_conn; /* the engine's own: one open store */

/* One finding of doctor(), or of manage(). The strings are good during the call only. */
typedef void hfi_finding_fn(hf_check_level level, const char *topic, const char *text, void *arg);

/*
 * A name and its hash. The hash is the same in every process and version
 * (util/hash.h), so an engine may store it; two names may share one, so an
 * engine that keys by it must compare the bytes too.
 */
struct hfi_name {
    const unsigned char *bytes;
    uint32_t len; /* 1 to HF_NAME_MAX */
    uint64_t hash[2];
};

enum hfi_mode { HFI_MODE_MUTEX, HFI_MODE_RW, HFI_MODE_SEMAPHORE }; /* what kind a name is */

#define HFI_CLAIM_BARGE    (1u << 0)
#define HFI_CLAIM_DETACHED (1u << 1)

/*
 * One acquisition: what was asked for, and what was granted. It belongs to
 * core, which keeps it at one address, with its name's bytes, from submit() of
 * the acquire until the acquire has failed or a release of it has finished
 * with HF_OK or HF_LOST. `owner` is new for every acquisition.
 */
struct hfi_claim {
    struct hfi_name name;
    unsigned char owner[HFI_OWNER_LEN];
    enum hfi_mode mode;
    uint32_t capacity, permits; /* permits <= capacity */
    unsigned flags;             /* HFI_CLAIM_* */
    uint32_t tokens_wanted;     /* size of the token block, at least 1 */
    int64_t ttl_ms;             /* asked for; 0: none (only with HF_CAP_PROCESS) */
    int64_t lock_delay_ms;
    int64_t
        min_valid_ms;  /* a grant with less validity left is of no use: an engine that can hand over
                             for less than the ttl gets the whole of it before it finishes */
    const char *label; /* NULL: the store's label; lives as long as the claim */

    /* Set by the engine before it finishes the acquire with HF_OK. */
    uint64_t token;  /* first of the block; 0: this engine has none */
    uint32_t tokens; /* size of the block, 1 <= tokens <= tokens_wanted */
    /* Set by the engine at every grant and renewal that succeeded. */
    int64_t granted_ttl_ms; /* as the server granted it; 0: no expiry */
    int64_t sent_ms; /* hfi_now_ms() read before the request that started this ttl was sent */

    /* The engine's own; claim_size bytes are zeroed by core before submit of the acquire. */
    _Alignas(16) unsigned char room[HFI_CLAIM_ROOM];
};

/* Tells a claim from all others of its name where tokens do not. */
static inline uint64_t hfi_claim_number(const struct hfi_claim *claim)
{
    uint64_t number;

    memcpy(&number, claim->owner, sizeof number);
    return number ? number : 1;
}

enum hfi_op_kind {
    HFI_OP_ACQUIRE, /* claim */
    HFI_OP_RELEASE, /* claim: by name, owner (and token); HF_LOST: no such owner there */
    HFI_OP_RENEW,   /* claims, ttl_ms each: never re-creates, is never sent twice (a late copy could
                       shorten the lease under its holder); per-claim result */
    HFI_OP_ADOPT,   /* claim with name, owner, token, ttl_ms: renew it and fill in mode,
                       capacity, permits; HF_NOT_FOUND */
    HFI_OP_INSPECT, /* name or pattern; emits into `sink` */
    HFI_OP_BREAK,   /* name, token; HF_NOT_FOUND */
    /* Cells (HF_CAP_CELLS): bytes with a version. Versions are positive; one that a cell had is never
     * that of other bytes, not even after it was deleted and made again. */
    HFI_OP_CELL_READ, /* ret_bytes (from hfi_malloc), ret_len, ret_version, ret_ttl_ms; HF_NOT_FOUND */
    HFI_OP_CELL_SWAP, /* version (0: there is none yet), bytes (NULL: delete), ttl_ms -> ret_version;
                         HF_BUSY: it has another version, which ret_version says (0: none) */
    HFI_OP_CELL_WAIT, /* version (0: there is none): finish with HF_OK as soon as the cell's is another one
                         (ret_version, 0: there is none), at once if it is already; an event, never a
                         poll. A ttl that ends is a change. may_wait and blocking are set: it waits in
                         submit() (BLOCKING), in wait() (INLINE) or nowhere (EVENT), as an acquire does.
                         cancel() ends it, and needs no answer of the server for that: nothing is in the
                         store that could stay there. HF_UNAVAILABLE: the connection was lost and the
                         engine does not find out by itself whether it changed; core begins again. Only
                         with HF_CAP_CELL_WATCH. */
    HFI_OP_TIME, /* HF_CAP_CLOCK: time.ret_us, the server's clock */

    /* Native paths, only for an engine that lists them in `native`; else made of cells (src/prim). */
    HFI_OP_COUNTER, /* counter */
    HFI_OP_LIMIT,   /* limit */
    HFI_OP_SCRIPT   /* HF_CAP_SCRIPTS: script */
};

#define HFI_NATIVE_COUNTER (1u << 0)
#define HFI_NATIVE_LIMIT   (1u << 1)

struct hfi_op;
typedef void hfi_done_fn(struct hfi_op *op);

/* Where an engine puts what it found. Called from submit()/process(), in any order
 * of names, all holders and waiters of an entry before the next entry. The engine
 * keeps nothing. false: core is out of memory; finish with HF_NO_MEMORY. */
struct hfi_sink {
    bool (*entry)(struct hfi_sink *sink, const hf_entry *entry); /* counts are ignored */
    bool (*holder)(struct hfi_sink *sink, const hf_holder *holder);
    bool (*waiter)(struct hfi_sink *sink, const hf_waiter *waiter);
};

struct hfi_renewal {
    struct hfi_claim *claim;
    int64_t ttl_ms;
    hf_status status; /* HF_OK, HF_LOST, or why it is not known */
};

/*
 * One request to the engine. Core owns it and keeps it until `done` has been
 * called. Everything up to `done` is core's to set and the engine's to read.
 */
struct hfi_op {
    enum hfi_op_kind kind;
    int64_t deadline_ms; /* hfi_now_ms() time; HFI_NEVER: none. INLINE and EVENT engines may
                            leave it to core, which calls cancel() when it has passed. */
    bool may_wait;       /* ACQUIRE: queue if it is busy; else finish with HF_BUSY */
    bool blocking; /* ACQUIRE, CELL_WAIT: this thread will call wait() next (INLINE engines) */
    struct hfi_claim *claim;
    union {
        struct {
            struct hfi_renewal *items;
            size_t count;
        } renew;
        struct {
            const unsigned char *pattern;
            uint32_t len;
            bool glob;
            struct hfi_sink *sink;
        } inspect;
        struct {
            struct hfi_name name;
            uint64_t token;
        } brk;
        struct {
            struct hfi_name name;
            const void *bytes;
            size_t len;
            uint64_t version;
            int64_t ttl_ms; /* SWAP: it is deleted by itself after so long; 0: never */
            void *ret_bytes;
            size_t ret_len;
            uint64_t ret_version;
            int64_t ret_ttl_ms; /* READ: left; -1: no end */
        } cell;
        struct {
            struct hfi_name name; /* whose server is asked, where there are several */
            int64_t ret_us;       /* microseconds since 1970 */
        } time;
        struct hfi_counter_op *counter; /* engine/native.h, all three */
        struct hfi_limit_op *limit;
        struct hfi_script_op *script;
    } u;
    hfi_done_fn *done; /* called by hfi_op_finish(), on any thread, with no engine lock held */
    void *core;        /* core's own */
    _Atomic int
        stop; /* BLOCKING: 0, or the status that core is about to call cancel() with. That may
                          be before submit() has got so far that cancel() finds it: look here before
                          going to sleep. */

    hf_error error;       /* the engine writes it before it finishes with anything but HF_OK */
    _Atomic int finished; /* 0 until hfi_op_finish(); then 1 + status */
    /* The engine's own; op_size bytes are zeroed by core before submit. */
    _Alignas(16) unsigned char room[HFI_OP_ROOM];
};

/* Finish an op: exactly once. It may be gone when this returns. */
void hfi_op_finish(struct hfi_op *op, hf_status status);

/* What core offers an engine; lives as long as the conn. */
struct hfi_host {
    /* This claim is no longer ours in the store (broken, expired, forgotten). Any
     * thread. Core ignores it if `claim` has ended meanwhile or is another acquisition
     * by now: `owner` is a copy that tells (claims live in type-stable memory). */
    void (*lost)(struct hfi_host *host, struct hfi_claim *claim,
                 const unsigned char owner[HFI_OWNER_LEN], const char *why);
    /* The server is another one now, or has other data than it had (restart, failover): every lease
     * is AT_RISK until a renewal has found it there, or not. Any thread. */
    void (*doubt)(struct hfi_host *host, const char *why);
    /* EVENT engines: timeout_ms() became shorter; whoever drives must look again. */
    void (*wake)(struct hfi_host *host);
    const char *label; /* the store's label, at most HF_LABEL_MAX bytes */
    /* What to call this store: no secrets. conf->location, unless open() sets another one, which lives
     * as long as the conn. */
    const char *location;
    /* The engine's own, unless open() sets others. */
    const struct hfi_promises *promises;
    /* For how long a lease is granted at most, here and now, whatever ttl is asked for: its life is that of a
     * session, whose end the engine writes here whenever it changes. 0: no limit. */
    _Atomic int64_t max_ttl_ms;
    int64_t open_deadline_ms;
    /* HF_OPEN_FLAG_EXISTING: make nothing that belongs to a store. If there is none: HF_NOT_FOUND with the text "no store
     * yet at LOCATION", from open(), or from the ops of a conn whose doctor() can report without one. */
    bool existing;
    /* HF_OPEN_FLAG_ONCE, while it is being opened: an address that cannot be reached is tried once. */
    bool open_once;
};

/* What a store can do and what holds, whatever goes wrong. One for each set of promises that a URL can choose (wire,
 * mode, tokens=). */
struct hfi_promises {
    const char *name;    /* "redis-plain": of the engine, or of this set */
    const char *schemes; /* of the engine */
    uint64_t caps;       /* HF_CAP_* */
    hf_token_strength tokens;
    int64_t default_ttl_ms; /* 0: process-bound, no ttl */
    int64_t min_ttl_ms;
    int64_t guard_ms; /* taken off every validity, beyond the drift */
    unsigned native;  /* HFI_NATIVE_*: what it does itself, in one step */
    /* Without HF_CAP_WAITERS: HFI_OP_INSPECT tells core's deadlock detector, and nobody else, what this process holds
     * and waits for, and what others have told it of that. A holder's `first` is hfi_claim_number(). */
    bool tells_own;
    /* The promise table, for people: a few words each. */
    const char *on_crash, *on_pause, *on_clock_jump, *on_server_loss, *on_partition, *fairness,
        *wakeup;
};

enum hfi_drive { HFI_INLINE, HFI_EVENT, HFI_BLOCKING };

struct hfi_engine {
    unsigned abi; /* HFI_ENGINE_ABI */
    enum hfi_drive drive;
    const struct hfi_promises *promises;
    uint32_t op_size, claim_size;     /* HFI_ROOMS() */
    const struct hfi_conf_type *conf; /* what its URLs may say */

    /*
     * Open the store. May block until host->open_deadline_ms. On failure nothing is left open.
     * `conf` is a struct of the engine's own type, read by `conf` above; it lives until close() has
     * returned. What no table can say is checked here, before anything is sent.
     */
    hf_status (*open)(struct hfi_conf *conf, struct hfi_host *host, struct hfi_conn **ret_conn,
                      hf_error *err);

    /* Close it. No op is pending. Claims that are still held are detached, or could not be
     * given back in time (the store did not answer, no memory): the engine forgets where core
     * had them. May block shortly. */
    void (*close)(struct hfi_conn *conn);

    /* There is nothing for a forked child: its handles are HF_FORKED, its copy of the conn is never touched, and
     * sockets that were noted (util/fds.h) are closed there by fork() itself. */

    /* Begin an op. Any thread, many at once. Blocks only in a BLOCKING engine. May
     * call done before it returns. */
    void (*submit)(struct hfi_conn *conn, struct hfi_op *op);

    /*
     * Ask a waiting acquire (or CELL_WAIT, see there) to end with `status` (HF_CANCELLED,
     * HF_TIMEOUT). Any thread. The op is finished with `status` once the store has taken us
     * out of the queue, with HF_OK if it was granted first, with HF_UNKNOWN if neither can
     * be established. INLINE: finished before this returns, by this call or by
     * another. An op that has finished or finishes meanwhile: no effect, but the
     * caller guarantees that its memory is still there.
     */
    void (*cancel)(struct hfi_conn *conn, struct hfi_op *op, hf_status status);

    /*
     * INLINE only: block this thread, which submitted op with `blocking`, until op
     * is finished or until_ms has passed, without polling. Returns also early,
     * for no reason: the caller looks at op->finished.
     */
    void (*wait)(struct hfi_conn *conn, struct hfi_op *op, int64_t until_ms);

    /* EVENT only. fd polls readable when process() has work; timeout_ms: until
     * process() must be called anyway, -1 for never. One thread at a time. */
    int (*fd)(struct hfi_conn *conn);
    int (*timeout_ms)(struct hfi_conn *conn, int64_t now_ms);
    void (*process)(struct hfi_conn *conn, int64_t now_ms);

    /*
     * EVENT only, both or neither. turn(): wait for work, at most until until_ms, and do it: as
     * poll(fd, timeout_ms) and process() would, for an engine that needs fewer system calls for
     * it. One thread at a time, and never while another is in process(). It may return early, for
     * no reason. kick(): any thread; a turn() that sleeps for want of work, or the next one,
     * returns soon.
     */
    void (*turn)(struct hfi_conn *conn, int64_t until_ms);
    void (*kick)(struct hfi_conn *conn);
    /* EVENT, may be NULL. Between cork(true) and cork(false) many submits follow each other: what
     * they send may leave in one write at the end. Any thread; they nest. */
    void (*cork)(struct hfi_conn *conn, bool on);

    /* HF_CAP_PASS: the lease of `claim` was passed on locally; `token` of its block
     * holds now, in thread `tid`. Must be cheap and must not fail: it is a note for
     * inspect and break. May be NULL. */
    void (*passed)(struct hfi_conn *conn, struct hfi_claim *claim, uint64_t token, int64_t tid);

    /* HF_CAP_WATCH: block until the store's change number differs from *seq, *stop is
     * nonzero, or until_ms; see hf_store_wait(). stop_wait() makes it look at *stop. */
    hf_status (*wait_change)(struct hfi_conn *conn, uint64_t *seq, int64_t until_ms,
                             const _Atomic int *stop, hf_error *err);
    void (*stop_wait)(struct hfi_conn *conn);

    /* Report on the store. May block. */
    hf_status (*doctor)(struct hfi_conn *conn, hfi_finding_fn *finding, void *arg, hf_error *err);

    /* HF_CAP_SCRIPTS: hf_script_kill(). Blocks, at most about wait_ms. */
    hf_status (*kill_script)(struct hfi_conn *conn, int64_t wait_ms, hf_error *err);

    /* Administer the store of `conf`, which is not opened (it may be in no state to be): see core/by_url.c. May
     * block. NULL: there is nothing to administer. */
    hf_status (*manage)(struct hfi_conf *conf, const char *const *words, hfi_finding_fn *finding,
                        void *arg, hf_error *err);
};

/* How much of the rooms this engine uses, in its table: HFI_ROOMS(struct redis_op, struct redis_claim). */
#define HFI_FITS(type, room)                                                              \
    (sizeof(type) + 0 * sizeof(struct {                                                   \
                        _Static_assert(sizeof(type) <= (room), "too large for its room"); \
                        char c;                                                           \
                    }))
#define HFI_ROOMS(op, claim) \
    .op_size = HFI_FITS(op, HFI_OP_ROOM), .claim_size = HFI_FITS(claim, HFI_CLAIM_ROOM)

/* A module lib/holdfast/<name>.so exports this; a static build lists it in the registry. */
#define HFI_ENGINE_SYMBOL "hfi_engine_entry"
typedef const struct hfi_engine *hfi_engine_entry_fn(void);

#endif
