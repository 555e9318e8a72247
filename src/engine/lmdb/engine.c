/* SPDX-License-Identifier: MIT */
/*
 * The embedded engine's contract with core, and the list of directories that this process has open.
 *
 * LMDB must not be opened twice by one process, and a process has one fcntl lock per store that
 * shows that it lives: so stores with the same path share one struct lmdb_directory.
 */
#include "engine/lmdb/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/process.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static hf_status find_or_open(const struct lmdb_where *where, int64_t lock_wait_ms,
                              struct hfi_host *host, struct lmdb_directory **ret_directory,
                              hf_error *err);
static void directory_free(struct lmdb_directory *d);

/* ---- opening and closing ------------------------------------------------------- */

static hf_status lmdb_open(void *self, struct hfi_conf *conf, struct hfi_host *host, hf_error *err)
{
    struct lmdb_conf *lmdb = (struct lmdb_conf *)conf;
    struct lmdb_where where = { .path = NULL };
    struct lmdb_directory *directory = NULL;
    struct lmdb_store *store = self;
    hf_status status = lmdb_where(lmdb, &where, err);

    if (status != HF_OK)
        return status;
    pthread_mutex_lock(hfi_process_mutex());
    status = find_or_open(&where, lmdb->lock_wait_ms, host, &directory, err);
    pthread_mutex_unlock(hfi_process_mutex());
    lmdb_where_done(&where);
    if (status != HF_OK)
        return status;
    store->directory = directory;
    store->host = host;
    host->location = directory->location;
    store->own_label =
        strncmp(host->label, lmdb_slot(directory, directory->slot)->label, HF_LABEL_MAX + 1) != 0;
    return HF_OK;
}

static void directory_init(struct lmdb_directory *d, int64_t lock_wait_ms)
{
    struct stat st;

    d->dir_fd = d->store_fd = d->control_fd = d->live_fd = d->lease_fd = d->epoll_fd = d->wake_fd =
        -1;
    for (int i = 0; i < LMDB_WATCH_MAX; i++)
        d->watches[i].fd = -1;
    d->slot = LMDB_NO_SLOT;
    d->lock_wait_ms = lock_wait_ms;
    d->pid = (int32_t)getpid();
    d->process = hfi_process_id();
    if (stat("/proc/self/ns/pid", &st) == 0)
        d->pid_namespace = (uint64_t)st.st_ino;
    pthread_mutex_init(&d->local, NULL);
    pthread_mutex_init(&d->calls, NULL);
}

/* The open struct for this path, if this process has one. */
static struct lmdb_directory *find(const char *path)
{
    struct lmdb_directory *d = *(struct lmdb_directory **)hfi_process_slot();
    struct stat st;

    if (stat(path, &st) != 0)
        return NULL;
    while (d && (d->dev != st.st_dev || d->ino != st.st_ino))
        d = d->next;
    return d;
}

/* The store's files are opened under the process's own mutex: two threads never open one twice. */
static hf_status find_or_open(const struct lmdb_where *where, int64_t lock_wait_ms,
                              struct hfi_host *host, struct lmdb_directory **ret_directory,
                              hf_error *err)
{
    struct lmdb_directory **list = (struct lmdb_directory **)hfi_process_slot(),
                          *d = find(where->path);
    hf_status status = HF_OK;

    if (d) {
        d->refs++;
        *ret_directory = d;
        return HF_OK;
    }
    if (!find(LMDB_OLD_DEFAULT)) /* if this process has it open, a URL named it */
        status = lmdb_refuse_two_defaults(where, err);
    if (status != HF_OK)
        return status;
    d = hfi_calloc(1, sizeof *d);
    if (!d)
        return hfi_error_memory(err);
    directory_init(d, lock_wait_ms);
    status = lmdb_directory_open(d, where, host->existing, err);
    if (status == HF_OK)
        status = lmdb_control_open(d, host->open_deadline_ms, err);
    if (status == HF_OK)
        status = lmdb_register(d, host->label, host->open_deadline_ms, err);
    if (status != HF_OK) {
        directory_free(d);
        return status;
    }
    d->refs = 1;
    d->next = *list;
    *list = d;
    *ret_directory = d;
    return HF_OK;
}

static void directory_free(struct lmdb_directory *d)
{
    while (d->pool) {
        struct lmdb_wait *w = d->pool;

        d->pool = w->next;
        hfi_free(w);
    }
    lmdb_cells_close(d);
    lmdb_leases_close(d);
    lmdb_control_close(d);
    lmdb_directory_close(d);
    pthread_mutex_destroy(&d->local);
    pthread_mutex_destroy(&d->calls);
    hfi_free(d);
}

/* Forget the claims that core drops without a release: detached leases that live on. */
static void forget_claims(struct lmdb_store *store)
{
    struct lmdb_directory *d = store->directory;
    struct hfi_claim *claim, *next;

    if (lmdb_lock(d, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), NULL) != HF_OK)
        return;
    for (claim = d->claims; claim; claim = next) {
        next = lmdb_claim_of(claim)->next;
        if (lmdb_claim_of(claim)->store == store)
            lmdb_claim_unlink(d, claim);
    }
    lmdb_unlock(d);
}

static void lmdb_close(void *self)
{
    struct lmdb_store *store = self;
    struct lmdb_directory *d = store->directory, **at;

    forget_claims(store);
    pthread_mutex_lock(&d->calls); /* the mail thread may be calling our host */
    pthread_mutex_unlock(&d->calls);

    pthread_mutex_lock(hfi_process_mutex());
    if (--d->refs > 0) {
        pthread_mutex_unlock(hfi_process_mutex());
        return;
    }
    for (at = (struct lmdb_directory **)hfi_process_slot(); *at != d; at = &(*at)->next)
        ;
    *at = d->next;
    atomic_store(&d->stop, 1);
    lmdb_mail_stop(d);
    lmdb_watch_stop(d);
    lmdb_unregister(d);
    directory_free(d);
    pthread_mutex_unlock(hfi_process_mutex());
}

/* ---- ops -------------------------------------------------------------------------- */

static void lmdb_submit(void *self, struct hfi_op *op)
{
    struct lmdb_store *store = self;

    switch (op->kind) {
    case HFI_OP_ACQUIRE:
        lmdb_acquire(store, op);
        return;
    case HFI_OP_RELEASE:
        lmdb_release(store, op);
        return;
    case HFI_OP_RENEW:
        lmdb_renew(store, op);
        return;
    case HFI_OP_ADOPT:
        lmdb_adopt(store, op);
        return;
    case HFI_OP_LIST:
        lmdb_list(store, op);
        return;
    case HFI_OP_LOOK:
        lmdb_look(store, op);
        return;
    case HFI_OP_BREAK:
        lmdb_break(store, op);
        return;
    case HFI_OP_CELL_READ:
        lmdb_cell_read(store, op);
        return;
    case HFI_OP_CELL_SWAP:
        lmdb_cell_swap(store, op);
        return;
    case HFI_OP_CELLS_COMMIT:
        lmdb_cells_commit(store, op);
        return;
    case HFI_OP_CELL_WAIT:
        return; /* lmdb_wait() checks that first */
    case HFI_OP_CHANGE_WAIT:
        lmdb_change_begin(store, op);
        return;
    case HFI_OP_TIME:
        op->u.time.ret_us = lmdb_wall_us();
        hfi_op_finish(op, HF_OK);
        return;
    case HFI_OP_ASK:
        lmdb_ask(store, op);
        return;
    case HFI_OP_RESIZE:
        lmdb_resize(store, op);
        return;
    case HFI_OP_COUNT:
    case HFI_OP_COUNTER:
    case HFI_OP_LIMIT:
    case HFI_OP_SCRIPT:
        break;
    }
    hfi_op_finish(op, hfi_error_set(&op->error, HF_UNSUPPORTED, 0, "unknown operation"));
}

static void lmdb_engine_wait(void *self, struct hfi_op *op, int64_t until_ms)
{
    struct lmdb_store *store = self;

    if (op->kind == HFI_OP_CELL_WAIT)
        lmdb_cell_wait(store, op, until_ms);
    else if (op->kind == HFI_OP_CHANGE_WAIT)
        lmdb_change_wait(store, op, until_ms);
    else
        lmdb_wait(store, op, until_ms);
}

static void lmdb_engine_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct lmdb_store *store = self;

    if (op->kind == HFI_OP_CELL_WAIT)
        lmdb_cell_cancel(store, op, status);
    else if (op->kind == HFI_OP_CHANGE_WAIT)
        lmdb_change_cancel(store, op, status);
    else
        lmdb_cancel(store, op, status);
}

/* Why not. */
static const hf_engine_lack lacks[] = {
    { HF_CAP_SCRIPTS, "there is no server that could run one" },
    { HF_CAP_LINGER, "there is no round trip that it could save; a pair takes a microsecond" },
    { 0, NULL },
};

static const struct hfi_engine engine = {
    .abi = HFI_ENGINE_ABI,
    .drive = &(const struct hfi_drive){ .kind = HFI_INLINE, .wait = lmdb_engine_wait },
    .promises =
        &(const struct hfi_promises){
            .default_ttl_ms = 0,
            .min_ttl_ms = HF_TTL_MIN_MS,
            .name = "lmdb",
            .schemes = "file",
            .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_TTL |
                    HF_CAP_PROCESS | HF_CAP_DETACHED | HF_CAP_TOKEN | HF_CAP_PASS | HF_CAP_BARGE |
                    HF_CAP_LOCK_DELAY | HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_BREAK |
                    HF_CAP_WATCH | HF_CAP_CELLS | HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH |
                    HF_CAP_CLOCK | HF_CAP_WANTED | HF_CAP_CONVERT | HF_CAP_COMMIT |
                    HF_CAP_NUMBERED | HF_CAP_RESIZE,
            .lacks = lacks,
            .tokens = HF_TOKEN_STRENGTH_STRICT,
            .on_crash = "freed at once by the kernel",
            .on_pause = "kept (no ttl); with a ttl: fenced by the token",
            .on_clock_jump = "no effect (boot-time clock)",
            .on_server_loss = "no server; a reboot ends all leases, tokens go on",
            .on_partition = "one machine only",
            .fairness = "FIFO, hand-over in the release",
            .wakeup = "futex, the winner alone" },
    HFI_STORAGE(struct lmdb_store, struct lmdb_op, struct lmdb_claim),
    .open = lmdb_open,
    .close = lmdb_close,
    .conf = &lmdb_conf_type,
    .submit = lmdb_submit,
    .cancel = lmdb_engine_cancel,
    .passed = lmdb_passed,
    .admin = &(const struct hfi_admin){ .doctor = lmdb_doctor },
};

HFI_ENGINE_ENTRY(engine)
