/* SPDX-License-Identifier: MIT */
/*
 * permits_lmdb DIRECTORY: the embedded engine, driven by lines on stdin, for permits_test.py. It is
 * linked with the engine's own sources, without core, whose local queues would come before the
 * store's queue. The clock shows what the last `clock` line said.
 *
 *   clock MS | acquire NAME ID MODE CAPACITY PERMITS FLAGS TOKENS TTL DELAY | release ID | cancel ID | renew ID TTL ... |
 *   adopt NAME ID TOKEN TTL | pass ID TOKEN TID | break NAME TOKEN | resize NAME CAPACITY
 *
 * FLAGS: 1 wait, 2 barge, 4 detached, 64 numbered. After each line every waiter checks its position until
 * nothing changes any more, as it would later by itself. The output is the answer; `granted ID
 * TOKEN TOKENS SENT_MS SLOT...` and `lost ID` for other events; `name`, `holder` and `waiter` lines, which
 * describe the whole store; and a dot. Holders and waiters are identified by their labels.
 */
#include "engine/lmdb/internal.h"

#include "core/conf.h"
#include "core/url.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ITEMS    4096
#define LIMIT_MS 20000
#define LINE_MAX 4096

const struct hfi_engine *hfi_engine_entry(void);

enum phase { UNUSED, WAITING, HELD, ENDED };

/* One acquisition, by the number that the test gives it. */
struct item {
    struct hfi_claim claim;
    struct hfi_op op;
    char name[HF_NAME_MAX + 1], label[16];
    enum phase phase;
    bool granted;     /* by the store; the waiter will learn it soon */
    _Atomic int done; /* 1 + status */
    _Atomic int lost;
};

static struct item items[ITEMS];
static struct lmdb_store opened, *store = &opened;
static _Atomic int64_t virtual_ms;

/* Overrides libc's: the engine uses the test's clock. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
    int64_t ms = atomic_load(&virtual_ms);

    if (clock != CLOCK_BOOTTIME || ms == 0)
        return (int)syscall(SYS_clock_gettime, clock, t);
    t->tv_sec = ms / 1000;
    t->tv_nsec = ms % 1000 * 1000000;
    return 0;
}

static _Noreturn void fail(const char *what, const char *detail)
{
    printf("FAILED %s %s\n", what, detail);
    exit(1);
}

/* ---- what core would be ----------------------------------------------------------------------- */

static void op_done(struct hfi_op *op)
{
    struct item *item = hfi_container(op, struct item, op);

    atomic_store(&item->done, atomic_load(&op->finished));
}

static void host_lost(struct hfi_host *host, struct hfi_claim *claim,
                      const unsigned char owner[HFI_OWNER_LEN], const char *why)
{
    (void)host, (void)why;
    for (int i = 0; i < ITEMS; i++)
        if (&items[i].claim == claim && memcmp(claim->owner, owner, HFI_OWNER_LEN) == 0)
            atomic_store(&items[i].lost, 1);
}

static void host_doubt(struct hfi_host *host, const char *why)
{
    (void)host;
    fail("doubt", why);
}

static void host_wake(struct hfi_host *host)
{
    (void)host;
}

static struct hfi_host host = {
    .lost = host_lost, .doubt = host_doubt, .wake = host_wake, .label = ""
};

static void name_of(const char *text, struct hfi_name *ret)
{
    ret->bytes = (const unsigned char *)text;
    ret->len = (uint32_t)strlen(text);
    hfi_hash128(text, ret->len, ret->hash);
}

static hf_status submit(struct item *item, enum hfi_op_kind kind)
{
    memset(&item->op, 0, sizeof item->op);
    item->op.kind = kind;
    item->op.deadline_ms = HFI_NEVER;
    item->op.claim = &item->claim;
    item->op.done = op_done;
    atomic_store(&item->done, 0);
    hfi_engine_entry()->submit(store, &item->op);
    return atomic_load(&item->done) ? (hf_status)(atomic_load(&item->done) - 1) : HF_OK;
}

static struct item *item_of(const char *id)
{
    long number = strtol(id, NULL, 10);

    if (number < 0 || number >= ITEMS)
        fail("item", id);
    return &items[number];
}

static int64_t next_number(void)
{
    const char *word = strtok(NULL, " \n");

    return word ? strtoll(word, NULL, 10) : 0;
}

/* ---- the store, as it shows itself ------------------------------------------------------------- */

static void print_slots(const uint32_t *slots, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        printf(" %u", slots[i]);
    printf("\n");
}

static void print_slots_of(const struct hfi_claim *claim)
{
    print_slots(claim->slots, claim->flags & HFI_CLAIM_NUMBERED ? claim->permits : 0);
}

static bool print_entry(struct hfi_sink *sink, const hf_entry *entry)
{
    (void)sink;
    printf("name %.*s %d %u %u %lld %d\n", (int)entry->name_len, (const char *)entry->name,
           entry->kind == HF_KIND_MUTEX    ? 0
           : entry->kind == HF_KIND_SHARED ? 1
                                           : 2,
           entry->capacity, entry->taken, (long long)entry->closed_ms, entry->resized);
    return true;
}

static bool print_holder(struct hfi_sink *sink, const hf_holder *h)
{
    (void)sink;
    printf("holder %s %llu %llu %u %u %lld %lld %lld", h->label, (unsigned long long)h->token,
           (unsigned long long)h->first, h->permits, h->detached, (long long)h->age_ms,
           (long long)h->ttl_ms, (long long)h->tid);
    print_slots(h->slots, h->slot_count);
    return true;
}

static bool print_waiter(struct hfi_sink *sink, const hf_waiter *w)
{
    (void)sink;
    printf("waiter %s %u %u %lld\n", w->label, w->position, w->permits, (long long)w->age_ms);
    return true;
}

/* The store's mutex is held here: only note it. */
static bool note_holder(struct hfi_sink *sink, const hf_holder *h)
{
    struct item *item = item_of(h->label);

    (void)sink;
    item->granted = item->phase == WAITING;
    return true;
}

static bool ignore_entry(struct hfi_sink *sink, const hf_entry *entry)
{
    (void)sink, (void)entry;
    return true;
}

static bool ignore_waiter(struct hfi_sink *sink, const hf_waiter *waiter)
{
    (void)sink, (void)waiter;
    return true;
}

static void inspect(struct hfi_sink *sink)
{
    struct hfi_cursor cursor = { .len = 0 };
    struct item one = { .phase = UNUSED };

    do {
        one.op = (struct hfi_op){ .kind = HFI_OP_LIST,
                                  .deadline_ms = HFI_NEVER,
                                  .done = op_done,
                                  .u.list = { .pattern = (const unsigned char *)"*",
                                              .len = 1,
                                              .cursor = &cursor,
                                              .sink = sink } };
        hfi_engine_entry()->submit(store, &one.op);
        if (atomic_load(&one.done) != 1 + HF_OK)
            fail("inspect", one.op.error.text);
    } while (cursor.len > 0);
}

/* ---- until nothing changes any more -------------------------------------------------------------- */

/* The cookie of the first waiter behind `ticket`, which it moves there. 0: there is none. */
static uint64_t waiter_behind(uint64_t *ticket)
{
    struct lmdb_directory *d = store->directory;
    uint64_t cookie = 0, best = UINT64_MAX;

    pthread_mutex_lock(&d->local);
    for (struct lmdb_wait *w = d->waits; w; w = w->next)
        if (w->op && w->ticket > *ticket && w->ticket < best) {
            best = w->ticket;
            cookie = atomic_load(&w->cookie);
        }
    pthread_mutex_unlock(&d->local);
    *ticket = best;
    return cookie;
}

/* Take the new grants; returns their number. */
static int take_grants(void)
{
    int count = 0;

    for (int i = 0; i < ITEMS; i++) {
        struct item *item = &items[i];

        if (item->phase != WAITING || !atomic_load(&item->done))
            continue;
        if (atomic_load(&item->done) != 1 + HF_OK)
            fail("an acquire", item->op.error.text);
        item->phase = HELD;
        count++;
        printf("granted %d %llu %u %lld", i, (unsigned long long)item->claim.token,
               item->claim.tokens, (long long)item->claim.sent_ms);
        print_slots_of(&item->claim);
    }
    return count;
}

static void await_grants(void)
{
    for (int i = 0; i < ITEMS; i++) {
        for (int ms = 0; items[i].granted && !atomic_load(&items[i].done); ms++) {
            if (ms > LIMIT_MS)
                fail("not told of its grant:", items[i].label);
            usleep(1000);
        }
        items[i].granted = false;
    }
}

static void settle(void)
{
    struct hfi_sink sink = { NULL, ignore_entry, note_holder, ignore_waiter };

    do {
        uint64_t ticket = 0, cookie;

        while ((cookie = waiter_behind(&ticket)) != 0)
            lmdb_attend(store->directory, cookie);
        inspect(&sink);
        await_grants();
    } while (take_grants() > 0);
}

/* ---- the lines ------------------------------------------------------------------------------------- */

static struct item *new_item(const char *name, const char *id)
{
    struct item *item = item_of(id);

    memset(&item->claim, 0, sizeof item->claim);
    atomic_store(&item->lost, 0);
    snprintf(item->name, sizeof item->name, "%s", name);
    snprintf(item->label, sizeof item->label, "%s", id);
    name_of(item->name, &item->claim.name);
    memcpy(item->claim.owner, &(uint64_t){ (uint64_t)(item - items) + 1 }, 8);
    item->claim.label = item->label;
    return item;
}

static void do_acquire(void)
{
    const char *name = strtok(NULL, " \n"), *id = strtok(NULL, " \n");
    struct item *item = new_item(name, id);
    int64_t flags;
    hf_status status;

    item->claim.mode = (enum hfi_mode)next_number();
    item->claim.capacity = (uint32_t)next_number();
    item->claim.permits = (uint32_t)next_number();
    flags = next_number();
    item->claim.tokens_wanted = (uint32_t)next_number();
    item->claim.ttl_ms = next_number();
    item->claim.lock_delay_ms = next_number();
    item->claim.flags = (flags & 2 ? HFI_CLAIM_BARGE : 0) | (flags & 4 ? HFI_CLAIM_DETACHED : 0) |
                        (flags & 64 ? HFI_CLAIM_NUMBERED : 0);
    memset(&item->op, 0, sizeof item->op);
    item->op = (struct hfi_op){ .kind = HFI_OP_ACQUIRE,
                                .deadline_ms = HFI_NEVER,
                                .may_wait = flags & 1,
                                .claim = &item->claim,
                                .done = op_done };
    item->phase = WAITING;
    atomic_store(&item->done, 0);
    hfi_engine_entry()->submit(store, &item->op);
    if (!atomic_load(&item->done)) {
        printf("Q\n");
        return;
    }
    status = (hf_status)(atomic_load(&item->done) - 1);
    item->phase = status == HF_OK ? HELD : UNUSED;
    if (status == HF_OK) {
        printf("G %llu %u %lld", (unsigned long long)item->claim.token, item->claim.tokens,
               (long long)item->claim.sent_ms);
        print_slots_of(&item->claim);
    } else
        printf("%s\n", status == HF_BUSY ? "B" : status == HF_MISMATCH ? "M" : item->op.error.text);
}

static void do_release(void)
{
    struct item *item = item_of(strtok(NULL, " \n"));
    hf_status status = submit(item, HFI_OP_RELEASE);

    item->phase = ENDED;
    printf("%s\n", status == HF_OK ? "R" : status == HF_LOST ? "N" : item->op.error.text);
}

static void do_cancel(void)
{
    struct item *item = item_of(strtok(NULL, " \n"));

    hfi_engine_entry()->cancel(store, &item->op, HF_CANCELLED);
    if (atomic_load(&item->done) == 1 + HF_CANCELLED)
        item->phase = ENDED;
    printf("%s\n", item->phase == ENDED ? "C" : "G");
}

static void do_renew(void)
{
    struct hfi_renewal renewals[64];
    struct item one = { .phase = UNUSED };
    size_t count = 0;
    const char *id;

    while ((id = strtok(NULL, " \n")) != NULL && count < 64)
        renewals[count++] =
            (struct hfi_renewal){ .claim = &item_of(id)->claim, .ttl_ms = next_number() };
    one.op = (struct hfi_op){ .kind = HFI_OP_RENEW,
                              .deadline_ms = HFI_NEVER,
                              .done = op_done,
                              .u.renew = { renewals, count } };
    hfi_engine_entry()->submit(store, &one.op);
    for (size_t i = 0; i < count; i++)
        printf("%d%s", renewals[i].status == HF_OK, i + 1 < count ? " " : "\n");
}

/* Uses a new claim: the process that held the lease before is gone. */
static void do_adopt(void)
{
    const char *name = strtok(NULL, " \n"), *id = strtok(NULL, " \n");
    struct item *item = item_of(id), old = *item;
    bool known = item->phase == HELD;
    hf_status status;

    if (known) { /* core would have closed the store before: forget the claim */
        lmdb_lock(store->directory, HFI_NEVER, NULL);
        lmdb_claim_unlink(store->directory, &item->claim);
        lmdb_unlock(store->directory);
        old.claim = item->claim;
    }
    item = new_item(name, id);
    item->claim.token = (uint64_t)next_number();
    item->claim.ttl_ms = next_number();
    status = submit(item, HFI_OP_ADOPT);
    if (status == HF_OK) {
        item->phase = HELD;
        printf("A %d %u %u %llu %lld %lld", (int)item->claim.mode, item->claim.capacity,
               item->claim.permits, (unsigned long long)item->claim.token,
               (long long)item->claim.ttl_ms, (long long)item->claim.lock_delay_ms);
        print_slots_of(&item->claim);
        return;
    }
    item->claim = old.claim;
    item->phase = old.phase;
    if (known) {
        lmdb_lock(store->directory, HFI_NEVER, NULL);
        lmdb_claim_link(store->directory, &item->claim, store);
        lmdb_unlock(store->directory);
    }
    printf("%s\n", status == HF_NOT_FOUND ? "N" : item->op.error.text);
}

static void do_pass(void)
{
    struct item *item = item_of(strtok(NULL, " \n"));
    int64_t token = next_number();

    hfi_engine_entry()->passed(store, &item->claim, (uint64_t)token, next_number());
    printf("D\n");
}

static void do_break(void)
{
    struct item one = { .phase = UNUSED };
    const char *name = strtok(NULL, " \n");

    one.op = (struct hfi_op){ .kind = HFI_OP_BREAK, .deadline_ms = HFI_NEVER, .done = op_done };
    name_of(name, &one.op.u.brk.name);
    one.op.u.brk.token = (uint64_t)next_number();
    hfi_engine_entry()->submit(store, &one.op);
    printf("%s\n", atomic_load(&one.done) == 1 + HF_OK          ? "R"
                   : atomic_load(&one.done) == 1 + HF_NOT_FOUND ? "N"
                                                                : one.op.error.text);
}

static void do_resize(void)
{
    struct item one = { .phase = UNUSED };
    const char *name = strtok(NULL, " \n");

    one.op = (struct hfi_op){ .kind = HFI_OP_RESIZE, .deadline_ms = HFI_NEVER, .done = op_done };
    name_of(name, &one.op.u.resize.name);
    one.op.u.resize.capacity = (uint32_t)next_number();
    hfi_engine_entry()->submit(store, &one.op);
    printf("%s\n", atomic_load(&one.done) == 1 + HF_OK         ? "R"
                   : atomic_load(&one.done) == 1 + HF_MISMATCH ? "M"
                                                               : one.op.error.text);
}

static void do_lost(void)
{
    struct item *item = item_of(strtok(NULL, " \n"));

    for (int ms = 0; !atomic_load(&item->lost); ms++) {
        if (ms > LIMIT_MS)
            fail("not told", "of its loss");
        usleep(1000);
    }
    printf("D\n");
}

static void obey(char *line)
{
    const char *what = strtok(line, " \n");

    if (!what)
        return;
    if (strcmp(what, "clock") == 0) {
        atomic_store(&virtual_ms, next_number());
        printf("D\n");
    } else if (strcmp(what, "acquire") == 0)
        do_acquire();
    else if (strcmp(what, "release") == 0)
        do_release();
    else if (strcmp(what, "cancel") == 0)
        do_cancel();
    else if (strcmp(what, "renew") == 0)
        do_renew();
    else if (strcmp(what, "adopt") == 0)
        do_adopt();
    else if (strcmp(what, "pass") == 0)
        do_pass();
    else if (strcmp(what, "break") == 0)
        do_break();
    else if (strcmp(what, "resize") == 0)
        do_resize();
    else if (strcmp(what, "lost") == 0)
        do_lost();
    else
        fail("unknown", what);
}

int main(int argc, char **argv)
{
    struct hfi_sink sink = { NULL, print_entry, print_holder, print_waiter };
    char line[LINE_MAX], text[LINE_MAX];
    struct hfi_url url;
    struct hfi_conf *conf = NULL;
    hf_error err = { 0 };

    if (argc != 2)
        fail("usage:", "permits_lmdb DIRECTORY");
    snprintf(text, sizeof text, "file:%s", argv[1]);
    host.open_deadline_ms = HFI_NEVER;
    if (hfi_url_parse(text, &url, &err) != HF_OK ||
        hfi_conf_read(&url, hfi_engine_entry()->conf, &conf, &err) != HF_OK ||
        hfi_engine_entry()->open(store, conf, &host, &err) != HF_OK)
        fail("open", err.text);
    hfi_url_done(&url);
    while (fgets(line, sizeof line, stdin)) {
        obey(line);
        settle();
        inspect(&sink);
        printf(".\n");
        fflush(stdout);
    }
    _exit(0); /* all that is held goes with the process: it is no leak */
}
