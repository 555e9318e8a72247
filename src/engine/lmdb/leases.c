/* SPDX-License-Identifier: MIT */
/*
 * The LMDB file of an epoch, and what happens when it is damaged.
 *
 * The file is never synced: it must survive processes, not the machine, and the page cache is
 * enough for that. If it is damaged, it does not tell any more who holds what. But every live
 * process knows what it holds itself. So:
 *
 *   1. the process that notices begins a new epoch: an empty file, state REBUILDING;
 *   2. every process that sees the new epoch, or gets mail, writes its own leases and
 *      its places in queues into the new file (follow);
 *   3. nothing is granted until every process that had records has done so or is dead,
 *      and until every lease without a process must have expired (header.latest_ms).
 *
 * A new epoch also begins, with a copy of all records, when most pages of the file are free: a long
 * list of free pages makes every transaction of LMDB slower. Then the others only open the new
 * file.
 */
#include "engine/lmdb/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROW_MIN ((size_t)512 * 1024) /* smaller steps are not worth it */

static hf_status register_claims(struct lmdb_directory *d, hf_error *err);

static void file_name(char *buf, size_t size, uint32_t epoch)
{
    snprintf(buf, size, "leases.%u", epoch);
}

bool lmdb_is_corrupt(int rc)
{
    switch (rc) {
    case LMDB_E_CORRUPT:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_PANIC:
    case MDB_CURSOR_FULL:
    case MDB_BAD_TXN:
    case MDB_BAD_DBI:
    case MDB_INCOMPATIBLE:
    case MDB_PAGE_FULL:
    case MDB_TXN_FULL:
    case MDB_BAD_VALSIZE:
        return true;
    default:
        return false;
    }
}

/* ---- opening --------------------------------------------------------------------- */

/* LMDB of Debian opens its file without O_CLOEXEC. */
void lmdb_close_on_exec(MDB_env *env)
{
    int fd;

    if (mdb_env_get_fd(env, &fd) == 0)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static int put_anchor(struct lmdb_directory *d, MDB_txn *txn)
{
    MDB_val key = { .mv_size = LMDB_KEY_ANCHOR, .mv_data = (void *)(uintptr_t)LMDB_ANCHOR };
    MDB_val value = { .mv_size = 1, .mv_data = (void *)(uintptr_t) "!" };
    int rc = mdb_put(txn, d->dbi, &key, &value, MDB_NOOVERWRITE);

    return rc == MDB_KEYEXIST ? 0 : rc;
}

static int find_pages(struct lmdb_directory *d)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(d->env, NULL, MDB_RDONLY, &txn);

    if (rc != 0)
        return rc;
    if (!lmdb_pages_find(d, txn))
        rc = LMDB_E_CORRUPT;
    mdb_txn_abort(txn);
    return rc;
}

static int open_env(struct lmdb_directory *d, int64_t size, bool create)
{
    char path[64];
    MDB_txn *txn;
    int rc;

    if (!LMDB_GUARD(d))
        return LMDB_E_CORRUPT;
    rc = mdb_env_create(&d->env);
    if (rc != 0)
        return rc;
    mdb_env_set_userctx(d->env, d);
    mdb_env_set_assert(d->env, lmdb_pages_assert);
    /* Through the descriptor: LMDB opens with O_CREAT, which fs.protected_regular refuses for a
     * file of another user in a sticky directory. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", d->lease_fd);
    d->map_size = (size_t)size;
    rc = mdb_env_set_mapsize(d->env, d->map_size);
    if (rc == 0 && !create && !lmdb_pages_file(d))
        rc = LMDB_E_CORRUPT;
    if (rc == 0)
        rc = mdb_env_open(d->env, path,
                          MDB_NOSUBDIR | MDB_WRITEMAP | MDB_NOSYNC | MDB_NOLOCK | MDB_NOMEMINIT,
                          d->file_mode);
    if (rc == 0)
        lmdb_close_on_exec(d->env);
    /* LMDB made the file as long as its map, but with holes: fill them before a page is touched. */
    if (rc == 0 && create)
        rc = posix_fallocate(d->lease_fd, 0, size);
    if (rc == 0)
        rc = mdb_txn_begin(d->env, NULL, 0, &txn);
    if (rc == 0) {
        rc = mdb_dbi_open(txn, NULL, 0, &d->dbi);
        if (rc == 0 && create)
            rc = put_anchor(d, txn);
        if (rc == 0)
            rc = mdb_txn_commit(txn); /* which also keeps the handle */
        else
            mdb_txn_abort(txn);
    }
    if (rc == MDB_MAP_RESIZED)
        return LMDB_E_CORRUPT; /* the whole file is mapped, and nobody else can enlarge it now */
    return rc != 0 ? rc : find_pages(d);
}

/* Under the mutex, or before anybody else can know the file. */
hf_status lmdb_leases_open(struct lmdb_directory *d, bool create, hf_error *err)
{
    char name[32];
    struct stat st;
    bool created;
    hf_status status;
    int rc;

    lmdb_leases_close(d);
    file_name(name, sizeof name, d->epoch);
    if (create)
        unlinkat(d->dir_fd, name, 0); /* of an earlier boot; in a sticky directory it may not go, */
    status = lmdb_file(d, name, &d->lease_fd, &created, err);
    if (status != HF_OK)
        return status;
    if (create && !created && ftruncate(d->lease_fd, 0) != 0) /* but then nobody uses it */
        return hfi_error_set(err, HF_DENIED, errno, "cannot empty the old %s/%s: %s", d->path, name,
                             strerror(errno));
    if (fstat(d->lease_fd, &st) != 0 || (!create && st.st_size < LMDB_LEASES_INITIAL)) {
        lmdb_leases_close(d);
        return hfi_error_set(err, HF_CORRUPT, 0, "%s/%s is cut short", d->path, name);
    }

    rc = open_env(d, create ? LMDB_LEASES_INITIAL : st.st_size, create);
    if (rc != 0) {
        status = hfi_error_set(err,
                               lmdb_is_corrupt(rc) ? HF_CORRUPT
                               : rc == ENOSPC      ? HF_FULL
                                                   : HF_UNAVAILABLE,
                               rc, "%s/%s: %s", d->path, name, mdb_strerror(rc));
        lmdb_leases_close(d);
        if (create)
            unlinkat(d->dir_fd, name, 0);
        return status;
    }
    return HF_OK;
}

void lmdb_leases_close(struct lmdb_directory *d)
{
    if (d->env)
        mdb_env_close(d->env);
    d->env = NULL;
    d->pages = NULL;
    if (d->lease_fd >= 0)
        close(d->lease_fd);
    d->lease_fd = -1;
}

/* Map the real size of the file. LMDB would use the size in the last transaction, and cut off the
 * space that another process has added since. */
int lmdb_leases_remap(struct lmdb_directory *d)
{
    struct stat st;
    int rc;

    if (fstat(d->lease_fd, &st) != 0)
        return errno;
    if ((size_t)st.st_size <= d->map_size)
        return LMDB_E_CORRUPT; /* the file has not grown: LMDB's last page number is damaged */
    if (!LMDB_GUARD(d))
        return LMDB_E_CORRUPT;
    d->map_size = (size_t)st.st_size;
    rc = mdb_env_set_mapsize(d->env, d->map_size);
    return rc != 0 ? rc : find_pages(d);
}

/* Double the size, or use the space that is left; blocks are allocated before the file is
 * mapped. */
int lmdb_leases_grow(struct lmdb_directory *d)
{
    char name[32];
    hf_error err = { .native = ENOSPC };
    hf_status status = HF_FULL;

    file_name(name, sizeof name, d->epoch);
    for (size_t more = d->map_size; status == HF_FULL && more >= GROW_MIN; more /= 2)
        status = lmdb_reserve_space(d, d->lease_fd, name, (int64_t)(d->map_size + more), &err);
    if (status != HF_OK)
        return err.native ? err.native : ENOSPC;
    return lmdb_leases_remap(d);
}

/* ---- a new epoch -------------------------------------------------------------------- */

hf_status lmdb_rebuild(struct lmdb_directory *d, hf_error *err)
{
    struct lmdb_header *h = d->header;
    uint32_t old = h->epoch;
    uint32_t used = lmdb_slots_used(d);
    char name[32];
    hf_status status;

    d->epoch = old + 1;
    status = lmdb_leases_open(d, true, err);
    if (status == HF_OK)
        status = lmdb_sizes_load(d, true, err);
    if (status != HF_OK) {
        d->epoch = old - 1; /* not the header's: the next lock tries again */
        return status;
    }
    /* The epoch is written last: a process that follows it must see that it began empty. If we are
     * killed in between, control.c repairs it. */
    h->closed_ms = h->latest_ms;
    h->state = LMDB_REBUILDING;
    h->last_txn = 0;
    h->rebuilt = d->epoch;
    atomic_signal_fence(memory_order_seq_cst);
    h->epoch = d->epoch;
    file_name(name, sizeof name, old);
    unlinkat(d->dir_fd, name, 0);
    status = register_claims(d, err);

    for (uint32_t i = 0; i < used; i++) {
        struct lmdb_slot *s = lmdb_slot(d, i);

        if (atomic_load(&s->state) != LMDB_SLOT_LIVE || i == d->slot)
            continue;
        atomic_fetch_add(&s->mail, 1);
        hfi_futex_wake(&s->mail, 1, true);
    }
    return status;
}

hf_status lmdb_follow(struct lmdb_directory *d, hf_error *err)
{
    hf_status status;

    d->epoch = d->header->epoch;
    status = lmdb_leases_open(d, false, err);
    if (status == HF_CORRUPT)
        return lmdb_rebuild(d, err);
    if (status != HF_OK) {
        d->epoch = 0; /* try again at the next lock */
        return status;
    }
    if (d->slot == LMDB_NO_SLOT)
        return HF_OK;
    if (lmdb_slot(d, d->slot)->epoch < d->header->rebuilt)
        return register_claims(d, err);
    lmdb_slot(d, d->slot)->epoch = d->epoch;
    return HF_OK;
}

bool lmdb_open_for_grants(struct lmdb_txn *t, uint32_t *ret_slot)
{
    struct lmdb_directory *d = t->directory;
    struct lmdb_header *h = d->header;
    uint32_t used = lmdb_slots_used(d);

    *ret_slot = LMDB_NO_SLOT;
    if (h->state == LMDB_READY)
        return lmdb_past(t, h->closed_ms);
    for (uint32_t i = 0; i < used; i++) {
        struct lmdb_slot *s = lmdb_slot(d, i);

        if (atomic_load(&s->state) != LMDB_SLOT_LIVE || s->epoch >= h->rebuilt || s->records == 0)
            continue;
        if (lmdb_alive(d, i)) {
            *ret_slot = i;
            return false;
        }
        s->records = 0; /* dead, and not in the new file */
    }
    h->state = LMDB_READY;
    lmdb_wake_all(d); /* waiters may be granted now */
    return lmdb_past(t, h->closed_ms);
}

/* ---- compaction ---------------------------------------------------------------------- */

#define COMPACT_MIN_PAGES 256 /* smaller files are left alone */
#define COMPACT_RATIO     8   /* at least this many times as many pages as are in use */

static bool mostly_holes(struct lmdb_directory *d)
{
    MDB_envinfo info;
    MDB_stat stat;

    if (d->header->state != LMDB_READY || mdb_env_info(d->env, &info) != 0 ||
        mdb_env_stat(d->env, &stat) != 0)
        return false;
    return info.me_last_pgno > COMPACT_MIN_PAGES &&
           (stat.ms_leaf_pages + stat.ms_branch_pages) * COMPACT_RATIO < info.me_last_pgno;
}

static int copy_records(struct lmdb_directory *d, MDB_env *from, MDB_dbi from_dbi)
{
    MDB_txn *source = NULL, *target = NULL;
    MDB_cursor *cursor;
    MDB_val key, value;
    int rc;

    if (!LMDB_GUARD(d))
        return LMDB_E_CORRUPT; /* the next search that reaches that page finds the damage again */
    rc = mdb_txn_begin(from, NULL, MDB_RDONLY, &source);
    if (rc == 0)
        rc = mdb_txn_begin(d->env, NULL, 0, &target);
    if (rc == 0)
        rc = mdb_cursor_open(source, from_dbi, &cursor);
    if (rc == 0) {
        while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0)
            if (key.mv_size != LMDB_KEY_ANCHOR &&
                (rc = mdb_put(target, d->dbi, &key, &value, 0)) != 0)
                break;
        mdb_cursor_close(cursor);
        if (rc == MDB_NOTFOUND) {
            rc = mdb_txn_commit(target);
            target = NULL;
        }
    }
    if (target)
        mdb_txn_abort(target);
    if (source)
        mdb_txn_abort(source);
    return rc;
}

/* The header names the new epoch only when its file is complete: if we are killed before, the old
 * one stays. */
void lmdb_compact(struct lmdb_directory *d)
{
    MDB_env *old_env = d->env;
    MDB_dbi old_dbi = d->dbi;
    const char *old_pages = d->pages;
    size_t old_size = d->map_size;
    int old_fd = d->lease_fd;
    uint32_t old = d->epoch;
    char name[32];

    if (!mostly_holes(d))
        return;
    d->env = NULL;
    d->pages = NULL;
    d->lease_fd = -1;
    d->epoch = old + 1;
    if (lmdb_leases_open(d, true, NULL) == HF_OK && copy_records(d, old_env, old_dbi) == 0) {
        lmdb_pages_committed(d);
        d->header->epoch = d->epoch;
        if (d->slot != LMDB_NO_SLOT)
            lmdb_slot(d, d->slot)->epoch = d->epoch;
        mdb_env_close(old_env);
        close(old_fd);
        file_name(name, sizeof name, old);
        unlinkat(d->dir_fd, name, 0);
        return;
    }
    lmdb_leases_close(d);
    file_name(name, sizeof name, d->epoch);
    unlinkat(d->dir_fd, name, 0);
    d->env = old_env;
    d->dbi = old_dbi;
    d->pages = old_pages;
    d->map_size = old_size;
    d->lease_fd = old_fd;
    d->epoch = old;
}

/* ---- registering anew ------------------------------------------------------------------ */

/* The token of this wait if it has been granted, whether its thread knows it yet or not; 0: it is
 * still queued. */
static uint64_t token_of_wait(struct lmdb_directory *d, struct lmdb_wait *w,
                              const struct hfi_claim *claim)
{
    struct lmdb_slot *s = lmdb_slot(d, d->slot);
    uint64_t token = 0;

    pthread_mutex_lock(&d->local);
    if (!w->op)
        token = claim->token;
    else if (w->cell < LMDB_CELLS &&
             atomic_load(&s->cells[w->cell].word) == (w->turn << 2 | LMDB_GRANTED))
        token = s->cells[w->cell].token;
    else if (w->told)
        token = w->told;
    for (uint32_t i = atomic_load(&s->mail_read), n = 0;
         !token && w->op && n < LMDB_MAILS && i != atomic_load(&s->mail_sent); i++, n++)
        if (s->mails[i % LMDB_MAILS].kind == LMDB_MAIL_GRANTED &&
            s->mails[i % LMDB_MAILS].cookie == w->cookie)
            token = s->mails[i % LMDB_MAILS].token;
    pthread_mutex_unlock(&d->local);
    return token & ~LMDB_OTHERS_WAIT;
}

/* The claim that takes the place of this one; NULL: none. */
static struct hfi_claim *replacing(struct lmdb_directory *d, const struct hfi_claim *claim)
{
    struct hfi_claim *c = claim->mode == HFI_MODE_RW && claim->permits > 1 ? d->claims : NULL;

    while (c && !(c->flags & HFI_CLAIM_REPLACES &&
                  memcmp(c->replaced, claim->owner, HFI_OWNER_LEN) == 0))
        c = lmdb_claim_of(c)->next;
    return c;
}

static uint64_t token_of(struct lmdb_directory *d, const struct hfi_claim *claim)
{
    struct lmdb_wait *w = lmdb_claim_of((struct hfi_claim *)(uintptr_t)claim)->wait;

    return w ? token_of_wait(d, w, claim) : claim->token;
}

static int register_one(struct lmdb_txn *t, struct hfi_claim *claim)
{
    struct lmdb_directory *d = t->directory;
    struct lmdb_wait *w = lmdb_claim_of(claim)->wait;
    uint64_t token = token_of(d, claim);
    const struct hfi_claim *next = replacing(d, claim);
    const uint64_t *hash = claim->name.hash;
    struct lmdb_name rec;
    size_t label_len;
    const char *label = lmdb_label(lmdb_claim_of(claim)->store, claim, &label_len);
    char text[HF_LABEL_MAX + 1];
    int rc = lmdb_name_get(t, &claim->name, &rec);

    if (next && token_of(d, next) != 0)
        return 0; /* it has been replaced */
    if (rc == MDB_NOTFOUND) {
        lmdb_name_init(&rec, &claim->name);
        rec.mode = (uint8_t)claim->mode;
        rec.capacity = claim->capacity;
        rc = 0;
    }
    if (rc == 0 && token == 0) {
        if (!w)
            return 0; /* neither held nor queued: there is nothing to register */
        rc = lmdb_enqueue(t, &rec, w, w->ticket); /* its old ticket: the order stays */
    } else if (rc == 0) {
        bool known = claim->token == token && claim->granted_ttl_ms;
        struct lmdb_holder h = { .token = token,
                                 .granted_ms = claim->token == token ? claim->sent_ms : lmdb_now(t),
                                 .deadline_ms = HFI_NEVER,
                                 .lock_delay_ms = claim->lock_delay_ms,
                                 .tokens =
                                     claim->token == token ? claim->tokens : claim->tokens_wanted,
                                 .permits = claim->permits,
                                 .ttl_ms = claim->ttl_ms,
                                 .slot = claim->flags & HFI_CLAIM_DETACHED ? LMDB_NO_SLOT : d->slot,
                                 .flags =
                                     claim->flags & HFI_CLAIM_WATCHED ? LMDB_HOLDER_WATCHED : 0 };

        memcpy(h.owner, claim->owner, HFI_OWNER_LEN);
        /* A grant that its thread has not seen yet: its numbers were in the file only, and lmdb_numbers_fetch() finds none. */
        if (claim->flags & HFI_CLAIM_NUMBERED && claim->token == token) {
            h.flags |= LMDB_HOLDER_NUMBERED;
            label_len = lmdb_numbers_put(claim->slots, claim->permits, label, label_len, text);
            label = text;
        }
        if (claim->ttl_ms)
            h.deadline_ms = known ? hfi_after_ms(claim->sent_ms, claim->granted_ttl_ms)
                                  : hfi_after_ms(lmdb_now(t), claim->ttl_ms);
        rc = lmdb_holder_add(t, hash, &rec, &h, label, label_len);
    }
    return rc != 0 ? rc : lmdb_name_put(t, hash, &rec);
}

static int register_all(struct lmdb_txn *t)
{
    struct lmdb_directory *d = t->directory;
    int rc;

    if (!LMDB_GUARD(d))
        return LMDB_E_CORRUPT;
    rc = lmdb_pages_check(d) ? mdb_txn_begin(d->env, NULL, 0, &t->mdb) : LMDB_E_CORRUPT;
    if (rc != 0)
        return rc;
    for (struct hfi_claim *c = d->claims; rc == 0 && c; c = lmdb_claim_of(c)->next)
        rc = register_one(t, c);
    if (rc != 0) {
        mdb_txn_abort(t->mdb);
        return rc;
    }
    rc = mdb_txn_commit(t->mdb);
    if (rc == 0)
        lmdb_pages_committed(d);
    return rc;
}

/* Under the mutex, with no transaction open. */
static hf_status register_claims(struct lmdb_directory *d, hf_error *err)
{
    struct lmdb_txn t = { .directory = d, .write = true, .read_ms = hfi_now_ms() };
    int rc;

    if (d->slot == LMDB_NO_SLOT)
        return HF_OK;
    while ((rc = register_all(&t)) != 0) {
        if (rc == MDB_MAP_RESIZED)
            rc = lmdb_leases_remap(d);
        else if (rc == MDB_MAP_FULL)
            rc = lmdb_leases_grow(d);
        if (rc != 0)
            return lmdb_failed(d, rc, err);
    }
    lmdb_slot(d, d->slot)->records = (uint32_t)d->claim_count;
    lmdb_slot(d, d->slot)->epoch = d->epoch;
    return HF_OK;
}
