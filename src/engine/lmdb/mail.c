/* SPDX-License-Identifier: MIT */
/*
 * The mail thread: reads this process's mail. Mail is for a process, not for one of its sleeping
 * threads: grants to asynchronous waiters, "your lease was broken", "others wait for it", "a new epoch has begun". The
 * thread sleeps on a futex in our slot until another process writes. Started with the first
 * acquire.
 */
#include "engine/lmdb/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"
#include "util/thread.h"

#include <errno.h>
#include <string.h>

struct post {
    struct lmdb_mail mails[LMDB_MAILS];
    uint32_t count;
    bool everything; /* mail was dropped, or a granter died */
    char asked[HF_LABEL_MAX + 1];
};

static void *mail_main(void *arg);
static bool collect(struct lmdb_directory *d, struct post *post);
static bool act(struct lmdb_directory *d, const struct lmdb_mail *mail, const char *asked);
static bool lost(struct lmdb_directory *d, uint64_t token);
static void look_at_everything(struct lmdb_directory *d);

hf_status lmdb_mail_start(struct lmdb_directory *d, hf_error *err)
{
    int rc = 0;

    if (atomic_load_explicit(&d->mail_runs, memory_order_acquire))
        return HF_OK;
    pthread_mutex_lock(&d->local);
    if (!atomic_load(&d->mail_runs)) {
        rc = hfi_thread_start(&d->mail_thread, "hf-mail", mail_main, d);
        if (rc == 0)
            atomic_store_explicit(&d->mail_runs, 1, memory_order_release);
    }
    pthread_mutex_unlock(&d->local);
    return rc == 0
               ? HF_OK
               : hfi_error_set(err, HF_NO_MEMORY, rc, "cannot start a thread: %s", strerror(rc));
}

void lmdb_mail_stop(struct lmdb_directory *d)
{
    struct lmdb_slot *s;

    if (!atomic_load(&d->mail_runs))
        return;
    s = lmdb_slot(d, d->slot);
    atomic_fetch_add(&s->mail, 1);
    hfi_futex_wake(&s->mail, INT32_MAX, true);
    pthread_join(d->mail_thread, NULL);
    atomic_store(&d->mail_runs, 0);
}

static void *mail_main(void *arg)
{
    struct lmdb_directory *d = arg;
    struct lmdb_slot *s = lmdb_slot(d, d->slot);
    struct post post;
    bool everything = false; /* check everything next time */

    /* No mail yet: leave the mutex to the acquire that started us. */
    while (!atomic_load(&d->stop) && atomic_load(&s->mail) == 0)
        hfi_futex_wait(&s->mail, 0, HFI_NEVER, true);
    for (;;) {
        uint32_t seen = atomic_load(&s->mail);
        int64_t again_ms = HFI_NEVER;

        if (atomic_load(&d->stop))
            return NULL;
        if (!collect(d, &post)) {
            post.count = 0;
            post.everything = false;
            again_ms = hfi_after_ms(hfi_now_ms(), LMDB_HEARTBEAT_MS); /* the mutex is stuck */
        }
        post.everything |= everything;
        everything = false;
        for (uint32_t i = 0; i < post.count; i++)
            if (!act(d, &post.mails[i], post.asked))
                everything = true;
        if (everything)
            again_ms = hfi_after_ms(hfi_now_ms(), LMDB_HEARTBEAT_MS);
        if (post.everything)
            look_at_everything(d);
        hfi_futex_wait(&s->mail, seen, again_ms, true);
    }
}

/* false: it is about a lease whose thread has not taken the grant yet: check again later. */
static bool act(struct lmdb_directory *d, const struct lmdb_mail *mail, const char *asked)
{
    switch (mail->kind) {
    case LMDB_MAIL_GRANTED:
        lmdb_wait_granted(d, mail->cookie, mail->token, mail->granted_ms);
        return true;
    case LMDB_MAIL_CALLED:
        lmdb_attend(d, mail->cookie);
        return true;
    case LMDB_MAIL_LOST:
        return lost(d, mail->token);
    case LMDB_MAIL_WANTED:
        lmdb_watch_waiter(d, mail->cookie);
        return lmdb_wanted(d, mail->token, HFI_WANTED_YES, "");
    case LMDB_MAIL_UNWANTED:
        return lmdb_wanted(d, mail->token, HFI_WANTED_NO, "");
    case LMDB_MAIL_ASKED:
        (void)lmdb_wanted(d, mail->token, HFI_WANTED_ASKED, asked);
        return true;
    default:
        return true;
    }
}

/* Taking the mutex is also what makes us follow a new epoch. */
static bool collect(struct lmdb_directory *d, struct post *post)
{
    struct lmdb_slot *s = lmdb_slot(d, d->slot);
    uint32_t read;

    if (lmdb_lock(d, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), NULL) != HF_OK)
        return false;
    read = atomic_load(&s->mail_read);
    post->count = 0;
    while (read != s->mail_sent && post->count < LMDB_MAILS)
        post->mails[post->count++] = s->mails[read++ % LMDB_MAILS];
    atomic_store(&s->mail_read, read);
    memcpy(post->asked, lmdb_asked(s), HF_LABEL_MAX);
    post->asked[HF_LABEL_MAX] = 0;
    post->everything = s->mail_overflow != 0;
    s->mail_overflow = 0;

    /* Until we have acted on a grant, only this message says that we have it: remember it for a
     * rebuild. */
    pthread_mutex_lock(&d->local);
    for (uint32_t i = 0; i < post->count; i++)
        for (struct lmdb_wait *w = d->waits; w && post->mails[i].kind == LMDB_MAIL_GRANTED;
             w = w->next)
            if (w->cookie == post->mails[i].cookie)
                w->told = post->mails[i].token;
    pthread_mutex_unlock(&d->local);
    lmdb_unlock(d);
    return true;
}

/* ---- leases that are gone ------------------------------------------------------------- */

/* 0 while the claim waits: the thread that takes its grant writes the token without the mutex, then
 * leaves the list. */
uint64_t lmdb_token_of(struct lmdb_directory *d, struct hfi_claim *claim)
{
    const struct lmdb_wait *w = lmdb_claim_of(claim)->wait;
    bool waits = false;

    if (w) {
        pthread_mutex_lock(&d->local);
        waits = w->op != NULL;
        pthread_mutex_unlock(&d->local);
    }
    return waits ? 0 : claim->token;
}

/* false: no lease of ours has that token (yet). */
static bool lost(struct lmdb_directory *d, uint64_t token)
{
    unsigned char owner[HFI_OWNER_LEN];
    struct lmdb_store *store = NULL;
    struct hfi_claim *claim;

    pthread_mutex_lock(&d->calls);
    if (lmdb_lock(d, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), NULL) == HF_OK) {
        for (claim = d->claims; claim && lmdb_token_of(d, claim) != token;
             claim = lmdb_claim_of(claim)->next)
            ;
        if (claim) {
            store = lmdb_claim_of(claim)->store;
            memcpy(owner, claim->owner, sizeof owner);
        }
        lmdb_unlock(d);
    }
    if (store)
        store->host->lost(store->host, claim, owner, "it was broken by force");
    pthread_mutex_unlock(&d->calls);
    return store != NULL;
}

struct audit {
    uint64_t *tokens; /* tokens of claims that the store does not know */
    size_t count, room;
};

static int audit_body(struct lmdb_txn *t, void *arg)
{
    struct audit *a = arg;
    struct lmdb_name rec;
    struct lmdb_holder h;

    a->count = 0;
    for (struct hfi_claim *c = t->directory->claims; c && a->count < a->room;
         c = lmdb_claim_of(c)->next) {
        int rc;

        if (lmdb_token_of(t->directory, c) == 0)
            continue;
        rc = lmdb_name_get(t, &c->name, &rec);
        if (rc == 0)
            rc = lmdb_holder_find(t, c->name.hash, &rec, c->owner, c->token, &h);
        if (rc == MDB_NOTFOUND)
            a->tokens[a->count++] = c->token;
        else if (rc != 0)
            return rc;
    }
    return 0;
}

static void look_at_everything(struct lmdb_directory *d)
{
    struct audit a = { .room = 4096 };
    uint64_t last = 0;

    /* Every waiter without a cell checks its position; cookies only grow. */
    for (;;) {
        uint64_t next = 0;

        pthread_mutex_lock(&d->local);
        for (struct lmdb_wait *w = d->waits; w; w = w->next)
            if (w->cell >= LMDB_CELLS && w->cookie > last && (next == 0 || w->cookie < next))
                next = w->cookie;
        pthread_mutex_unlock(&d->local);
        if (next == 0)
            break;
        lmdb_attend(d, next);
        last = next;
    }

    a.tokens = hfi_malloc(a.room * sizeof *a.tokens);
    if (!a.tokens)
        return;
    if (lmdb_run(d, false, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), audit_body, NULL, &a,
                 NULL) == HF_OK)
        for (size_t i = 0; i < a.count; i++)
            (void)lost(d, a.tokens[i]);
    hfi_free(a.tokens);
    lmdb_wanted_audit(d);
}
