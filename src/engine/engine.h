/* SPDX-License-Identifier: MIT */
/*
 * The engine contract: what an engine implements, and what core offers it.
 *
 * Core turns every public call into an *op* and submits it to the engine of the store. The engine finishes the
 * op exactly once, with hfi_op_finish(). An engine knows permits only: core reduces mutexes, read-write locks
 * and semaphores to them, and core alone deals with reentrancy, local passing, renewal and max_hold. It deals with
 * deadlines too, except in BLOCKING engines, and with min_valid, except in grants that may be short
 * (claim->min_valid_ms).
 *
 * The drive of an engine (struct hfi_drive) says which thread does the work:
 *
 *   HFI_INLINE    submit() finishes every op before it returns. The exceptions are an acquire and a wait for a
 *                 cell or a change that cannot be answered yet: the waiting thread finishes them in wait(), or a thread of
 *                 the engine does. An op that may not sleep (op->hurried) and cannot be done at once goes to
 *                 host->resume() instead, as the last thing that submit() does: core submits it again, on a worker,
 *                 and keeps the order of such ops.
 *   HFI_EVENT     submit() writes. The thread that drives the store reads, and finishes the ops. One thread at
 *                 a time drives.
 *   HFI_BLOCKING  submit() runs on the calling thread until the op is finished or op->deadline_ms has passed.
 *                 Many threads submit at once. An op that waits and has no thread (op->blocking is false) may be
 *                 *suspended* instead: submit() returns, and does not touch the op any more. When there is something to
 *                 do for it, the engine calls host->resume(), and core submits the same op again, on a worker.
 *
 * An engine never
 *   - retries an acquire that was answered, or whose copy may be lost, unless its protocol says so;
 *   - prints, reads a URL, a password file or an environment variable (except one of its client library), or
 *     calls another engine;
 *   - imitates a capability that it does not declare;
 *   - uses the clock of the client where the clock of the server decides;
 *   - takes a timeout after a write for "no". An outcome that it cannot establish is HF_UNKNOWN. Core then
 *     releases by owner id until the engine answers HF_OK or HF_LOST.
 * It may keep an op unsent until its own connection is up.
 *
 * Locks: core holds no lock that a callback of the engine needs while it calls the engine. An engine holds no
 * lock of its own while it calls hfi_op_finish() or a function of its host. ARCHITECTURE.md draws the order.
 */
#ifndef HFI_ENGINE_H
#define HFI_ENGINE_H

#include "engine/conf.h"
#include "holdfast/holdfast.h"
#include "util/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define HFI_ENGINE_ABI  11u
#define HFI_OWNER_LEN   16
#define HFI_TOKEN_LIMIT (UINT64_C(1) << 53) /* a grant that would reach it is refused: HF_FULL */
#define HFI_TOKEN_AHEAD_US \
    50000 /* how far ahead of the server's clock a block of a lingering lease may end */
#define HFI_RW_MAX UINT32_C(0x40000000) /* capacity of a read-write lock; a writer takes all */
/* An upgradeable reader takes more than half: so there is one at most, beside half a milliard of readers. */
#define HFI_RW_UPGRADEABLE (HFI_RW_MAX / 2 + 1)
#define HFI_NEVER          INT64_MAX

/* Every claim and every op has a room: bytes for a struct of the engine's own type (HFI_STORAGE() below). A larger
 * state is a pointer in the room, to memory of the engine. */
#define HFI_CLAIM_ROOM 128
#define HFI_OP_ROOM    256

/* Numbers of a server are bounded where they are decoded, so that later sums and products cannot overflow: a duration by this
 * function, to what the API accepts; a time of its clock, in seconds since 1970, must be less than HFI_TOLD_S_MAX. */
static inline int64_t hfi_told_ms(int64_t ms)
{
    return ms < 0 ? 0 : ms > HF_DURATION_MAX_MS ? HF_DURATION_MAX_MS : ms;
}

#define HFI_TOLD_S_MAX ((int64_t)(HFI_TOKEN_LIMIT / 1000000))

/* Report one finding of doctor(), or one step of an extension. The strings are valid during the call only. */
/* Of a finding: a fact that one should know and that is no fault. Callers see HF_CHECK_LEVEL_OK and hf_finding.note. */
#define HFI_CHECK_NOTE ((hf_check_level)0x100)

typedef void hfi_finding_fn(hf_check_level level, const char *topic, const char *text, void *arg);

/* A name and its hash. The hash is the same in every process and version (util/hash.h), so an engine may store it. Two names
 * may have the same hash, so an engine that looks a name up by it compares the bytes too. */
struct hfi_name {
    const unsigned char *bytes;
    uint32_t len; /* 1 to HF_NAME_MAX */
    uint64_t hash[2];
};

/* The kind of a name, and its capacity, are those of the first claim, for as long as the name has holders or waiters. */
enum hfi_mode { HFI_MODE_MUTEX, HFI_MODE_RW, HFI_MODE_SEMAPHORE };

#define HFI_CLAIM_BARGE \
    (1u << 0) /* HF_CAP_BARGE: it need not wait behind those that wait already */
#define HFI_CLAIM_DETACHED \
    (1u << 1) /* HF_CAP_DETACHED: it outlives the process, and is not lost with the connection */
/* HF_CAP_WANTED: its holder asks to be told by host->wanted() that others wait for it. The store keeps the flag with the
 * holder, and a claim without the flag costs nothing more than before. */
#define HFI_CLAIM_WATCHED (1u << 2)
/* HF_CAP_LINGER, always together with WATCHED: its process may keep it while no caller uses it. An acquire that does not wait
 * and meets such a holder is finished with HF_BUSY and op->ret_lingers: core then asks again, and waits a little. */
#define HFI_CLAIM_LINGERS (1u << 3)
/* HF_CAP_CONVERT: it takes the place of the holder `replaced`, which is of this process and name. That one's permits count as free for
 * this claim, it stands before all that wait, and its grant removes that holder in the same step. HF_LOST: there is no such holder.
 * A holder that ends while the claim waits changes nothing: the claim keeps its place before all others, so no other writer can have
 * come between, and core knows what it has lost. The holder's end in the store is not earlier after the grant than it was before. Once it
 * was granted, nothing but HF_OK, HF_LOST or HF_UNKNOWN may follow: the engine does not give it back by itself. A claim that asks for no more permits than the holder has never waits, not even for
 * the end of a lock delay. */
#define HFI_CLAIM_REPLACES (1u << 4)
/* HF_CAP_NUMBERED, semaphores only, permits <= HF_SLOTS_MAX: each of its permits gets a number at the grant, by itself or by a
 * hand-over: the lowest ones from 0 on that no NUMBERED holder of the name has (Redlock: any below the capacity that no holder has). They
 * stay with the holder until it ends. Holders without the flag have none, and cost nothing more. */
#define HFI_CLAIM_NUMBERED (1u << 5)

/*
 * One acquisition: what was asked for, and what was granted. It belongs to core. Core keeps it at one address,
 * with the bytes of its name, from submit() of the acquire until the acquire has failed, or until a release of
 * it has finished with HF_OK or HF_LOST. Its memory is a claim for the life of the process: host->lost() may
 * come late, and `owner`, which is new for every acquisition, tells one claim from the next.
 */
struct hfi_claim {
    struct hfi_name name;
    unsigned char owner[HFI_OWNER_LEN];
    enum hfi_mode mode;
    uint32_t capacity, permits; /* permits <= capacity */
    unsigned flags;             /* HFI_CLAIM_* */
    uint32_t tokens_wanted;     /* size of the token block, at least 1 */
    /* how often its holder has it: more than once by reentry (promises->counts) */
    _Atomic uint32_t holds;
    int64_t ttl_ms; /* asked for; 0: none (only with HF_CAP_PROCESS) */
    /* HF_CAP_LOCK_DELAY: if the lease expires, the name stays closed for this long */
    int64_t lock_delay_ms;
    /* A grant with less validity left is of no use to the caller. An engine whose grants may be shorter than the ttl renews
     * such a grant before it finishes the acquire: hfi_grant_needs_renewal() of kit/handover.h decides. */
    int64_t min_valid_ms;
    const char *label;                     /* NULL: the store's label; lives as long as the claim */
    unsigned char replaced[HFI_OWNER_LEN]; /* HFI_CLAIM_REPLACES: the owner id of that holder */

    /* Set by the engine before it finishes the acquire with HF_OK. */
    uint64_t token;  /* first of the block; 0: this engine has none */
    uint32_t tokens; /* size of the block, 1 <= tokens <= tokens_wanted */
    /* NUMBERED: one for each permit, ascending; ADOPT sets them too */
    uint32_t slots[HF_SLOTS_MAX];
    /* Set by the engine at every grant and renewal that succeeded. */
    int64_t granted_ttl_ms; /* as the server granted it; 0: no expiry */
    int64_t sent_ms; /* hfi_now_ms() read before the request that started this ttl was sent */
    /* Set by the engine at every grant of a WATCHED claim: others wait behind it. A host->wanted() may be lost or overtake
     * the grant, so the grant says it too. */
    bool others_wait;

    /* The engine's own struct. Core zeroes claim_size bytes before submit() of the acquire. */
    _Alignas(16) unsigned char room[HFI_CLAIM_ROOM];
};

/* A number that tells the claims of one name apart where there are no tokens. */
static inline uint64_t hfi_claim_number(const struct hfi_claim *claim)
{
    uint64_t number;

    memcpy(&number, claim->owner, sizeof number);
    return number ? number : 1;
}

enum hfi_op_kind {
    /* Every op may end with HF_UNAVAILABLE (it was not done), HF_UNKNOWN (it may have been done), HF_DENIED, HF_FULL or
     * HF_NO_MEMORY. Beside these: */
    HFI_OP_ACQUIRE, /* claim. HF_OK: granted. HF_BUSY: it does not fit now, and may not wait. HF_MISMATCH: the name is in
                       use with another kind or capacity. After cancel(): the status of that */
    HFI_OP_RELEASE, /* claim: by name and owner. HF_LOST: no such owner is there. May come more than once */
    HFI_OP_RENEW, /* claims, with a ttl each, and a result each. It never makes a lease anew, and is never sent twice: a
                       late copy could shorten the lease under its holder */
    HFI_OP_ADOPT, /* claim with name, owner, token, ttl_ms (HF_CAP_DETACHED): renew it, and fill in mode, capacity and
                       permits, and NUMBERED with its slots. HF_NOT_FOUND */
    HFI_OP_BREAK, /* name, token (HF_CAP_BREAK): end exactly this lease, whoever owns it. HF_NOT_FOUND */
    /* count (promises->counts): write down how often this owner has the name, which is *holds, and let it last at least for ttl_ms
     * from now (0: as it does). Never makes a lease anew. The latest number holds, so a lost or a repeated one is put right by the
     * next, or by the next renewal. HF_LOST: no such owner is there. */
    HFI_OP_COUNT,
    /* resize (HF_CAP_RESIZE): the name is a semaphore of this capacity from now on, whatever capacity claims ask for, and also while
     * it is free: the store keeps it for ever. 0: no longer; a name in use keeps its capacity until it is free. Waiters that fit now are
     * granted in the same step, in their order; a claim with more permits than the set capacity is HF_MISMATCH when it asks,
     * and waits on if it is in the queue. HF_MISMATCH: the name is in use as another kind. Safe to repeat. */
    HFI_OP_RESIZE,
    HFI_OP_ASK, /* name, text (HF_CAP_WANTED): tell every WATCHED holder, by its host->wanted(HFI_WANTED_ASKED, text). It
                     queues nowhere and changes nothing. HF_OK: at least one was told. HF_BUSY: the name is held, and no
                     holder listens. HF_NOT_FOUND: nobody holds it */
    /* Inspection (HF_CAP_INSPECT). Core matches the pattern, drops twins, sorts, and bounds the whole. An entry is
     * consistent in itself; entries of one page may be of different moments. */
    HFI_OP_LIST, /* one page from the cursor on, into `sink`: whole entries where these cost nothing more (one
                    statement, one transaction, one range), else bare names. Sets the cursor of the next page */
    HFI_OP_LOOK, /* all of one name, into `sink`: one entry; none if the name is free, and that is HF_OK too */
    /* Cells (HF_CAP_CELLS): bytes with a version. Versions are positive. A version that a cell had is never the
     * version of other bytes, not even after the cell was deleted and made again. */
    HFI_OP_CELL_READ, /* ret_bytes (from hfi_malloc), ret_len, ret_version, ret_ttl_ms; HF_NOT_FOUND */
    HFI_OP_CELL_SWAP, /* version (0: there is none yet), bytes (NULL: delete), ttl_ms -> ret_version;
                         HF_BUSY: it has another version, which ret_version says (0: none) */
    /* version (0: there is no cell): finish with HF_OK as soon as the cell has another version (ret_version;
     * 0: no cell), at once if it has one already. The end of a ttl is a change. The engine is told by an event
     * and does not poll. may_wait and blocking are set. The op waits where an acquire does: in submit()
     * (BLOCKING), in wait() (INLINE) or on no thread (EVENT). cancel() ends it without an answer of the server:
     * nothing of it is in the store. HF_UNAVAILABLE: the connection was lost, and the engine cannot find out by
     * itself whether the cell changed; core begins again. Only with HF_CAP_CELL_WATCH. */
    HFI_OP_CELL_WAIT,
    /* HF_CAP_COMMIT: u.commit (engine/native.h). All its items have the versions that they expect, and all of them are
     * done, at one moment for every other client; or none is. HF_OK: ret_version of each is what its cell has then (0: none).
     * HF_BUSY: an item found another version, and nothing was done; ret_version of each is the one that was found. The engine
     * never sends it twice, and wakes the waiters of each cell that it changes. */
    HFI_OP_CELLS_COMMIT,
    /* u.change.seq: finish with HF_OK as soon as the change number of the store is another one, and set u.change.seq
     * to it. 0: from now on; the engine sets the number of now, whatever the op ends with. It waits as CELL_WAIT
     * does, and cancel() ends it. cancel(HF_TIMEOUT) says that nobody waits any longer, but the question stays: an
     * engine that must ask the store for the number asks first (core allows it as long as for an op that does not
     * wait), and finishes with HF_OK if it has changed. A change is told although the connection was lost
     * meanwhile. HF_UNAVAILABLE: the store does not answer. Only with HF_CAP_WATCH. */
    HFI_OP_CHANGE_WAIT,
    HFI_OP_TIME, /* HF_CAP_CLOCK: time.ret_us, the server's clock */

    /* Native paths, only for an engine that lists them in `native`. Otherwise src/prim builds them from cells. */
    HFI_OP_COUNTER, /* counter */
    HFI_OP_LIMIT,   /* limit */
    HFI_OP_SCRIPT   /* HF_CAP_SCRIPTS: script */
};
#define HFI_OP_KINDS (HFI_OP_SCRIPT + 1)

#define HFI_NATIVE_COUNTER (1u << 0)
#define HFI_NATIVE_LIMIT   (1u << 1)

struct hfi_op;
typedef void hfi_done_fn(struct hfi_op *op);

/* Takes what a LIST or a LOOK found. The engine calls it from submit() or while it is driven, in any order of
 * names: an entry, then all its holders and waiters, then the next entry. The engine keeps nothing. false: core
 * is out of memory, and the engine finishes the op with HF_NO_MEMORY. A name may come any number of times. */
struct hfi_sink {
    bool (*name)(struct hfi_sink *sink, const unsigned char *name,
                 size_t len);                                    /* LIST: core will LOOK at it */
    bool (*entry)(struct hfi_sink *sink, const hf_entry *entry); /* counts are ignored */
    bool (*holder)(struct hfi_sink *sink, const hf_holder *holder);
    bool (*waiter)(struct hfi_sink *sink, const hf_waiter *waiter);
};

/* The kind of a claim on so many permits. Of an entry: with 1. */
static inline hf_kind hfi_shown_kind(int64_t mode, int64_t permits)
{
    return mode == HFI_MODE_SEMAPHORE      ? HF_KIND_SEMAPHORE
           : mode != HFI_MODE_RW           ? HF_KIND_MUTEX
           : permits == HFI_RW_MAX         ? HF_KIND_EXCLUSIVE
           : permits == HFI_RW_UPGRADEABLE ? HF_KIND_UPGRADEABLE
                                           : HF_KIND_SHARED;
}

/* Set HF_MISMATCH, with a text that says as which kind of lock the name is in use. `mode`, `capacity`: as the store has them,
 * which may be anything. */
static inline hf_status hfi_mismatch_set(hf_error *ret_err, int64_t mode, int64_t capacity)
{
    if (mode == HFI_MODE_SEMAPHORE)
        return hfi_error_set(ret_err, HF_MISMATCH, 0, "the name is in use as a semaphore of %lld",
                             (long long)capacity);
    return hfi_error_set(ret_err, HF_MISMATCH, 0, "the name is in use as %s",
                         mode == HFI_MODE_MUTEX ? "a mutex"
                         : mode == HFI_MODE_RW  ? "a read-write lock"
                                                : "another kind");
}

/* Where a page begins: whatever the engine needs to go on there. Empty: at the beginning; set by the engine: that was the
 * last page. */
#define HFI_CURSOR_MAX 2048
struct hfi_cursor {
    uint32_t len;
    _Alignas(16) unsigned char bytes[HFI_CURSOR_MAX];
};

struct hfi_renewal {
    struct hfi_claim *claim;
    int64_t ttl_ms;
    uint32_t tokens_wanted; /* HF_CAP_LINGER: a further block of so many; 0: none */
    hf_status status;       /* HF_OK, HF_LOST, or why it is not known */
    /* Set by the engine together with HF_OK. */
    bool others_wait; /* of a WATCHED claim */
    /* The further block: larger than every token that the name ever had; 0 tokens: none now. The block belongs to the same
     * claim. The store gives as many as keep the last one at most HFI_TOKEN_AHEAD_US ahead of its clock, but at least
     * one. A block whose answer is lost is never used. */
    uint32_t tokens;
    uint64_t token;
};

/*
 * One request to the engine. Core owns it, and keeps it and all that it points to until `done` has been called (the texts of
 * a script: until submit() returns). Core sets the members up to `stop`, and the engine reads them; the engine sets those called
 * ret_, `error` and the room.
 */
struct hfi_op {
    enum hfi_op_kind kind;
    /* hfi_now_ms() time; HFI_NEVER: none. When it has passed, core calls cancel() for an op that may wait, and for an acquire
     * that a thread waits for. Any other op ends by itself: in an EVENT engine the reactor sees to that (kit/reactor.h). */
    int64_t deadline_ms;
    bool may_wait; /* ACQUIRE: queue if the name is busy; else finish with HF_BUSY */
    /* ACQUIRE, CELL_WAIT, CHANGE_WAIT: this thread will call wait() next (INLINE), or stays until the op
     * is finished (BLOCKING). */
    bool blocking;
    /* INLINE: the thread may be that of an event loop, and must not sleep in submit(), for instance for a lock that another
     * process has: host->resume(). Never set when the op is submitted again. */
    bool hurried;
    struct hfi_claim *claim;
    union {
        struct {
            struct hfi_renewal *items;
            size_t count;
        } renew;
        struct {
            struct hfi_name name;
            uint64_t token;
        } brk;
        struct {
            struct hfi_name name;
            unsigned char owner[HFI_OWNER_LEN];
            /* read when it is sent: the claim may be another one by then, with another owner */
            const _Atomic uint32_t *holds;
            int64_t ttl_ms;
        } count;
        struct {
            struct hfi_name name;
            uint32_t capacity; /* 0: as claims say */
        } resize;
        struct {
            struct hfi_name name;
            const char *text; /* the label of the caller, at most HF_LABEL_MAX bytes */
        } ask;
        struct {
            const unsigned char *pattern; /* a hint: what it does not match may be left out */
            uint32_t len;
            struct hfi_cursor *cursor;
            struct hfi_sink *sink;
            bool waited; /* a hint: what nobody waits for may be left out */
        } list;
        struct {
            struct hfi_name name;
            struct hfi_sink *sink;
        } look;
        struct {
            struct hfi_name name;
            const void *bytes;
            size_t len;
            uint64_t version;
            int64_t ttl_ms; /* SWAP: the store deletes the cell after this time; 0: never */
            void *ret_bytes;
            size_t ret_len;
            uint64_t ret_version;
            int64_t ret_ttl_ms; /* READ: the time left; -1: no end */
        } cell;
        struct hfi_commit_op *commit; /* engine/native.h */
        struct {
            uint64_t seq;
        } change;
        struct {
            /* where there are several servers, the one of this name is asked */
            struct hfi_name name;
            int64_t ret_us; /* microseconds since 1970 */
        } time;
        struct hfi_counter_op *counter; /* engine/native.h, all three */
        struct hfi_limit_op *limit;
        struct hfi_script_op *script;
    } u;
    hfi_done_fn *done; /* called by hfi_op_finish(), on any thread, with no engine lock held */
    /* BLOCKING: 0, or the status that core is about to call cancel() with. cancel() may come before submit() is
     * far enough for cancel() to find the op, so submit() looks here before it sleeps. */
    _Atomic int stop;

    bool ret_lingers; /* ACQUIRE, with HF_BUSY: a holder with HFI_CLAIM_LINGERS has the name */
    /* ACQUIRE: it stood in the queue of the name before it was granted; for hf_stats_get() */
    bool ret_queued;
    hf_error error;       /* the engine writes it before it finishes with anything but HF_OK */
    _Atomic int finished; /* 0 until hfi_op_finish(); then 1 + status */
    /* The engine's own struct. Core zeroes op_size bytes before submit(). */
    _Alignas(16) unsigned char room[HFI_OP_ROOM];
};

/* Finish an op: exactly once. It may be gone when this returns. */
void hfi_op_finish(struct hfi_op *op, hf_status status);

/* What host->wanted() says. */
enum hfi_wanted {
    HFI_WANTED_NO,   /* the last waiter has left */
    HFI_WANTED_YES,  /* the first waiter has come. May be repeated */
    HFI_WANTED_ASKED /* HFI_OP_ASK, with its text */
};

/* What core offers an engine. It lives as long as the store. Any thread may call its functions. */
struct hfi_host {
    /* The claim is no longer ours in the store (broken, expired, forgotten). Core ignores this if the claim has
     * ended meanwhile, or if its memory is another acquisition by now: `owner` is a copy, and core compares it. */
    void (*lost)(struct hfi_host *host, struct hfi_claim *claim,
                 const unsigned char owner[HFI_OWNER_LEN], const char *why);
    /* HF_CAP_WANTED. Somebody wants what the WATCHED claim holds. It is advice: it may be late, lost, repeated, or come
     * before the grant is finished. Core compares `owner` as above. An engine sends YES when the number of waiters of the
     * name leaves 0, and again with the heartbeat of the first waiter, so that a lost one costs a heartbeat. `text` is
     * what the asker said, hostile until core has cut and checked it; "" with YES and NO. */
    void (*wanted)(struct hfi_host *host, struct hfi_claim *claim,
                   const unsigned char owner[HFI_OWNER_LEN], enum hfi_wanted what,
                   const char *text);
    /* HF_CAP_LINGER. The line on which host->wanted() arrives is up (a subscription is confirmed, a listener listens), or is
     * lost. It is down at first. The engine brings it up with the first WATCHED claim, and keeps it. While it is down no
     * lease lingers. */
    void (*hears)(struct hfi_host *host, bool on);
    /* The server is another one now, or its data are others (restart, failover). Every lease is AT_RISK until a
     * renewal has been answered. */
    void (*doubt)(struct hfi_host *host, const char *why);
    /* EVENT engines: timeout_ms() became shorter. The driver must ask again. */
    void (*wake)(struct hfi_host *host);
    /* BLOCKING engines: submit() left `op` suspended, or is about to return from that. Once for each time that it was
     * suspended. It only queues the op for a worker: it may be called with a lock of the engine held. INLINE engines: a hurried
     * op cannot be done at once, and nothing of it was done; with no lock held. */
    void (*resume)(struct hfi_host *host, struct hfi_op *op);
    /* For hf_stats_get(). A connection is up again after it was lost: locks of the engine may be held. And how many requests
     * were sent: hfi_host_sent(). An engine that cannot count them leaves it 0. */
    void (*reconnected)(struct hfi_host *host);
    _Atomic uint64_t reconnects, commands;
    const char *label; /* the store's label, at most HF_LABEL_MAX bytes */
    /* The name of this store in messages, without secrets. It is conf->location unless open() sets another text,
     * which must live as long as the store. */
    const char *location;
    /* The promises in the engine's table, unless open() sets others. */
    const struct hfi_promises *promises;
    /* The longest ttl that is granted now, whatever ttl is asked for: where a lease lives as long as a session,
     * the engine writes the session's timeout here whenever it changes. 0: no limit. */
    _Atomic int64_t max_ttl_ms;
    int64_t open_deadline_ms;
    /* HF_OPEN_FLAG_EXISTING: create nothing that belongs to a store. If there is no store: HF_NOT_FOUND with the
     * text "no store yet at LOCATION", from open(), or from the ops if doctor() can report without a store. */
    bool existing;
    /* HF_OPEN_FLAG_ONCE, while the store is being opened: an address that cannot be reached is tried once. */
    bool open_once;
    /* HF_OPEN_FLAG_NO_WAIT: open() does not wait for the server, and ops wait for the connection as for one that was
     * lost. An engine whose promises stand on what open() finds at the server answers HF_UNSUPPORTED. */
    bool no_wait;
};

static inline void hfi_host_sent(struct hfi_host *host)
{
    atomic_fetch_add_explicit(&host->commands, 1, memory_order_relaxed);
}

static inline void hfi_host_reconnected(struct hfi_host *host)
{
    if (host->reconnected) /* tests of an engine alone may have none */
        host->reconnected(host);
}

/* What a store can do, and what holds whatever goes wrong. There is one for each set of promises that a URL can
 * choose (wire, mode, tokens=). */
struct hfi_promises {
    const char *name;    /* "redis-plain": of the engine, or of this set */
    const char *schemes; /* of the engine */
    const char *choice;  /* "wire=plain": what a URL says to have this set; NULL: nothing */
    uint64_t caps;       /* HF_CAP_* */
    /* Why not, for every other HF_CAP_*: the matrix of `holdfast engines` and the text of HF_UNSUPPORTED say it. The last row is
     * { 0, NULL }. */
    const hf_engine_lack *lacks;
    hf_token_strength tokens;
    int64_t default_ttl_ms; /* 0: process-bound, no ttl */
    int64_t min_ttl_ms;
    int64_t guard_ms; /* taken off every validity, beyond the drift */
    unsigned native;  /* HFI_NATIVE_*: what the engine does itself, in one step */
    /* BLOCKING: ops that wait without a thread are suspended. Else each of them keeps a worker while it waits. */
    bool suspends;
    /* EVENT: the store keeps claim->holds with the claim, for other clients to see: a reentry, and the release of one of several
     * holds, is an HFI_OP_COUNT, and every renewal says the number too. A release ends the claim, whatever its number. */
    bool counts;
    /* Without HF_CAP_WAITERS: HFI_OP_LIST tells core's deadlock detector, and nobody else, what this process
     * holds and waits for, and what other processes have told it. A holder's `first` is hfi_claim_number(). */
    bool tells_own;
    /* The promise table for readers: a few words each. */
    const char *on_crash, *on_pause, *on_clock_jump, *on_server_loss, *on_partition, *fairness,
        *wakeup;
};

#define HFI_MODES_MAX 8

enum hfi_drive_kind { HFI_INLINE, HFI_EVENT, HFI_BLOCKING };

/* How core makes the engine work. */
struct hfi_drive {
    enum hfi_drive_kind kind;

    /* INLINE only. Block this thread, which submitted `op` with `blocking`, until the op is finished or until_ms
     * has passed, without polling. It may return early for no reason: the caller looks at op->finished. */
    void (*wait)(void *store, struct hfi_op *op, int64_t until_ms);

    /* EVENT only; engines use hfi_reactor_drive (kit/reactor.h). One thread at a time is in these three. fd() polls
     * readable when process() has work. timeout_ms(): the time until process() must be called anyway; -1:
     * never. */
    int (*fd)(void *store);
    int (*timeout_ms)(void *store, int64_t now_ms);
    void (*process)(void *store, int64_t now_ms);

    /* EVENT only, both or neither. turn(): wait for work, at most until until_ms, and do it, as poll(fd,
     * timeout_ms) and process() would, with fewer system calls. One thread at a time, and never while another
     * one is in process(). It may return early for no reason. kick(), on any thread: a turn() that sleeps, or
     * else the next one, returns soon. */
    void (*turn)(void *store, int64_t until_ms);
    void (*kick)(void *store);

    /* EVENT only; may be NULL. Many submits follow each other between cork(true) and cork(false): what they send
     * may leave in one write at the end. Any thread. The pairs nest. */
    void (*cork)(void *store, bool on);
};

/*
 * The calls that only one kind of engine has. They administer the store of `conf`, which is not open and may be in no state to
 * be opened. Each kind has a struct of its own that begins with this one, in a header of the engine: redis/extension.h,
 * redlock/extension.h, sql/extension.h. Core finds it by its name (core/by_url.h).
 */
struct hfi_extension {
    const char *name; /* of the kind */
    size_t size;      /* of the whole struct: core does not call a module that has another one */
};

/* Administration. Each may be NULL. */
struct hfi_admin {
    /* Report on an open store. May block. */
    hf_status (*doctor)(void *store, hfi_finding_fn *finding, void *arg, hf_error *err);
    const struct hfi_extension *extension;
};

struct hfi_engine {
    unsigned abi; /* HFI_ENGINE_ABI */
    const struct hfi_promises *promises;
    /* The other sets that open() may choose, and NULL at the end. NULL: there are none. At most HFI_MODES_MAX, with `promises`. */
    const struct hfi_promises *const *modes;
    uint32_t store_size, op_size, claim_size; /* HFI_STORAGE() */
    const struct hfi_conf_type *conf;         /* what its URLs may say */
    const struct hfi_drive *drive;
    const struct hfi_admin *admin; /* may be NULL */

    /* `store`, here and everywhere below, is the engine's own struct: store_size bytes of core's, zeroed before
     * open(), at one address until close() has returned, or open() has failed. */

    /* Open the store. May block until host->open_deadline_ms. On failure nothing is left open. `conf` is a struct
     * of the engine's own type, as the table `conf` above describes it, and lives as long as `store`. What the
     * table cannot express is checked here, before anything is sent. */
    hf_status (*open)(void *store, struct hfi_conf *conf, struct hfi_host *host, hf_error *err);

    /* Close the store. No op is pending. Claims that are still held are detached, or could not be given back in
     * time (the store did not answer, no memory): the engine forgets where core had them. May block shortly.
     * Nothing is called in a forked child: its handles are HF_FORKED, and fork() itself closes the sockets that
     * were noted (util/fds.h). */
    void (*close)(void *store);

    /* Begin an op. Any thread, many at once. Blocks only in a BLOCKING engine. May call done() before it
     * returns. */
    void (*submit)(void *store, struct hfi_op *op);

    /* Ask an acquire that waits, a CELL_WAIT or a CHANGE_WAIT (see there) to end with `status` (HF_CANCELLED,
     * HF_TIMEOUT). Any thread. The engine finishes the op with `status` when the store has taken it out of the queue, with HF_OK
     * if the grant came first, and with HF_UNKNOWN if neither can be established. INLINE: the op is finished
     * before this returns, by this call or by another. No effect on an op that is finished, or is being finished
     * meanwhile; the caller guarantees that its memory is still there. */
    void (*cancel)(void *store, struct hfi_op *op, hf_status status);

    /* HF_CAP_PASS; may be NULL. The lease of `claim` was passed on locally: `token` of its block holds now, in
     * thread `tid`. `tid` 0, with HF_CAP_LINGER: no thread, it is idle. This is a note for inspect and break. It must be
     * cheap and cannot fail. */
    void (*passed)(void *store, struct hfi_claim *claim, uint64_t token, int64_t tid);
};

/* For the table of an engine, the size of its store and how much of the rooms it uses:
 * HFI_STORAGE(struct redis_store, struct redis_op, struct redis_claim). */
#define HFI_FITS(type, room)                                                              \
    (sizeof(type) + 0 * sizeof(struct {                                                   \
                        _Static_assert(sizeof(type) <= (room), "too large for its room"); \
                        char c;                                                           \
                    }))
#define HFI_STORAGE(store, op, claim)                                  \
    .store_size = sizeof(store), .op_size = HFI_FITS(op, HFI_OP_ROOM), \
    .claim_size = HFI_FITS(claim, HFI_CLAIM_ROOM)

/* A module lib/holdfast/<name>.so exports this; a static build lists it in the registry. */
#define HFI_ENGINE_SYMBOL "hfi_engine_entry"
typedef const struct hfi_engine *hfi_engine_entry_fn(void);
#define HFI_ENGINE_ENTRY(table)                                                             \
    __attribute__((visibility("default"))) const struct hfi_engine *hfi_engine_entry(void); \
    const struct hfi_engine *hfi_engine_entry(void)                                         \
    {                                                                                       \
        return &(table);                                                                    \
    }

#endif
