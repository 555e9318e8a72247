/* SPDX-License-Identifier: MIT */
/*
 * The slots of the control file: a page for every process that has the store open, with
 * its futexes and its mail. Only the fcntl locks on the file `live` say which processes are alive.
 */
#include "engine/lmdb/internal.h"

#include "util/error.h"
#include "util/futex.h"
#include "util/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAP_PER_REGISTER 8 /* slots that each new process checks for dead owners */

struct lmdb_slot *lmdb_slot(struct lmdb_directory *d, uint32_t slot)
{
    return (struct lmdb_slot *)(void *)((char *)d->header + (size_t)LMDB_PAGE * (1 + slot));
}

/* All processes can write to the header: a number that is too high must not lead out of the file or
 * the map. */
uint32_t lmdb_slots_used(struct lmdb_directory *d)
{
    uint32_t used = atomic_load_explicit(&d->header->slot_high, memory_order_relaxed);
    uint32_t backed = atomic_load_explicit(&d->slots_backed, memory_order_relaxed);
    struct stat st;

    if (used > backed && fstat(d->control_fd, &st) == 0 && st.st_size >= LMDB_PAGE) {
        off_t pages = st.st_size / LMDB_PAGE - 1;

        backed = pages < LMDB_SLOTS_MAX ? (uint32_t)pages : LMDB_SLOTS_MAX;
        atomic_store_explicit(&d->slots_backed, backed, memory_order_relaxed);
    }
    return used < backed ? used : backed;
}

static int live_lock(struct lmdb_directory *d, int command, uint32_t slot, short type,
                     struct flock *ret)
{
    *ret =
        (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)slot, .l_len = 1 };
    return fcntl(d->live_fd, command, ret);
}

/* Our own lock never conflicts with us, so for our own slot the answer is known. */
bool lmdb_alive(struct lmdb_directory *d, uint32_t slot)
{
    struct flock lock;

    if (slot == d->slot)
        return true;
    if (live_lock(d, F_GETLK, slot, F_WRLCK, &lock) != 0)
        return true; /* not known: assume that it is alive */
    return lock.l_type != F_UNLCK;
}

bool lmdb_anybody_alive(struct lmdb_directory *d, int32_t *ret_pid)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0 };

    if (fcntl(d->live_fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return false;
    *ret_pid = lock.l_pid;
    return true;
}

/*
 * Identifies this process image, also against an earlier one with the same pid before exec(2); and
 * two copies of the library in one process compute the same value. It comes from the kernel's
 * AT_RANDOM. Those bytes are also the stack canary and the pointer guard, so only a hash of them is
 * stored in shared memory.
 */
static bool image_of(struct lmdb_directory *d, unsigned char ret_image[16])
{
    const void *random = (const void *)getauxval(AT_RANDOM); /* NOLINT(performance-no-int-to-ptr) */
    unsigned char hash[HFI_SHA256_LEN];
    struct {
        char what[32];
        uint64_t device, inode, pid, pid_namespace;
        unsigned char random[16];
    } key;

    if (!random)
        return false;
    memset(&key, 0, sizeof key);
    strcpy(key.what, "holdfast: image of a process");
    key.device = (uint64_t)d->dev;
    key.inode = (uint64_t)d->ino;
    key.pid = (uint64_t)d->pid;
    key.pid_namespace = d->pid_namespace;
    memcpy(key.random, random, sizeof key.random);
    hfi_sha256(&key, sizeof key, hash);
    explicit_bzero(&key, sizeof key);
    memcpy(ret_image, hash, 16);
    return true;
}

/* A control file of format 1 has the bytes themselves. */
static bool same_image(struct lmdb_directory *d, const struct lmdb_slot *s,
                       const unsigned char image[16])
{
    const void *random = (const void *)getauxval(AT_RANDOM); /* NOLINT(performance-no-int-to-ptr) */

    return memcmp(s->image, d->header->format == 1 ? random : image, sizeof s->image) == 0;
}

/* A second copy of the library in one process would take our fcntl locks down with its first close. */
hf_status lmdb_refuse_second_copy(struct lmdb_directory *d, hf_error *err)
{
    unsigned char image[16];
    uint32_t used = lmdb_slots_used(d);
    bool known = image_of(d, image);

    for (uint32_t i = 0; known && i < used; i++) {
        struct lmdb_slot *s = lmdb_slot(d, i);

        if (atomic_load(&s->state) == LMDB_SLOT_LIVE && s->pid == d->pid &&
            s->pid_namespace == d->pid_namespace && same_image(d, s, image))
            return hfi_error_set(err, HF_IN_USE, 0,
                                 "this process has %s open through another copy of libholdfast",
                                 d->path);
    }
    return HF_OK;
}

/* For the case that the locks cannot be read, because their file was replaced. A pid may have been
 * reused: then a dead process counts as running, which is safe. */
bool lmdb_anybody_running(struct lmdb_directory *d, int32_t *ret_pid)
{
    uint32_t used = lmdb_slots_used(d);

    for (uint32_t i = 0; i < used; i++) {
        struct lmdb_slot *s = lmdb_slot(d, i);

        *ret_pid = s->pid;
        if (atomic_load(&s->state) == LMDB_SLOT_LIVE &&
            (s->pid_namespace != d->pid_namespace || kill(s->pid, 0) == 0 || errno != ESRCH))
            return true;
    }
    return false;
}

/* The first free slot, or one more; -1: none, with err set. Under the mutex. */
static int64_t find_slot(struct lmdb_directory *d, hf_error *err)
{
    struct lmdb_header *h = d->header;
    uint32_t used = lmdb_slots_used(d), room;

    for (uint32_t i = 0; i < used; i++)
        if (atomic_load(&lmdb_slot(d, i)->state) == LMDB_SLOT_FREE)
            return i;
    if (used == LMDB_SLOTS_MAX) {
        hfi_error_set(err, HF_FULL, 0, "%d processes have %s open: no more fit", LMDB_SLOTS_MAX,
                      d->path);
        return -1;
    }
    if (used >= h->slot_room || used >= atomic_load(&d->slots_backed)) {
        room = used / LMDB_SLOTS_STEP * LMDB_SLOTS_STEP + LMDB_SLOTS_STEP;
        if (lmdb_reserve_space(d, d->control_fd, "control", (int64_t)LMDB_PAGE * (1 + room), err) !=
            HF_OK)
            return -1;
        h->slot_room = room;
    }
    return used;
}

/* Check a few slots in turn, so that the remains of dead processes do not accumulate. */
static void reap_some(struct lmdb_directory *d, int64_t deadline_ms)
{
    struct {
        uint32_t slot, generation;
    } dead[REAP_PER_REGISTER];
    struct lmdb_header *h = d->header;
    uint32_t used;
    int found = 0;

    if (lmdb_lock(d, deadline_ms, NULL) != HF_OK)
        return;
    used = lmdb_slots_used(d);
    for (uint32_t i = 0; i < used && i < REAP_PER_REGISTER; i++) {
        uint32_t slot = h->slot_hint++ % used;
        struct lmdb_slot *s = lmdb_slot(d, slot);

        if (atomic_load(&s->state) == LMDB_SLOT_LIVE && !lmdb_alive(d, slot)) {
            dead[found].slot = slot;
            dead[found++].generation = s->generation;
        }
    }
    lmdb_unlock(d);
    while (found > 0) {
        found--;
        (void)lmdb_recover(d, dead[found].slot, dead[found].generation, NULL);
    }
}

hf_status lmdb_register(struct lmdb_directory *d, const char *label, int64_t deadline_ms,
                        hf_error *err)
{
    unsigned char image[16];
    struct flock lock;
    struct lmdb_slot *s;
    hf_status status;
    int64_t slot;

    reap_some(d, deadline_ms);
    status = lmdb_lock(d, deadline_ms, err);
    if (status != HF_OK)
        return status;
    status = lmdb_refuse_second_copy(d, err); /* again: another copy may have registered since */
    if (status != HF_OK) {
        d->live_fd = -1; /* left open on purpose: closing it would drop the other copy's locks */
        goto out;
    }
    lmdb_compact(d); /* short-lived commands never run enough transactions to do it later */
    slot = find_slot(d, err);
    if (slot < 0) {
        status = err ? err->status : HF_FULL;
        goto out;
    }
    /* The lock before the state: a slot that says LIVE without a lock is a dead process. */
    if (live_lock(d, F_SETLK, (uint32_t)slot, F_WRLCK, &lock) != 0) {
        status = hfi_error_set(err, HF_UNAVAILABLE, errno, "cannot lock our byte of %s/live: %s",
                               d->path, strerror(errno));
        goto out;
    }
    s = lmdb_slot(d, (uint32_t)slot);
    /* First of all, so that a generation is never used twice, even if we are killed here. */
    s->generation++;
    memset((char *)s + offsetof(struct lmdb_slot, pid), 0,
           sizeof *s - offsetof(struct lmdb_slot, pid));
    s->pid = d->pid;
    s->uid = (uint32_t)getuid();
    s->pid_namespace = d->pid_namespace;
    if (image_of(d, image))
        memcpy(s->image, image, sizeof s->image);
    s->epoch = d->header->epoch;
    snprintf(s->label, sizeof s->label, "%s", label);
    d->slot = (uint32_t)slot;
    if (slot >= atomic_load(&d->header->slot_high))
        atomic_store(&d->header->slot_high, (uint32_t)slot + 1);
    atomic_store(&s->state, LMDB_SLOT_LIVE);
out:
    lmdb_unlock(d);
    return status;
}

/* If the mutex is not free in time, the slot stays LIVE without a lock, and is treated as that of a
 * dead process. */
void lmdb_unregister(struct lmdb_directory *d)
{
    struct flock lock;

    if (d->slot == LMDB_NO_SLOT)
        return;
    memset(lmdb_slot(d, d->slot)->image, 0,
           sizeof lmdb_slot(d, d->slot)->image); /* this process may open the store again */
    if (lmdb_lock(d, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), NULL) == HF_OK) {
        struct lmdb_slot *s = lmdb_slot(d, d->slot);

        if (s->records == 0)
            atomic_store(&s->state, LMDB_SLOT_FREE);
        live_lock(d, F_SETLK, d->slot, F_UNLCK, &lock);
        lmdb_unlock(d);
    }
    d->slot = LMDB_NO_SLOT;
}

/* ---- delivering ----------------------------------------------------------------- */

static _Atomic uint32_t *send_mail(struct lmdb_slot *s, struct lmdb_mail mail)
{
    uint32_t read = atomic_load(&s->mail_read), sent = atomic_load(&s->mail_sent);

    if (sent - read >= LMDB_MAILS) {
        s->mail_overflow = 1;
    } else {
        s->mails[sent % LMDB_MAILS] = mail;
        atomic_store(&s->mail_sent, sent + 1);
    }
    atomic_fetch_add(&s->mail, 1);
    return &s->mail;
}

_Atomic uint32_t *lmdb_deliver(struct lmdb_directory *d, const struct lmdb_wake *wake)
{
    struct lmdb_slot *s;

    if (wake->slot >= lmdb_slots_used(d))
        return NULL;
    s = lmdb_slot(d, wake->slot);
    if (wake->kind == LMDB_WAKE_FORGET) {
        if (s->records > 0)
            s->records--;
        return NULL;
    }
    if (wake->kind == LMDB_WAKE_LOST)
        return send_mail(s, (struct lmdb_mail){ .kind = LMDB_MAIL_LOST, .token = wake->token });
    if (wake->kind >= LMDB_WAKE_WANTED)
        return send_mail(
            s, (struct lmdb_mail){ .kind = LMDB_MAIL_WANTED + (wake->kind - LMDB_WAKE_WANTED),
                                   .cookie = wake->cookie,
                                   .token = wake->token });
    if (wake->cell >= LMDB_CELLS)
        return send_mail(s, (struct lmdb_mail){ .kind = wake->kind == LMDB_WAKE_GRANTED
                                                            ? LMDB_MAIL_GRANTED
                                                            : LMDB_MAIL_CALLED,
                                                .cookie = wake->cookie,
                                                .token = wake->token,
                                                .granted_ms = (uint32_t)wake->granted_ms });

    struct lmdb_cell *cell = &s->cells[wake->cell];
    uint32_t waiting = wake->turn << 2 | LMDB_WAITING, called = wake->turn << 2 | LMDB_CALLED;
    uint32_t now = atomic_load(&cell->word);

    if (now != waiting && now != called)
        return NULL; /* not that waiter any more */
    if (wake->kind == LMDB_WAKE_GRANTED) {
        cell->token = wake->token;
        cell->granted_ms = (uint32_t)wake->granted_ms;
        atomic_store(&cell->word, wake->turn << 2 | LMDB_GRANTED);
    } else {
        atomic_store(&cell->word, called);
    }
    return &cell->word;
}

void lmdb_wake_all(struct lmdb_directory *d)
{
    uint32_t used = lmdb_slots_used(d);

    for (uint32_t i = 0; i < used; i++) {
        struct lmdb_slot *s = lmdb_slot(d, i);

        if (atomic_load(&s->state) != LMDB_SLOT_LIVE)
            continue;
        for (int c = 0; c < LMDB_CELLS; c++) {
            uint32_t word = atomic_load(&s->cells[c].word);

            if ((word & 3) != LMDB_WAITING)
                continue;
            atomic_store(&s->cells[c].word, (word & ~3u) | LMDB_CALLED);
            hfi_futex_wake(&s->cells[c].word, INT_MAX, true);
        }
        s->mail_overflow = 1;
        atomic_fetch_add(&s->mail, 1);
        hfi_futex_wake(&s->mail, INT_MAX, true);
    }
}
