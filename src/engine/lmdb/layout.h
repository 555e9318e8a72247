/* SPDX-License-Identifier: MIT */
/*
 * What processes share: the files of an embedded store, byte by byte.
 *
 *   store      durable: format, and two copies of the token high-water mark
 *   control    mapped by everybody: one header, one page per process. It lives for
 *              one boot of the machine; a new boot makes it anew.
 *   live       empty; byte n is fcntl-locked by the process in slot n: the truth
 *              about who is alive. Not inherited by fork, freed by the kernel after
 *              the last thread of the process is gone, the same in every PID namespace.
 *   leases.N   the LMDB file of epoch N: names, holders, waiters
 *   sizes      durable: sizes of semaphores that were set (sizes.c)
 *   cells.mdb  durable LMDB environment for versioned cells (cells.c)
 *   init       flock(2)ed while a process creates or checks the others
 *
 * Everything in `control` but the atomics is read and written under header.mutex.
 * A process can be killed at any instant: LMDB's commit is the one moment at which
 * anything happens. What `control` has is either a hint (futexes, counters that may only be too
 * high), or read again from LMDB after EOWNERDEAD.
 *
 * A number that is read here and used as an index or a count is copied and bounded first: damage
 * must not lead out of the map. That does not protect against a malicious peer: the robust mutexes
 * contain glibc's list pointers, and LMDB trusts its pages. The protection is the permissions of
 * the files: trust.c.
 */
#ifndef LMDB_LAYOUT_H
#define LMDB_LAYOUT_H

#include "engine/engine.h"

#include <pthread.h>
#include <stdatomic.h>

/* Of the durable file: a store is made with the first one, and has ours from the first size on that is set (sizes.c). */
#define LMDB_FORMAT_FIRST 1u
#define LMDB_FORMAT       2u
/* Of the control file. 1 had the bytes of AT_RANDOM in a slot's image; 2 did not know LMDB_MODE_SET and LMDB_HOLDER_NUMBERED. */
#define LMDB_CONTROL_FORMAT 3u
#define LMDB_STORE_MAGIC    UINT64_C(0x31736c6f68746668) /* durable file */
#define LMDB_CONTROL_MAGIC  UINT64_C(0x316c746368746668) /* control file */

#define LMDB_PAGE       4096
#define LMDB_SLOTS_MAX  16384 /* processes at once */
#define LMDB_SLOTS_STEP 64    /* preallocated at a time */
#define LMDB_CELLS \
    96 /* threads of one process that wait in the store by futex; more use the mail */
#define LMDB_CELL_FUTEXES \
    64 /* on which waiters for versioned cells sleep, by the hash of the name */
#define LMDB_MAILS          32 /* unread mail; if there is more, the reader checks everything */
#define LMDB_PASSES         32 /* leases of one process that are being passed on locally */
#define LMDB_NO_SLOT        UINT32_MAX
#define LMDB_TOKEN_BLOCK    (UINT64_C(1) << 26) /* tokens per fsync of the high-water mark */
#define LMDB_LEASES_INITIAL (INT64_C(4) << 20)

enum lmdb_slot_state { LMDB_SLOT_FREE, LMDB_SLOT_LIVE };

/* ---- the durable file ---------------------------------------------------- */

/* Two copies, written in turn: a power cut tears at most the one being written. */
struct lmdb_mark {
    uint64_t sequence; /* the valid copy with the higher one counts */
    uint64_t limit;    /* no token at or above it was ever granted */
    uint32_t checksum; /* of the above */
    uint32_t zero;
};

struct lmdb_store_file {
    uint64_t magic;
    uint32_t format; /* a higher one than ours: HF_VERSION */
    uint32_t zero;
    char pad[496];
    struct lmdb_mark first; /* in sectors of their own */
    char pad1[512 - sizeof(struct lmdb_mark)];
    struct lmdb_mark second;
    char pad2[512 - sizeof(struct lmdb_mark)];
};

/* ---- the control file ---------------------------------------------------- */

enum lmdb_state { LMDB_READY = 1, LMDB_REBUILDING = 2 };

struct lmdb_header {
    uint64_t magic;
    uint32_t format;
    uint32_t shape; /* sizes of this build's structs: another ABI is refused */
    char boot_id[40];
    pthread_mutex_t mutex; /* robust, process-shared: around every LMDB transaction */
    /* likewise, around the durable cells: their fsync stalls no lock */
    pthread_mutex_t cells_mutex;
    _Atomic int32_t lock_pid; /* the process that has `mutex`, for the message when it is stuck */
    _Atomic int32_t cells_pid;

    uint32_t epoch; /* the valid leases.N */
    /* the last epoch that began empty, after damage; above epoch: not begun yet */
    uint32_t rebuilt;
    _Atomic uint64_t last_txn; /* LMDB's number of the last transaction in it; 0: not known */
    uint64_t live_ino;         /* the file `live` that the locks are on */
    uint32_t state;            /* enum lmdb_state */
    uint64_t token_next;       /* next to be granted */
    uint64_t token_limit;
    uint64_t last_ticket;       /* of the whole store: they continue in a rebuilt file */
    int64_t latest_ms;          /* no deadline of a detached lease or lock_delay is later */
    int64_t closed_ms;          /* after a rebuild: no grants before this */
    _Atomic uint32_t slot_high; /* slots below it have been used; read by lmdb_slots_used() */
    uint32_t slot_room;         /* slots below it are preallocated */
    uint32_t slot_hint;         /* where to look for dead slots next */
    uint64_t sweep[2];          /* where the sweep of expired leases goes on */

    _Atomic uint32_t change_seq;      /* futex: one up with every change */
    _Atomic uint32_t change_watchers; /* at least as many as sleep on it */

    uint64_t cells_sweep[2]; /* where the sweep of expired cells goes on; under cells_mutex */
    /* futexes: one up before a cell of that hash changes */
    _Atomic uint32_t cell_futexes[LMDB_CELL_FUTEXES];
};

/* One waiting thread's cell. The grant is in it: a winner needs no transaction. */
struct lmdb_cell {
    _Atomic uint32_t word; /* futex: turn << 2 | enum lmdb_cell_word */
    uint32_t granted_ms;   /* low bits of the time of the grant */
    uint64_t token;
};

enum lmdb_cell_word { LMDB_IDLE = 0, LMDB_WAITING = 1, LMDB_GRANTED = 2, LMDB_CALLED = 3 };

/* The last three are for a holder (`token`). A reader of an earlier version passes over them. */
enum lmdb_mail_kind {
    LMDB_MAIL_GRANTED = 1,
    LMDB_MAIL_CALLED = 2,
    LMDB_MAIL_LOST = 3,
    LMDB_MAIL_WANTED = 4,
    LMDB_MAIL_UNWANTED = 5,
    LMDB_MAIL_ASKED = 6
};

/* In the token of a grant to a waiter with LMDB_WAITER_WATCHED: others wait behind it. */
#define LMDB_OTHERS_WAIT (UINT64_C(1) << 63)

/* A message to a process's mail thread. */
struct lmdb_mail {
    uint32_t kind;
    uint32_t granted_ms;
    /* which waiter (GRANTED, CALLED); WANTED: generation and slot of the first waiter's process */
    uint64_t cookie;
    uint64_t token;
};

/* "The lease whose block begins at `first` is now held as `now`, by thread `tid`." */
struct lmdb_pass {
    _Atomic uint64_t first; /* 0: vacant */
    _Atomic uint64_t now;
    _Atomic int64_t tid;
};

struct lmdb_slot {
    _Atomic uint32_t state; /* enum lmdb_slot_state */
    uint32_t generation;    /* one up with every registration */
    int32_t pid;            /* in its own PID namespace */
    uint32_t uid;
    uint64_t pid_namespace;     /* inode; 0: not known */
    unsigned char image[16];    /* a one-way hash of AT_RANDOM: differs after exec, see slots.c */
    uint32_t records;           /* holders and waiters of it in LMDB, or more */
    uint32_t epoch;             /* its leases are in the file of this epoch */
    _Atomic uint32_t watching;  /* its threads that wait for a change */
    uint32_t mail_overflow;     /* mail was dropped: check everything */
    _Atomic uint32_t mail;      /* futex: one up with every message */
    _Atomic uint32_t mail_read; /* messages read so far */
    _Atomic uint32_t mail_sent; /* messages written so far */
    char label[HF_LABEL_MAX + 1];
    struct lmdb_mail mails[LMDB_MAILS];
    struct lmdb_pass passes[LMDB_PASSES];
    struct lmdb_cell cells[LMDB_CELLS];
};

_Static_assert(sizeof(struct lmdb_header) <= LMDB_PAGE, "header fits its page");
_Static_assert(sizeof(struct lmdb_slot) <= LMDB_PAGE - HF_LABEL_MAX - 1, "slot fits its page");

/* The text of the latest ASKED, at the end of the page: the struct keeps its size, which is part of the format. Under the
 * mutex. */
static inline char *lmdb_asked(struct lmdb_slot *slot)
{
    return (char *)slot + LMDB_PAGE - HF_LABEL_MAX - 1;
}

/* ---- records in leases.N -------------------------------------------------- */

/*
 * Keys. All of one name lie together: the name record, then further holders by
 * token, then waiters by ticket.
 *
 *   hash                    name record, with its first holder inside
 *   hash 'h' token (BE)     each further holder
 *   hash 'w' ticket (BE)    each waiter
 */
#define LMDB_KEY_NAME 16
#define LMDB_KEY_FULL 25
/* One record with a key of this length always exists: so the tree never becomes empty, and LMDB
 * need not create and free its root for every single lease (a fifth of the time of a pair). */
#define LMDB_KEY_ANCHOR 1
#define LMDB_ANCHOR     "!"

struct lmdb_holder {
    unsigned char owner[HFI_OWNER_LEN];
    uint64_t token; /* first of its block; 0: vacant */
    int64_t granted_ms;
    int64_t deadline_ms; /* HFI_NEVER: none */
    int64_t lock_delay_ms;
    uint32_t tokens;
    uint32_t permits;
    uint32_t slot;  /* LMDB_NO_SLOT: detached */
    uint32_t flags; /* LMDB_HOLDER_* */
    int64_t ttl_ms; /* as asked for; 0: none */
};

#define LMDB_HOLDER_WATCHED 1u /* HFI_CLAIM_WATCHED: tell it that others wait */
/* HFI_CLAIM_NUMBERED: its label begins with the numbers of its permits, 4 bytes each, and is cut so that both fit. */
#define LMDB_HOLDER_NUMBERED 2u

#define LMDB_WAITER_BARGE    1u
#define LMDB_WAITER_DETACHED 2u
#define LMDB_WAITER_WATCHED  4u
/* HFI_CLAIM_REPLACES: its ticket is before all others, and its label begins with the token of the holder whose place it takes, 8 bytes. (A
 * new member would be another form, and a process of an earlier version shows these bytes at worst.) */
#define LMDB_WAITER_REPLACES 8u

#define LMDB_WAITER_NUMBERED 16u

struct lmdb_waiter {
    uint32_t checksum;
    uint32_t slot;
    unsigned char owner[HFI_OWNER_LEN];
    int64_t since_ms;
    int64_t ttl_ms;
    int64_t lock_delay_ms;
    uint64_t cookie;
    uint32_t cell; /* LMDB_CELLS: none, use mail */
    uint32_t turn; /* of the cell */
    uint32_t permits;
    uint32_t tokens_wanted;
    uint32_t flags;
    uint32_t label_len;
    char label[HF_LABEL_MAX + 1]; /* stored up to label_len */
};

struct lmdb_name {
    uint32_t checksum; /* of all that follows */
    uint16_t name_len;
    uint8_t mode;      /* enum hfi_mode; LMDB_MODE_SET: `capacity` was set by a call */
    uint8_t label_len; /* of the first holder; 0: its slot's label */
    uint32_t capacity;
    uint32_t taken;   /* permits */
    uint32_t further; /* holders in records of their own */
    uint32_t waiters;
    int64_t closed_ms; /* lock_delay: no grants before this; 0: open */
    struct lmdb_holder first;
    /* name, label; stored up to their lengths */
    unsigned char text[HF_NAME_MAX + HF_LABEL_MAX + 1];
};

#define LMDB_MODE_SET 0x80u

static inline enum hfi_mode lmdb_mode(const struct lmdb_name *rec)
{
    return (enum hfi_mode)(rec->mode & ~LMDB_MODE_SET);
}

/* A further holder. */
struct lmdb_further {
    uint32_t checksum;
    uint32_t label_len;
    struct lmdb_holder holder;
    char label[HF_LABEL_MAX + 1];
};

#define LMDB_NAME_FIXED    offsetof(struct lmdb_name, text)
#define LMDB_WAITER_FIXED  offsetof(struct lmdb_waiter, label)
#define LMDB_FURTHER_FIXED offsetof(struct lmdb_further, label)

#endif
