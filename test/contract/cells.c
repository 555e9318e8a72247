/* SPDX-License-Identifier: MIT */
/*
 * Cells: bytes with a version. That reading, thinking and writing are one step for everybody else is
 * shown without any lock: threads and peers count in one cell, and no count may be lost.
 */
#include "both.h"

#include "calls.h"
#include "peer.h"

#include "prim/task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define PEERS   2
#define COUNTS  12 /* by each of them */

static hf_status put(hf_store *store, const char *name, const char *text, uint64_t *ret_version)
{
    return call_cell_set(store, name, HF_CSTRING, text, strlen(text), 0, ret_version,
                         &contract_error);
}

static hf_status cas(hf_store *store, uint64_t version, const char *text, uint64_t *ret_version)
{
    return call_cell_swap(store, "cell", HF_CSTRING, version, text, strlen(text), 0, ret_version,
                          &contract_error);
}

/* What is there; returns its version. NULL: nothing may be. */
static uint64_t expect_text(hf_store *store, const char *name, const char *text)
{
    hf_cell cell = HF_CELL_INIT;

    if (!text) {
        EXPECT(HF_NOT_FOUND, hf_cell_get(store, name, HF_CSTRING, &cell, &contract_error));
        CHECK(!cell.bytes && cell.version == 0);
        return 0;
    }
    EXPECT(HF_OK, hf_cell_get(store, name, HF_CSTRING, &cell, &contract_error));
    CHECK(cell.len == strlen(text) && strcmp(cell.bytes, text) == 0);
    CHECK(cell.version != 0);
    hf_free(cell.bytes);
    return cell.version;
}

static hf_status leave_it(const hf_cell *old, hf_cell_change *change, void *arg)
{
    (void)old;
    (void)change;
    (void)arg;
    return HF_OK;
}

static void needs_cells(void **state)
{
    hf_status want = has(HF_CAP_CELLS) ? HF_OK : HF_UNSUPPORTED;
    hf_store *store = open_store();
    hf_cell cell = HF_CELL_INIT;
    uint64_t version = 0;

    (void)state;
    EXPECT(want, put(store, "cell", "one", &version));
    EXPECT(want, hf_cell_get(store, "cell", HF_CSTRING, &cell, &contract_error));
    hf_free(cell.bytes);
    EXPECT(want, cas(store, version, "two", &version));
    EXPECT(want, call_cell_update(store, "cell", HF_CSTRING, leave_it, NULL, 0, NULL, &version,
                                  &contract_error));
    EXPECT(want, call_cell_wait(store, "cell", HF_CSTRING, version + 1, 0, NULL, &version,
                                &contract_error));
    EXPECT(has(HF_CAP_CELLS) ? HF_CHANGED : HF_UNSUPPORTED,
           hf_cell_delete(store, "cell", HF_CSTRING, version + 1, &contract_error));
    close_store(store);
}

static void any_bytes(void **state)
{
    hf_cell cell = HF_CELL_INIT;
    hf_store *store;
    char *large;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    expect_text(store, "cell", NULL);
    EXPECT(HF_OK, call_cell_set(store, "cell", HF_CSTRING, NULL, 0, 0, NULL, &contract_error));
    expect_text(store, "cell", ""); /* empty is not the same as absent */
    EXPECT(HF_OK, call_cell_set(store, "c\0d", 3, "a\0b", 3, 0, NULL, &contract_error));
    EXPECT(HF_OK, hf_cell_get(store, "c\0d", 3, &cell, &contract_error));
    CHECK(cell.len == 3 && memcmp(cell.bytes, "a\0b", 4) == 0 && cell.ttl_ms == -1);
    hf_free(cell.bytes);
    expect_text(store, "c", NULL);

    large = malloc(HF_CELL_MAX + 1);
    memset(large, 0xfe, HF_CELL_MAX + 1);
    EXPECT(HF_OK,
           call_cell_set(store, "cell", HF_CSTRING, large, HF_CELL_MAX, 0, NULL, &contract_error));
    EXPECT(HF_OK, hf_cell_get(store, "cell", HF_CSTRING, &cell, &contract_error));
    CHECK(cell.len == HF_CELL_MAX && memcmp(cell.bytes, large, cell.len) == 0);
    hf_free(cell.bytes);
    free(large);
    close_store(store);
}

static void versions_decide(void **state)
{
    uint64_t first = 0, second = 0, third = 0;
    hf_store *store, *other;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    other = open_store();
    EXPECT(HF_CHANGED, cas(store, 7, "seven", &first)); /* there is none */
    CHECK(strstr(contract_error.text, "cell") && strchr(contract_error.text, '7'));
    EXPECT(HF_OK, cas(store, 0, "first", &first));
    CHECK(expect_text(other, "cell", "first") == first);
    EXPECT(HF_CHANGED, cas(other, 0, "first, again", &second));
    CHECK(second == 0);
    EXPECT(HF_OK, cas(other, first, "second", &second));
    CHECK(second != first);
    EXPECT(HF_CHANGED, cas(store, first, "late", &third));
    EXPECT(HF_CHANGED, hf_cell_delete(store, "cell", HF_CSTRING, first, &contract_error));
    CHECK(expect_text(store, "cell", "second") == second);
    EXPECT(HF_OK, hf_cell_delete(store, "cell", HF_CSTRING, second, &contract_error));
    EXPECT(HF_CHANGED, hf_cell_delete(store, "cell", HF_CSTRING, second, &contract_error));
    expect_text(other, "cell", NULL);

    /* Made again: none of its old versions is ever valid. */
    EXPECT(HF_OK, cas(store, 0, "first", &third));
    CHECK(third != first && third != second);
    EXPECT(HF_CHANGED, cas(other, first, "late", NULL));
    EXPECT(HF_CHANGED, cas(other, second, "late", NULL));
    EXPECT(HF_OK, put(other, "cell", "whatever was there", &second));
    CHECK(second != third);
    EXPECT(HF_CHANGED, cas(store, third, "late", NULL));
    expect_text(store, "cell", "whatever was there");
    close_store(other);
    close_store(store);
}

static void kinds_are_apart(void **state)
{
    hf_cell cell = HF_CELL_INIT;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    EXPECT(HF_OK, hf_guard_set(store, "thing", HF_CSTRING, 5, "five", 4, &contract_error));
    EXPECT(HF_MISMATCH, hf_cell_get(store, "thing", HF_CSTRING, &cell, &contract_error));
    EXPECT(HF_MISMATCH, put(store, "thing", "mine", NULL));
    EXPECT(HF_MISMATCH, call_cell_update(store, "thing", HF_CSTRING, leave_it, NULL, 0, NULL, NULL,
                                         &contract_error));
    EXPECT(HF_OK, put(store, "cell", "mine", NULL));
    EXPECT(HF_MISMATCH, hf_guard_claim(store, "cell", HF_CSTRING, 9, NULL, NULL, &contract_error));
    EXPECT(HF_OK, hf_guard_claim(store, "thing", HF_CSTRING, 5, NULL, NULL, &contract_error));
    close_store(store);
}

/* ---- updating --------------------------------------------------------------------- */

/* What the callback finds, wants and does. */
struct wish {
    hf_cell_action action;
    const char *text; /* WRITE */
    hf_status status;
    hf_store *rival; /* writes between our read and our write, `spoils` times */
    int spoils;
    hf_cancel *cancel; /* fired by the way */
    int calls;
    char seen[32];
};

static hf_status decide(const hf_cell *old, hf_cell_change *change, void *arg)
{
    struct wish *wish = arg;

    wish->calls++;
    CHECK(old->bytes ? old->version != 0 : old->version == 0 && old->len == 0);
    CHECK(change->action == HF_CELL_ACTION_LEAVE);
    snprintf(wish->seen, sizeof wish->seen, "%s", old->bytes ? (const char *)old->bytes : "-");
    if (wish->rival && wish->calls <= wish->spoils)
        EXPECT(HF_OK, put(wish->rival, "cell", "rival", NULL));
    if (wish->cancel)
        EXPECT(HF_OK, hf_cancel_fire(wish->cancel));
    change->action = wish->action;
    change->bytes = wish->text;
    change->len = wish->text ? strlen(wish->text) : 0;
    return wish->status;
}

static hf_status update(hf_store *store, struct wish *wish, int64_t wait_ms, uint64_t *ret_version)
{
    wish->calls = 0;
    return call_cell_update(store, "cell", HF_CSTRING, decide, wish, wait_ms, wish->cancel,
                            ret_version, &contract_error);
}

static void an_update_does_what_it_says(void **state)
{
    struct wish write = { .action = HF_CELL_ACTION_WRITE, .text = "made" };
    struct wish leave = { .action = HF_CELL_ACTION_LEAVE, .text = "never" };
    struct wish refuse = { .action = HF_CELL_ACTION_WRITE, .text = "never", .status = HF_BUSY };
    struct wish delete = { .action = HF_CELL_ACTION_DELETE };
    struct wish wrong = { .action = (hf_cell_action)9 };
    uint64_t version = 9;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    EXPECT(HF_OK, update(store, &leave, 0, &version));
    CHECK(version == 0 && strcmp(leave.seen, "-") == 0);
    EXPECT(HF_OK, update(store, &delete, 0, &version));
    CHECK(version == 0);
    EXPECT(HF_OK, update(store, &write, 0, &version));
    CHECK(write.calls == 1 && expect_text(store, "cell", "made") == version);
    EXPECT(HF_OK, update(store, &leave, 0, &version));
    CHECK(strcmp(leave.seen, "made") == 0 && expect_text(store, "cell", "made") == version);
    EXPECT(HF_BUSY, update(store, &refuse, LIMIT_MS, NULL)); /* the callback's status, not ours */
    CHECK(refuse.calls == 1 && strstr(contract_error.text, "refused"));
    EXPECT(HF_INVALID, update(store, &wrong, LIMIT_MS, NULL));
    CHECK(expect_text(store, "cell", "made") == version);
    EXPECT(HF_OK, update(store, &delete, 0, &version));
    CHECK(version == 0);
    expect_text(store, "cell", NULL);
    close_store(store);
}

static hf_status close_from_within(const hf_cell *old, hf_cell_change *change, void *arg)
{
    (void)old;
    (void)change;
    EXPECT(HF_IN_USE, hf_close(arg, HF_CLOSE_FLAG_RELEASE));
    return HF_OK;
}

static void an_update_begins_again(void **state)
{
    struct wish wish = { .action = HF_CELL_ACTION_WRITE, .text = "ours", .spoils = 1 };
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    wish.rival = open_store();
    EXPECT(HF_BUSY, update(store, &wish, 0, NULL));
    CHECK(wish.calls == 1);
    expect_text(store, "cell", "rival");
    wish.spoils = 3;
    EXPECT(HF_OK, update(store, &wish, LIMIT_MS, NULL));
    CHECK(wish.calls == 4 && strcmp(wish.seen, "rival") == 0);
    expect_text(store, "cell", "ours");
    wish.spoils = 1000000;
    EXPECT(HF_TIMEOUT, update(store, &wish, 50, NULL));
    expect_text(store, "cell", "rival");
    EXPECT(HF_OK, hf_cancel_open(&wish.cancel));
    EXPECT(HF_CANCELLED, update(store, &wish, HF_FOREVER, NULL));
    /* The asynchronous form may have begun again before it hears of it. */
    CHECK(wish.calls == 1 || (contract_pumped && wish.calls > 1));
    EXPECT(HF_CANCELLED, update(store, &wish, HF_FOREVER, NULL));
    CHECK(wish.calls == 0);
    EXPECT(HF_OK, hf_cancel_close(wish.cancel));
    EXPECT(HF_OK, call_cell_update(store, "cell", HF_CSTRING, close_from_within, store, 0, NULL,
                                   NULL, &contract_error));
    close_store(wish.rival);
    close_store(store);
}

static void *count_thread(void *arg)
{
    EXPECT(HF_OK, peer_count_here(arg, "sum", COUNTS));
    return NULL;
}

static void no_count_is_lost(void **state)
{
    pthread_t threads[THREADS];
    struct peer peers[PEERS];
    hf_store *stores[2];
    char text[16];

    (void)state;
    NEEDS(HF_CAP_CELLS);
    stores[0] = open_store();
    stores[1] = open_store();
    for (int i = 0; i < PEERS; i++) {
        peer_start(&peers[i]);
        peer_count(&peers[i], "sum", COUNTS);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, count_thread, stores[i % 2]) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < PEERS; i++) {
        peer_idle(&peers[i]);
        peer_stop(&peers[i]);
    }
    snprintf(text, sizeof text, "%d", (THREADS + PEERS) * COUNTS);
    expect_text(stores[0], "sum", text);
    close_store(stores[1]);
    close_store(stores[0]);
}

/* ---- waiting ---------------------------------------------------------------------- */

struct watcher {
    hf_store *store;
    uint64_t version, now;
    hf_cancel *cancel;
    hf_status status;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static void *watcher_run(void *arg)
{
    struct watcher *watcher = arg;

    watcher->tid = thread_id();
    watcher->status = call_cell_wait(watcher->store, "cell", HF_CSTRING, watcher->version,
                                     watcher->cancel ? HF_FOREVER : LIMIT_MS, watcher->cancel,
                                     &watcher->now, &contract_error);
    watcher->ended = true;
    return NULL;
}

static void watcher_start(struct watcher *watcher)
{
    watcher->ended = false;
    watcher->tid = 0;
    watcher->now = UINT64_MAX;
    CHECK(pthread_create(&watcher->thread, NULL, watcher_run, watcher) == 0);
    AWAIT(watcher->tid != 0);
}

static hf_status watcher_join(struct watcher *watcher)
{
    CHECK(pthread_join(watcher->thread, NULL) == 0);
    return watcher->status;
}

static void every_change_is_told(void **state)
{
    struct watcher first = { .version = 0 }, second;
    uint64_t version = 9;
    struct peer peer;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    first.store = open_store();
    second = first;
    second.store = open_store();
    peer_start(&peer);
    EXPECT(HF_TIMEOUT, call_cell_wait(first.store, "cell", HF_CSTRING, 0, 100, NULL, &version,
                                      &contract_error));
    EXPECT(HF_TIMEOUT,
           call_cell_wait(first.store, "cell", HF_CSTRING, 0, 0, NULL, &version, &contract_error));
    CHECK(version == 9);
    for (int i = 0; i < 3; i++) { /* made, written, deleted; each by another client */
        watcher_start(&first);
        watcher_start(&second);
        others_settled();
        CHECK(!first.ended && !second.ended);
        EXPECT(HF_OK, put(first.store, "other", "not this one", NULL));
        EXPECT(HF_OK, peer_put(&peer, "cell", i == 2 ? NULL : "peer"));
        EXPECT(HF_OK, watcher_join(&first));
        EXPECT(HF_OK, watcher_join(&second));
        CHECK(first.now != first.version && first.now == second.now);
        CHECK(first.now == expect_text(first.store, "cell", i == 2 ? NULL : "peer"));
        second.version = first.version = first.now;
    }
    EXPECT(HF_OK, put(first.store, "cell", "before the call", &version));
    EXPECT(HF_OK, call_cell_wait(first.store, "cell", HF_CSTRING, 0, HF_FOREVER, NULL, &first.now,
                                 &contract_error));
    CHECK(first.now == version);
    peer_stop(&peer);
    close_store(second.store);
    close_store(first.store);
}

static void a_wait_can_be_ended(void **state)
{
    struct watcher watcher = { .version = 0 };
    uint64_t version;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    watcher.store = open_store();
    EXPECT(HF_OK, hf_cancel_open(&watcher.cancel));
    EXPECT(HF_OK, put(watcher.store, "cell", "x", &watcher.version));
    watcher_start(&watcher);
    others_settled();
    EXPECT(HF_OK, hf_cancel_fire(watcher.cancel));
    EXPECT(HF_CANCELLED, watcher_join(&watcher));
    EXPECT(HF_CANCELLED, call_cell_wait(watcher.store, "cell", HF_CSTRING, watcher.version,
                                        HF_FOREVER, watcher.cancel, &version, &contract_error));
    EXPECT(HF_OK, hf_cancel_close(watcher.cancel));

    EXPECT(HF_OK, hf_cancel_open(&watcher.cancel)); /* for ever, but not fired */
    watcher_start(&watcher);
    others_settled();
    EXPECT(HF_IN_USE, hf_close(watcher.store, 0));
    EXPECT(HF_OK, hf_close(watcher.store, HF_CLOSE_FLAG_RELEASE));
    EXPECT(HF_CANCELLED, watcher_join(&watcher));
    CHECK(watcher.now == UINT64_MAX);
    EXPECT(HF_OK, hf_cancel_close(watcher.cancel));
}

/* ---- time ------------------------------------------------------------------------- */

/* A cell as hf_cell_set() makes it, but shorter than that lets it be: the store's contract has no least ttl. */
static uint64_t put_short(hf_store *store, const char *name, int64_t ttl_ms)
{
    struct hfi_prim_task task;

    hfi_prim_task_init_act(&task, HFI_ACT_SWAP);
    task.action.bytes = "C1short";
    task.action.len = 7;
    task.action.ttl_ms = ttl_ms;
    EXPECT(HF_OK, hfi_prim_enter(&task.prim, store, "write", name, HF_CSTRING, HF_CAP_CELL_TTL,
                                 &contract_error));
    EXPECT(HF_OK, hfi_prim_task_run(&task, &contract_error));
    return task.action.version;
}

static void a_ttl_is_told_and_taken_back(void **state)
{
    hf_cell cell = HF_CELL_INIT;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    if (!has(HF_CAP_CELL_TTL)) {
        EXPECT(HF_UNSUPPORTED,
               call_cell_set(store, "cell", HF_CSTRING, "x", 1, 1000, NULL, &contract_error));
        CHECK(strncmp(contract_error.text, "ttl_ms", 6) == 0);
        close_store(store);
        return;
    }
    EXPECT(HF_OK, call_cell_set(store, "cell", HF_CSTRING, "x", 1, 3600000, NULL, &contract_error));
    EXPECT(HF_OK, hf_cell_get(store, "cell", HF_CSTRING, &cell, &contract_error));
    CHECK(cell.ttl_ms > 3600000 - 2 * LIMIT_MS && cell.ttl_ms <= 3600000 + 5000);
    hf_free(cell.bytes);
    EXPECT(HF_OK, put(store, "cell", "y", NULL));
    EXPECT(HF_OK, hf_cell_get(store, "cell", HF_CSTRING, &cell, &contract_error));
    CHECK(cell.ttl_ms == -1);
    hf_free(cell.bytes);
    close_store(store);
}

static void a_ttl_ends(void **state)
{
    struct watcher watcher = { .version = 0 };
    int64_t begin_ms = now_ms();

    (void)state;
    NEEDS(HF_CAP_CELLS | HF_CAP_CELL_TTL);
    watcher.store = open_store();
    put_short(watcher.store, "kept", 200);
    EXPECT(HF_OK, put(watcher.store, "kept", "kept", NULL));
    watcher.version = put_short(watcher.store, "cell", 200);
    CHECK(pthread_create(&watcher.thread, NULL, watcher_run, &watcher) == 0);
    EXPECT(HF_OK, watcher_join(&watcher));
    CHECK(watcher.now == 0 && now_ms() - begin_ms >= 200 - 20);
    expect_text(watcher.store, "cell", NULL);
    EXPECT(HF_CHANGED, cas(watcher.store, watcher.version, "late", NULL));
    EXPECT(HF_OK, cas(watcher.store, 0, "new", &watcher.now));
    CHECK(watcher.now != watcher.version);
    expect_text(watcher.store, "kept", "kept");
    close_store(watcher.store);
}

/* The store's clock, by a task of its own. */
static hf_status read_clock(hf_store *store, int64_t *ret_us)
{
    struct hfi_prim_task task;
    hf_status status;

    hfi_prim_task_init_act(&task, HFI_ACT_TIME);
    status = hfi_prim_enter(&task.prim, store, "look at the clock", "cell", HF_CSTRING,
                            HF_CAP_CLOCK, &contract_error);
    if (status == HF_OK)
        status = hfi_prim_task_run(&task, &contract_error);
    *ret_us = task.action.now_us;
    return status;
}

/* For the primitives that need one: it is that of the store, and goes on. */
static void the_clock_goes_on(void **state)
{
    hf_store *store = open_store();
    int64_t first_us = 0, second_us = 0;
    hf_status status = read_clock(store, &first_us);

    (void)state;
    EXPECT(has(HF_CAP_CLOCK) ? HF_OK : HF_UNSUPPORTED, status);
    if (status == HF_OK) {
        nap_ms(3);
        EXPECT(HF_OK, read_clock(store, &second_us));
        CHECK(first_us > INT64_C(1600000000) * 1000000); /* September 2020 */
        CHECK(second_us - first_us >= 1000 && second_us - first_us < INT64_C(3600) * 1000000);
    }
    close_store(store);
}

static void bad_arguments_are_named(void **state)
{
    static const char large[HF_CELL_MAX + 1];
    hf_cell cell = HF_CELL_INIT;
    hf_store *store;

#define NAMED(field) CHECK(strncmp(contract_error.text, field ":", strlen(field) + 1) == 0)
    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    EXPECT(HF_INVALID, put(NULL, "cell", "x", NULL));
    NAMED("store");
    EXPECT(HF_INVALID, hf_cell_get(store, "", HF_CSTRING, &cell, &contract_error));
    NAMED("name");
    EXPECT(HF_INVALID, hf_cell_get(store, "cell", HF_CSTRING, NULL, &contract_error));
    NAMED("ret_cell");
    cell.size = 8;
    EXPECT(HF_INVALID, hf_cell_get(store, "cell", HF_CSTRING, &cell, &contract_error));
    NAMED("size");
    EXPECT(HF_INVALID, call_cell_set(store, "cell", HF_CSTRING, NULL, 1, 0, NULL, &contract_error));
    NAMED("bytes");
    EXPECT(HF_INVALID, call_cell_swap(store, "cell", HF_CSTRING, 0, large, sizeof large, 0, NULL,
                                      &contract_error));
    NAMED("len");
    EXPECT(HF_INVALID, call_cell_set(store, "cell", HF_CSTRING, "x", 1, -1, NULL, &contract_error));
    NAMED("ttl_ms");
    EXPECT(HF_INVALID,
           call_cell_set(store, "cell", HF_CSTRING, "x", 1, 999, NULL, &contract_error));
    EXPECT(HF_INVALID, call_cell_set(store, "cell", HF_CSTRING, "x", 1, HF_DURATION_MAX_MS + 1,
                                     NULL, &contract_error));
    EXPECT(HF_INVALID, hf_cell_delete(store, "cell", HF_CSTRING, 0, &contract_error));
    NAMED("version");
    EXPECT(HF_INVALID,
           call_cell_update(store, "cell", HF_CSTRING, NULL, NULL, 0, NULL, NULL, &contract_error));
    NAMED("fn");
    EXPECT(HF_INVALID, call_cell_update(store, "cell", HF_CSTRING, leave_it, NULL, -2, NULL, NULL,
                                        &contract_error));
    NAMED("wait_ms");
    EXPECT(HF_INVALID, call_cell_update(store, "cell", HF_CSTRING, leave_it, NULL, 0,
                                        (hf_cancel *)store, NULL, &contract_error));
    NAMED("cancel");
    EXPECT(HF_INVALID,
           call_cell_wait(store, "cell", HF_CSTRING, 0, -2, NULL, NULL, &contract_error));
    NAMED("wait_ms");
    EXPECT(HF_INVALID, call_cell_wait(store, "cell", HF_CSTRING, 0, 0, (hf_cancel *)store, NULL,
                                      &contract_error));
    NAMED("cancel");
    hf_free(NULL);
    expect_text(store, "cell", NULL); /* nothing of all this has been there */
    close_store(store);
#undef NAMED
}

int contract_cells(void)
{
    const struct CMUnitTest cases[] = {
        CASE(needs_cells),
        CASE(any_bytes),
        CASE(versions_decide),
        CASE(kinds_are_apart),
        CASE(an_update_does_what_it_says),
        CASE(an_update_begins_again),
        CASE(no_count_is_lost),
        CASE(every_change_is_told),
        CASE(a_wait_can_be_ended),
        CASE(a_ttl_is_told_and_taken_back),
        CASE(a_ttl_ends),
        CASE(the_clock_goes_on),
        CASE(bad_arguments_are_named),
    };

    return cmocka_run_group_tests_name("cells", cases, NULL, NULL);
}
