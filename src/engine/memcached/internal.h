/* SPDX-License-Identifier: MIT */
/*
 * The memcached engine, inside.
 *
 *   engine.c      the table; open, close, submit, cancel, what is due
 *   connection.c  commands, replies and the greeting on a stream
 *   call.c        one command under way: written, parked, answered
 *   acquire.c  acquire and its waiting: add, look, rest
 *   pace.c     the line of waiters: tickets, manners, when to look again
 *   lease.c    release, renew, adopt
 *   late_add.c    adds that may be executed late
 *   inspect.c     inspect
 *   cells.c    cells
 *   doctor.c   what this server means for the promises
 *
 * What all of it rests on:
 *
 * A lease is one item, made by an `ms` in mode add, and changed and deleted only by its CAS number,
 * which changes with every change of the item. A number is valid only on the connection on which we
 * learnt it (store->epoch): a restarted server counts from the beginning again, and could give our
 * number to the lease of another holder. After a reconnection the item is read first, and its owner
 * compared.
 *
 * The server's clock ticks once a second, so an item may end up to a second early: that is the
 * engine's guard (MEMCACHED_GUARD_MS). The tick itself may be late, on a busy machine: so we ask
 * for MEMCACHED_LATE_S more than we rely on. A server that was stopped executes what has arrived
 * meanwhile before its clock ticks again, and what it stores then expires too early, by the time
 * for which it was stopped. So when a reply took longer than MEMCACHED_STALL_MS, a grant or renewal
 * that was sent before MEMCACHED_SETTLE_MS have passed is not trusted: it is renewed once more
 * after that. (A stop is not noticed if the only command was sent in its last moments. That is a
 * limit of this engine.)
 *
 * Everything is under the reactor's lock (kit/reactor.h), but for reading from a socket, which the one thread that
 * drives does without it.
 */
#ifndef HFI_MEMCACHED_INTERNAL_H
#define HFI_MEMCACHED_INTERNAL_H

#include "engine/kit/request.h"
#include "engine/memcached/connection.h"
#include "engine/memcached/pace.h"
#include "engine/memcached/record.h"
#include "util/list.h"

#define MEMCACHED_TTL_MS      30000
#define MEMCACHED_MIN_TTL_MS  1000
#define MEMCACHED_GUARD_MS    1000                /* one tick of the server's clock */
#define MEMCACHED_LATE_S      1                   /* how late that tick may be */
#define MEMCACHED_RELATIVE_S  (60 * 60 * 24 * 30) /* longer times are absolute ones to memcached */
#define MEMCACHED_CANCEL_MS   2000  /* how long a cancelled acquire waits for its answer */
#define MEMCACHED_STALL_MS    500   /* after a slower reply the server's clock is not trusted */
#define MEMCACHED_SETTLE_MS   1000  /* ... for this long */
#define MEMCACHED_LATE_ADD_MS 60000 /* how long we look for an add whose connection broke */
#define MEMCACHED_TICKETS_S   60    /* a counter lives this long after its last ticket */
#define MEMCACHED_POOL_MAX    256   /* calls kept for use again */
#define MEMCACHED_HEAD_ROOM   (MEMCACHED_KEY_MAX + 128) /* a command without its value */

enum memcached_verb {
    MEMCACHED_ADD,    /* ms, mode add: only if the key is absent */
    MEMCACHED_SWAP,   /* ms with C: only if the CAS number is this one */
    MEMCACHED_GET,    /* mg */
    MEMCACHED_DELETE, /* md with C */
    MEMCACHED_TICKET, /* ma: the next number of the lease's counter */
    /* md with I and C: only a bit of the item changes, and its CAS number. So its holder finds another number when it
     * releases or renews, looks, and sees the bit. It needs no memory, and the end of the item stays. */
    MEMCACHED_MARK_ITEM,
};

struct memcached_call;
typedef void memcached_answer_fn(struct memcached_call *call, enum hfi_outcome outcome,
                                 const struct memcached_reply *reply);

/*
 * One command, and those that follow from its answer: `answer` may send the same call again
 * (memcached_call_go()), so that no step but the first needs memory. Freed after an answer that does not.
 */
struct memcached_call {
    struct hfi_request request; /* first: they are one address */
    struct memcached_sent sent;
    struct memcached_store *store;
    memcached_answer_fn *answer;
    struct hfi_op *op;
    void *data;          /* the caller's */
    int64_t give_up_ms;  /* parked no longer than this */
    bool busy;           /* it was sent again */
    bool dropped;        /* nobody waits for its answer: it must not be sent again */
    bool was_sent;       /* lease.c: the item may have been changed */
    uint64_t from_epoch; /* parked: to be sent on this connection only; 0: on any */
    unsigned tries;      /* lease.c: how often the CAS number did not match */

    enum memcached_verb verb;
    struct memcached_key key;
    uint64_t cas;       /* SWAP, DELETE: which */
    int64_t ttl_ms;     /* ADD, SWAP: asked for; 0: for ever */
    int64_t granted_ms; /* ... and what the server was told, less the lateness of its tick */
    const struct memcached_hold *hold; /* ADD, SWAP of a lease: its record; NULL: a cell */
    struct memcached_cell cell;
};

/* An acquire under way. */
enum memcached_state {
    MEMCACHED_ASKING,     /* its add is under way */
    MEMCACHED_LOOKING,    /* its get is under way: which owner has it? */
    MEMCACHED_CONFIRMING, /* we have it, and renew it before the acquire ends */
    MEMCACHED_TICKETING,  /* its ticket is under way */
    MEMCACHED_MARKING,    /* its mark is under way */
    MEMCACHED_RESTING,    /* until the next get */
    MEMCACHED_HELD        /* the acquire has ended: the lease is held, or core will release it */
};

/* Our side of a claim, from submit of the acquire (or adopt) until its release. */
struct memcached_hold {
    struct hfi_list listed; /* in store->waits, or in store->held */
    struct hfi_claim *claim;
    uint64_t cas, epoch; /* the item's CAS number, and the connection on which it is valid */
    int64_t since_ms;    /* when it was asked for, by the wall clock */
    int64_t ttl_ms;      /* what the record says */
    bool detached;
    uint32_t label_len;
    char label[HF_LABEL_MAX + 1];

    struct hfi_op *op; /* below: while it is being acquired */
    struct memcached_call *call;
    enum memcached_state state;
    bool unsure;        /* an add of it may still be executed late */
    bool ours;          /* the server has it, but the acquire has not ended */
    int64_t give_up_ms; /* an acquire that does not wait gives up then */
    int64_t beat_ms;    /* RESTING: the next get; stopped: when to stop waiting for an answer */
    struct memcached_pace pace; /* its ticket: until the release */
    struct memcached_seen seen; /* what its last get has found */
    bool yields, wanted; /* its ticket comes first: see pace.h; ... and its last lease was marked */
    hf_status stop;      /* HF_OK, or what the op is to end with */
};

struct memcached_store {
    struct hfi_reactor reactor;
    struct hfi_source timers;
    struct memcached_conf *conf;

    bool closing;

    struct memcached_connection connection;
    uint64_t epoch; /* of the connection that is up, or was last */
    hf_error why;   /* why the connection went down */
    bool was_up;
    uint64_t pid, start_s; /* which process the server was */
    int64_t settled_ms;    /* from then on its clock is trusted again */

    struct hfi_requests requests;

    struct hfi_list waits, held;
    struct memcached_manners manners;
    int64_t beat_ms; /* no wait has anything to do before */
    struct memcached_late_add *late_adds;
    int64_t late_add_ms;
    struct memcached_search *searches; /* inspect.c: searches under way */
};

/* In op->room. */
struct memcached_op {
    struct hfi_reactor_op reactor;
    int left; /* a renewal: how many of its items are under way */
};

static inline struct memcached_op *memcached_op(struct hfi_op *op)
{
    return (struct memcached_op *)(void *)op->room;
}

/* In claim->room. */
struct memcached_claim {
    struct memcached_hold *hold; /* NULL: none */
};

static inline struct memcached_claim *memcached_claim(struct hfi_claim *claim)
{
    return (struct memcached_claim *)(void *)claim->room;
}

/* ---- engine.c ------------------------------------------------------------------------ */

/* ---- call.c ----------------------------------------------------------------------------- */

/* NULL: out of memory; `op` (if any) is finished with that. Gives up op_timeout from now. */
struct memcached_call *memcached_call_new(struct memcached_store *store, char kind,
                                          const struct hfi_name *name, struct hfi_op *op);
void memcached_call_free(struct memcached_call *call);
/* Send it. SWAP and DELETE only if call->cas is of this connection: the caller has checked
 * memcached_fresh(), or has just read it; if the connection is down the answer is HFI_UNSENT. */
void memcached_call_go(struct memcached_call *call, enum memcached_verb verb,
                       memcached_answer_fn *answer);
/* Send a SWAP with a CAS number that was just read, after a pause. */
void memcached_call_later(struct memcached_call *call, int64_t delay_ms,
                          memcached_answer_fn *answer);
/* Was it executed when the server's clock may have been late? Then returns in how many ms the clock
 * is certainly right; -1: it was right. */
int64_t memcached_settles_in_ms(const struct memcached_call *call);
/* Is the number of `hold` known on the connection that is up? */
bool memcached_fresh(const struct memcached_store *store, const struct memcached_hold *hold);
extern const struct hfi_request_calls memcached_request_calls;
/* Take back a call that was not sent. true: the caller owns it again. */
bool memcached_unsend(struct memcached_store *store, struct memcached_call *call);

/* The first connection; waits for it until host->open_deadline_ms. */
hf_status memcached_net_open(struct memcached_store *store, hf_error *err);
void memcached_net_close(struct memcached_store *store);

/* The status and text for a command without a useful answer. `changed`: the command changes
 * something, so it may have been done. */
hf_status memcached_trouble(const struct memcached_store *store, enum hfi_outcome outcome,
                            bool changed, const struct memcached_reply *reply, hf_error *ret_err);

/* Is the record that a get has found that of this name? HF_OK; HF_MISMATCH with a text. */
hf_status memcached_read(const struct memcached_reply *reply, const struct hfi_name *name,
                         struct memcached_record *ret_record, hf_error *ret_err);

/* ---- acquire.c ---------------------------------------------------------------------------- */

void memcached_acquire(void *self, struct hfi_op *op);
void memcached_cancel(void *self, struct hfi_op *op, hf_status status);
void memcached_waits_tick(struct memcached_store *store, int64_t now_ms);

/* ---- lease.c ------------------------------------------------------------------------------- */

void memcached_release(void *self, struct hfi_op *op);
void memcached_renew(void *self, struct hfi_op *op);
void memcached_adopt(void *self, struct hfi_op *op);
struct memcached_hold *memcached_hold_of(const struct hfi_claim *claim); /* NULL: none */

/* ---- late_add.c ------------------------------------------------------------------------------- */

/* An add of this name by this owner may be executed late, since its connection broke. Out of
 * memory: only its ttl ends it then. */
void memcached_late_add_note(struct memcached_store *store, const struct hfi_name *name,
                             const unsigned char owner[HFI_OWNER_LEN]);
void memcached_late_adds_tick(struct memcached_store *store, int64_t now_ms);
void memcached_late_adds_done(struct memcached_store *store);

/* ---- inspect.c, cells.c, doctor.c ---------------------------------------------------------------- */

void memcached_list(void *self, struct hfi_op *op);
void memcached_look(void *self, struct hfi_op *op);
void memcached_searches_tick(struct memcached_store *store, int64_t now_ms);
int64_t memcached_searches_next_ms(const struct memcached_store *store);
void memcached_searches_done(struct memcached_store *store);
void memcached_cell_read_op(void *self, struct hfi_op *op);
void memcached_cell_swap_op(void *self, struct hfi_op *op);
hf_status memcached_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err);

#endif
