/* SPDX-License-Identifier: MIT */
/*
 * See ops.h. One thread, the engine's contract without core: what the server answers must never break it. Every op
 * is finished exactly once, and a grant has what the contract says.
 */
#include "ops.h"

#include "core/conf.h"
#include "prim/limit_plan.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/hash.h"

#define OPS_MAX   12
#define CLAIMS    4
#define TURNS_MAX 2000
#define TURNS_FEW 8
#define TURN_MS   20
#define CANCEL_AT 40 /* turns after which what still waits is told to end */

/* One op with what it may point to. */
struct job {
    struct hfi_op op;
    struct hfi_renewal renewals[2];
    struct hfi_counter_op counter;
    struct hfi_limit_op limit;
    struct hfi_script_op script;
    struct hfi_commit_item items[2];
    struct hfi_commit_op commit;
    struct hfi_cursor cursor;
    unsigned finished;
    bool cancelled;
};

static struct job jobs[OPS_MAX];
static struct hfi_claim claims[CLAIMS];
static const struct hfi_promises *promises; /* of the store that is open */
static bool held[CLAIMS], busy[CLAIMS];

static void on_lost(struct hfi_host *host, struct hfi_claim *claim,
                    const unsigned char owner[HFI_OWNER_LEN], const char *why)
{
    (void)host;
    (void)owner;
    MUST(claim >= claims && claim < claims + CLAIMS && why);
}

static void on_doubt(struct hfi_host *host, const char *why)
{
    (void)host;
    MUST(why);
}

static void on_wanted(struct hfi_host *host, struct hfi_claim *claim,
                      const unsigned char owner[HFI_OWNER_LEN], enum hfi_wanted what,
                      const char *text)
{
    (void)host;
    (void)owner;
    (void)what;
    MUST(claim >= claims && claim < claims + CLAIMS && text);
}

static void on_hears(struct hfi_host *host, bool on)
{
    (void)host;
    (void)on;
}

static void on_wake(struct hfi_host *host)
{
    (void)host;
}

static void on_done(struct hfi_op *op)
{
    struct job *job = (struct job *)op;
    hf_status status = (hf_status)(op->finished - 1);
    size_t claim = op->claim ? (size_t)(op->claim - claims) : 0;

    if (getenv("FUZZ_TELL")) /* for whoever looks at one input */
        fprintf(stderr, "done: kind %d, status %d %s\n", (int)op->kind, (int)status,
                op->error.text);
    MUST(++job->finished == 1);
    if (status != HF_OK)
        MUST(memchr(op->error.text, 0, sizeof op->error.text));
    if (op->claim)
        busy[claim] = false;
    if (op->kind == HFI_OP_ACQUIRE && status == HF_OK) {
        MUST(op->claim->tokens >= 1 && op->claim->tokens <= op->claim->tokens_wanted);
        MUST(op->claim->granted_ttl_ms >= 0);
        held[claim] = true;
    }
    if (op->kind == HFI_OP_ADOPT && status == HF_OK)
        held[claim] = true;
    if (op->kind == HFI_OP_RELEASE && (status == HF_OK || status == HF_LOST))
        held[claim] = false;
    if (op->kind == HFI_OP_LIST && status == HF_OK)
        MUST(job->cursor.len <= HFI_CURSOR_MAX);
    if (op->kind == HFI_OP_CELL_READ && status == HF_OK)
        hfi_free(op->u.cell.ret_bytes);
}

static bool on_name(struct hfi_sink *sink, const unsigned char *name, size_t len)
{
    (void)sink;
    for (size_t i = 0; i < len; i++) /* it can be read */
        (void)*((const volatile unsigned char *)name + i);
    return true;
}

static bool on_entry(struct hfi_sink *sink, const hf_entry *entry)
{
    (void)sink;
    MUST(entry->name || entry->name_len == 0);
    for (size_t i = 0; i < entry->name_len; i++) /* it can be read */
        (void)*((const volatile char *)entry->name + i);
    return true;
}

static bool on_holder(struct hfi_sink *sink, const hf_holder *holder)
{
    (void)sink;
    MUST(holder->slot_count <= HF_SLOTS_MAX);
    return strlen(holder->label) <= HF_LABEL_MAX;
}

static bool on_waiter(struct hfi_sink *sink, const hf_waiter *waiter)
{
    (void)sink;
    return strlen(waiter->label) <= HF_LABEL_MAX;
}

static struct hfi_name a_name(void)
{
    struct hfi_name name = { .bytes = (const unsigned char *)"job", .len = 3 };

    hfi_hash128(name.bytes, name.len, name.hash);
    return name;
}

static void fill_claim(struct hfi_claim *claim, uint8_t what)
{
    *claim = (struct hfi_claim){ .name = a_name(),
                                 .mode = what & 1   ? HFI_MODE_SEMAPHORE
                                         : what & 2 ? HFI_MODE_RW
                                                    : HFI_MODE_MUTEX,
                                 .capacity = what & 1   ? 3
                                             : what & 2 ? HFI_RW_MAX
                                                        : 1,
                                 .permits = 1,
                                 .tokens_wanted = what & 4 ? 4 : 1,
                                 .ttl_ms = 30000 };
    if (what & 8 && claim->mode == HFI_MODE_SEMAPHORE && promises->caps & HF_CAP_NUMBERED)
        claim->flags |= HFI_CLAIM_NUMBERED;
    memset(claim->owner, 0x11 * (int)(1 + (claim - claims)), HFI_OWNER_LEN);
}

/* false: this op makes no sense now. */
static bool fill(struct job *job, bool waits, uint8_t what)
{
    static const enum hfi_op_kind kinds[] = {
        HFI_OP_ACQUIRE, HFI_OP_ACQUIRE,      HFI_OP_RELEASE,   HFI_OP_RENEW,     HFI_OP_ADOPT,
        HFI_OP_LIST,    HFI_OP_BREAK,        HFI_OP_CELL_READ, HFI_OP_CELL_SWAP, HFI_OP_CELL_WAIT,
        HFI_OP_TIME,    HFI_OP_COUNTER,      HFI_OP_LIMIT,     HFI_OP_SCRIPT,    HFI_OP_ASK,
        HFI_OP_COUNT,   HFI_OP_CELLS_COMMIT, HFI_OP_RESIZE,
    };
    static struct hfi_sink sink = { on_name, on_entry, on_holder, on_waiter };
    static const hf_script_request script = { .size = sizeof script, .text = "return 1" };
    struct hfi_op *op = &job->op;
    size_t claim = what >> 6;

    memset(job, 0, sizeof *job);
    op->kind = kinds[what % (sizeof kinds / sizeof *kinds)];
    op->done = on_done;
    op->deadline_ms = hfi_now_ms() + 3000;
    switch (op->kind) {
    case HFI_OP_ACQUIRE:
    case HFI_OP_ADOPT:
        if (held[claim] || busy[claim])
            return false;
        fill_claim(&claims[claim], what >> 3);
        claims[claim].token = op->kind == HFI_OP_ADOPT ? 5 : 0;
        op->may_wait = op->blocking = waits && what & 0x20;
        op->claim = &claims[claim];
        busy[claim] = true;
        return op->kind == HFI_OP_ACQUIRE || promises->caps & HF_CAP_DETACHED ||
               (busy[claim] = false);
    case HFI_OP_RELEASE:
        op->claim = &claims[claim];
        if (!held[claim] || busy[claim])
            return false;
        busy[claim] = true;
        return true;
    case HFI_OP_RENEW:
        for (size_t i = 0; i < CLAIMS && op->u.renew.count < 2; i++)
            if (held[i] && !busy[i])
                job->renewals[op->u.renew.count++] =
                    (struct hfi_renewal){ .claim = &claims[i], .ttl_ms = 30000 };
        op->u.renew.items = job->renewals;
        return op->u.renew.count > 0;
    case HFI_OP_LIST:
    case HFI_OP_LOOK:
        if (what & 0x20) {
            job->cursor.len = 0;
            op->u.list.pattern = (const unsigned char *)"*";
            op->u.list.len = 1;
            op->u.list.cursor = &job->cursor;
            op->u.list.sink = &sink;
        } else {
            op->kind = HFI_OP_LOOK;
            op->u.look.name = a_name();
            op->u.look.sink = &sink;
        }
        return true;
    case HFI_OP_BREAK:
        op->u.brk.name = a_name();
        op->u.brk.token = 5;
        return true;
    case HFI_OP_COUNT:
        op->u.count.name = a_name();
        memset(op->u.count.owner, 0x11 * (int)(1 + claim), HFI_OWNER_LEN);
        op->u.count.holds = &claims[claim].holds;
        op->u.count.ttl_ms = 30000;
        return promises->counts;
    case HFI_OP_RESIZE:
        op->u.resize.name = a_name();
        op->u.resize.capacity = what >> 6;
        return promises->caps & HF_CAP_RESIZE;
    case HFI_OP_ASK:
        op->u.ask.name = a_name();
        op->u.ask.text = "please";
        return promises->caps & HF_CAP_WANTED;
    case HFI_OP_CELL_WAIT:
        op->u.cell.version = 1;
        op->may_wait = op->blocking = true;
        op->u.cell.name = a_name();
        return waits && promises->caps & HF_CAP_CELL_WATCH;
    case HFI_OP_CELL_READ:
    case HFI_OP_CELL_SWAP:
        op->u.cell.name = a_name();
        op->u.cell.bytes = what & 0x20 ? NULL : "v";
        op->u.cell.len = what & 0x20 ? 0 : 1;
        op->u.cell.version = what >> 6;
        return promises->caps & HF_CAP_CELLS && !(what & 0x20 && what >> 6 == 0);
    case HFI_OP_CELLS_COMMIT:
        for (size_t i = 0; i < 2; i++)
            job->items[i] =
                (struct hfi_commit_item){ .name = a_name(),
                                          .version = what >> 6,
                                          .action = i ? HF_CELL_ACTION_WRITE : HF_CELL_ACTION_LEAVE,
                                          .bytes = "v",
                                          .len = 1 };
        job->commit = (struct hfi_commit_op){ .count = 2, .items = job->items };
        job->items[1].name.bytes = (const unsigned char *)"jot";
        hfi_hash128(job->items[1].name.bytes, 3, job->items[1].name.hash);
        op->u.commit = &job->commit;
        return promises->caps & HF_CAP_COMMIT;
    case HFI_OP_TIME:
        op->u.time.name = a_name();
        return promises->caps & HF_CAP_CLOCK;
    case HFI_OP_COUNTER:
        job->counter = (struct hfi_counter_op){ .verb = what >> 6, .name = a_name(), .value = 1 };
        op->u.counter = &job->counter;
        return promises->native & HFI_NATIVE_COUNTER;
    case HFI_OP_LIMIT:
        MUST(!hfi_limit_rule(HF_LIMIT_ALGORITHM_SLIDING, 5, 1000000, 0, &job->limit.rule));
        job->limit.name = a_name();
        job->limit.ask = (struct hfi_limit_ask){ HFI_LIMIT_TAKE, 1, 1000, 0 };
        op->u.limit = &job->limit;
        return promises->native & HFI_NATIVE_LIMIT;
    case HFI_OP_SCRIPT:
        job->script = (struct hfi_script_op){ .script = &script };
        op->u.script = &job->script;
        return promises->caps & HF_CAP_SCRIPTS;
    case HFI_OP_CHANGE_WAIT: /* no engine that is fuzzed so tells of changes */
        break;
    }
    return false;
}

static void turn(const struct hfi_engine *engine, void *store)
{
    if (engine->drive->turn)
        engine->drive->turn(store, hfi_now_ms() + TURN_MS); /* a sleep takes no time: fake_link.c */
    else if (engine->drive->process)
        engine->drive->process(store, hfi_now_ms());
}

static void end_all(const struct hfi_engine *engine, void *store, size_t count)
{
    bool open = true;

    for (unsigned turns = 0; open && turns < TURNS_MAX; turns++) {
        open = false;
        turn(engine, store);
        for (size_t i = 0; i < count; i++) {
            open = open || !jobs[i].finished;
            if (turns < CANCEL_AT || jobs[i].finished || jobs[i].cancelled ||
                (jobs[i].op.kind != HFI_OP_ACQUIRE && jobs[i].op.kind != HFI_OP_CELL_WAIT))
                continue;
            jobs[i].cancelled = true;
            engine->cancel(store, &jobs[i].op, HF_CANCELLED);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!jobs[i].finished)
            fprintf(stderr, "op %zu, kind %d, was never finished\n", i, (int)jobs[i].op.kind);
        MUST(jobs[i].finished == 1);
    }
}

void fuzz_ops(const struct hfi_engine *engine, const char *url_text, bool waits,
              struct fuzz_input ops)
{
    struct hfi_host host = { .lost = on_lost,
                             .doubt = on_doubt,
                             .wake = on_wake,
                             .wanted = on_wanted,
                             .hears = on_hears,
                             .label = "fuzz",
                             .open_deadline_ms = hfi_now_ms() + 2000 };
    void *store = hfi_calloc(1, engine->store_size);
    struct hfi_conf *conf = NULL;
    struct hfi_url url;
    hf_error err = { .text = "" };
    size_t count = 0;

    MUST(store != NULL);
    MUST(hfi_url_parse(url_text, &url, &err) == HF_OK);
    memset(held, 0, sizeof held);
    memset(busy, 0, sizeof busy);
    MUST(hfi_conf_read(&url, engine->conf, &conf, &err) == HF_OK);
    host.location = conf->location;
    host.promises = engine->promises;
    if (engine->open(store, conf, &host, &err) == HF_OK) {
        promises = host.promises;
        while (ops.len > 0 && count < OPS_MAX) {
            uint8_t what = fuzz_byte(&ops);

            if (!fill(&jobs[count], waits, what))
                continue;
            engine->submit(store, &jobs[count++].op);
            for (unsigned turns = what & 1 ? TURNS_FEW : 0; turns > 0; turns--)
                turn(engine, store); /* else the next one comes while it is under way */
        }
        end_all(engine, store, count);
        for (size_t i = 0; i < count; i++)
            hf_free(jobs[i].script.ret_value);
        engine->close(store);
    }
    hfi_free(store);
    hfi_conf_free(conf);
    hfi_url_done(&url);
}
