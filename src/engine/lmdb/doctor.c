/* SPDX-License-Identifier: MIT */
/* Checks whether this store can keep its promises. Each finding is one line. Reads everything
 * once. */
#include "engine/lmdb/internal.h"

#include "engine/kit/report.h"
#include "util/clock.h"
#include "util/error.h"

#include <linux/magic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

static void check_place(struct lmdb_directory *d, const struct hfi_report *r)
{
    struct statvfs space;
    struct statfs fs;
    struct stat st;
    char words[400];

    hfi_report(r, HF_CHECK_LEVEL_OK, "path", "%s", d->path);
    if (fstatfs(d->dir_fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC))
        hfi_report(
            r, HF_CHECK_LEVEL_WARNING, "durability",
            "the directory is in memory: the token mark is lost with a reboot (a new store then "
            "starts at the time in microseconds); a directory on a disk keeps it");
    else
        hfi_report(r, HF_CHECK_LEVEL_OK, "durability",
                   "the token mark is on a disk and synced before its tokens are used");
    if (fstatvfs(d->dir_fd, &space) == 0) {
        unsigned long long mib = (unsigned long long)space.f_bavail * space.f_frsize >> 20;

        if (mib < 64)
            hfi_report(r, HF_CHECK_LEVEL_WARNING, "space",
                       "%llu MiB free on the file system: a store that cannot grow refuses new "
                       "leases; make room",
                       mib);
        else
            hfi_report(r, HF_CHECK_LEVEL_OK, "space", "%llu MiB free on the file system", mib);
    }
    lmdb_sharing_words(d, words, sizeof words);
    hfi_report(r, HF_CHECK_LEVEL_OK, "sharing", "%s", words);
    if (d->by_default && stat(LMDB_OLD_DEFAULT "/store", &st) == 0 &&
        stat(LMDB_OLD_DEFAULT, &st) == 0 && (st.st_dev != d->dev || st.st_ino != d->ino))
        hfi_report(
            r, HF_CHECK_LEVEL_WARNING, "default",
            "an older version had its default store in " LMDB_OLD_DEFAULT
            ", and no process uses it now: remove it, or keep it by a line in " LMDB_SITE_FILE
            " (holdfast-engines(7))");
}

static void check_cells(struct lmdb_directory *d, const struct hfi_report *r)
{
    struct lmdb_cells_report report;
    hf_error err = { .status = HF_OK };
    hf_status status =
        lmdb_cells_report(d, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), &report, &err);

    if (status == HF_NOT_FOUND)
        return;
    if (status != HF_OK)
        hfi_report(r, HF_CHECK_LEVEL_BAD, "cells", "%s", err.text);
    else if (report.damaged)
        hfi_report(r, HF_CHECK_LEVEL_BAD, "cells",
                   "in cells.mdb %llu of %llu are damaged, the first is '%s'; `holdfast cell rm` "
                   "removes it",
                   (unsigned long long)report.damaged, (unsigned long long)report.cells,
                   report.first);
    else if (!report.sealed && report.cells)
        hfi_report(r, HF_CHECK_LEVEL_WARNING, "cells",
                   "%llu, of a version without checksums: the next write adds them",
                   (unsigned long long)report.cells);
    else
        hfi_report(r, HF_CHECK_LEVEL_OK, "cells", "%llu, all are sound",
                   (unsigned long long)report.cells);
}

struct walk {
    uint64_t names, holders, waiters, records;
};

/* Every record is read and its checksum compared; a bad one makes txn.c rebuild, which is reported. */
static int walk_body(struct lmdb_txn *t, void *arg)
{
    struct walk *w = arg;
    MDB_val key, value;
    MDB_cursor *cursor;
    struct lmdb_name rec;
    int rc = mdb_cursor_open(t->mdb, t->directory->dbi, &cursor);

    memset(w, 0, sizeof *w);
    if (rc != 0)
        return rc;
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST); rc == 0;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        w->records += key.mv_size != LMDB_KEY_ANCHOR;
        if (key.mv_size != LMDB_KEY_NAME)
            continue;
        rc = lmdb_name_parse(key.mv_data, &value, &rec);
        if (rc != 0)
            break;
        w->names++;
        w->holders += rec.further + (rec.first.token != 0);
        w->waiters += rec.waiters;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static const char *ending(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void check_processes(struct lmdb_directory *d, const struct hfi_report *r)
{
    unsigned live = 0, dead = 0, foreign = 0;
    uint32_t used;

    if (lmdb_lock(d, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), NULL) != HF_OK)
        return;
    used = lmdb_slots_used(d);
    for (uint32_t i = 0; i < used; i++) {
        struct lmdb_slot *s = lmdb_slot(d, i);

        if (atomic_load(&s->state) != LMDB_SLOT_LIVE)
            continue;
        if (!lmdb_alive(d, i))
            dead++;
        else if (s->pid_namespace != d->pid_namespace)
            foreign++, live++;
        else
            live++;
    }
    lmdb_unlock(d);
    hfi_report(r, HF_CHECK_LEVEL_OK, "processes",
               "%u %s the store open; %u %s dead, and the next request for a name of theirs cleans "
               "up",
               live, live == 1 ? "has" : "have", dead, dead == 1 ? "is" : "are");
    if (foreign)
        hfi_report(
            r, HF_CHECK_LEVEL_WARNING, "processes",
            "%u %s in another PID namespace, where a death is noticed within a second, not at once",
            foreign, foreign == 1 ? "lives" : "live");
}

hf_status lmdb_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err)
{
    struct lmdb_store *store = self;
    struct lmdb_directory *d = store->directory;
    struct hfi_report r = { .finding = finding, .arg = arg };
    struct walk w;
    uint64_t limit;
    uint32_t epoch = d->header->epoch;
    hf_status status;

    check_place(d, &r);
    check_processes(d, &r);
    status =
        lmdb_run(d, false, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), walk_body, NULL, &w, err);
    if (status != HF_OK) {
        hfi_report(&r, HF_CHECK_LEVEL_BAD, "leases", "%s",
                   err ? err->text : hf_status_text(status));
        return HF_OK;
    }
    hfi_report(&r, HF_CHECK_LEVEL_OK, "leases",
               "%llu name%s, %llu holder%s, %llu waiter%s; all records (%llu) are sound",
               (unsigned long long)w.names, ending(w.names), (unsigned long long)w.holders,
               ending(w.holders), (unsigned long long)w.waiters, ending(w.waiters),
               (unsigned long long)w.records);
    if (d->header->epoch != epoch)
        hfi_report(&r, HF_CHECK_LEVEL_BAD, "leases",
                   "the lease file was damaged and has just been rebuilt");
    else if (epoch > 1)
        hfi_report(
            &r, HF_CHECK_LEVEL_WARNING, "leases",
            "the lease file was damaged and rebuilt since boot, %u time%s: see what wrote to "
            "it, and test the memory",
            epoch - 1, ending(epoch - 1));
    if (d->header->closed_ms > hfi_now_ms())
        hfi_report(&r, HF_CHECK_LEVEL_BAD, "leases",
                   "after a rebuild nothing is granted for another %lld s",
                   (long long)(d->header->closed_ms - hfi_now_ms() + 999) / 1000);

    check_cells(d, &r);

    status = lmdb_tokens_open(d, &limit, err);
    if (status != HF_OK)
        hfi_report(&r, HF_CHECK_LEVEL_BAD, "tokens", "%s",
                   err ? err->text : hf_status_text(status));
    else
        hfi_report(&r,
                   limit > HFI_TOKEN_LIMIT / 10 * 9 ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_OK,
                   "tokens",
                   "%.1f%% of 2^53 used or reserved; a new store begins at the time in "
                   "microseconds",
                   100.0 * (double)limit / (double)HFI_TOKEN_LIMIT);
    return HF_OK;
}
