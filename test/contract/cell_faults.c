/* SPDX-License-Identifier: MIT */
/*
 * Faults of the network for cells: a write without an answer is reported as HF_UNKNOWN and not sent
 * again, and a late copy of it does no harm; a wait outlives a broken connection. And a wait uses
 * events where there are any. On the engines in memory, whose network the test controls.
 */
#include "contract.h"

#include "calls.h"
#include "holdfast/primitives.h"
#include "mem_engine.h"

#include <stdio.h>
#include <string.h>

/* The server's name: the text between "memevent:" and "?". */
static hf_status cas(hf_store *store, uint64_t version, const char *text, uint64_t *ret_version)
{
    return call_cell_swap(store, "cell", HF_CSTRING, version, text, strlen(text), 0, ret_version,
                          &contract_error);
}

static void expect_text(hf_store *store, const char *text)
{
    hf_cell cell = HF_CELL_INIT;

    EXPECT(HF_OK, hf_cell_get(store, "cell", HF_CSTRING, &cell, &contract_error));
    CHECK(strcmp(cell.bytes, text) == 0);
    hf_free(cell.bytes);
}

static void a_write_may_be_unknown(void **state)
{
    hf_store *store = open_store();
    uint64_t version, kept = 7;

    (void)state;
    EXPECT(HF_OK, cas(store, 0, "first", &version));
    mem_fault(contract_server(), MEM_LOSE_REQUEST, MEM_CELL_SWAP, 1, 0);
    EXPECT(HF_UNKNOWN, cas(store, version, "never", &kept));
    CHECK(kept == 7);
    expect_text(store, "first");
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_CELL_SWAP, 1, 0);
    EXPECT(HF_UNKNOWN, cas(store, version, "second", &kept));
    CHECK(kept == 7);
    expect_text(store, "second");
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_CELL_SWAP, 1, 0);
    EXPECT(HF_UNKNOWN,
           call_cell_set(store, "cell", HF_CSTRING, "third", 5, 0, NULL, &contract_error));
    expect_text(store, "third");
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_CELL_READ, 1, 0); /* a read changes nothing */
    EXPECT(HF_UNAVAILABLE,
           call_cell_set(store, "cell", HF_CSTRING, "fourth", 6, 0, NULL, &contract_error));
    expect_text(store, "third");
    close_store(store);
}

/* What is late comes when the line is used. */
static unsigned long swaps(hf_store *store)
{
    hf_cell cell = HF_CELL_INIT;

    EXPECT(HF_OK, hf_cell_get(store, "cell", HF_CSTRING, &cell, &contract_error));
    hf_free(cell.bytes);
    return mem_count(contract_server(), MEM_CELL_SWAP);
}

/* It arrives after another client has written: it finds another version. */
static void a_late_write_does_nothing(void **state)
{
    hf_store *store = open_store();
    unsigned long before;
    hf_status status;
    uint64_t version;

    (void)state;
    EXPECT(HF_OK, cas(store, 0, "first", &version));
    do { /* a machine that is stopped for this long sees the answer first */
        before = mem_count(contract_server(), MEM_CELL_SWAP);
        mem_fault(contract_server(), MEM_DELAY_REQUEST, MEM_CELL_SWAP, 1, 100);
        status = cas(store, version, "late", &version);
    } while (status == HF_OK);
    EXPECT(HF_UNKNOWN, status);
    EXPECT(HF_OK, cas(store, version, "second", NULL));
    AWAIT(swaps(store) == before + 2);
    expect_text(store, "second");
    close_store(store);
}

static hf_status raise_it(const hf_cell *old, hf_cell_change *change, void *arg)
{
    ++*(int *)arg;
    change->action = HF_CELL_ACTION_WRITE;
    change->bytes = old->bytes && *(char *)old->bytes == '1' ? "2" : "1";
    change->len = 1;
    return HF_OK;
}

/* Once more could be once too often. */
static void an_unknown_update_is_not_repeated(void **state)
{
    hf_store *store = open_store();
    int calls = 0;

    (void)state;
    mem_fault(contract_server(), MEM_LOSE_REPLY, MEM_CELL_SWAP, 1, 0);
    EXPECT(HF_UNKNOWN, call_cell_update(store, "cell", HF_CSTRING, raise_it, &calls, LIMIT_MS, NULL,
                                        NULL, &contract_error));
    CHECK(calls == 1 && mem_count(contract_server(), MEM_CELL_SWAP) == 1);
    expect_text(store, "1");
    close_store(store);
}

/* ---- waiting ------------------------------------------------------------------------- */

struct watcher {
    hf_store *store;
    uint64_t version, now;
    hf_status status;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static void *watcher_run(void *arg)
{
    struct watcher *watcher = arg;

    watcher->tid = thread_id();
    watcher->status = call_cell_wait(watcher->store, "cell", HF_CSTRING, watcher->version, LIMIT_MS,
                                     NULL, &watcher->now, &contract_error);
    watcher->ended = true;
    return NULL;
}

static void watcher_start(struct watcher *watcher, hf_store *store)
{
    *watcher = (struct watcher){ .store = store };
    EXPECT(HF_OK, cas(store, 0, "first", &watcher->version));
    CHECK(pthread_create(&watcher->thread, NULL, watcher_run, watcher) == 0);
    thread_settled(&watcher->tid, &watcher->ended);
}

static void watcher_told(struct watcher *watcher, uint64_t version)
{
    CHECK(pthread_join(watcher->thread, NULL) == 0);
    EXPECT(HF_OK, watcher->status);
    CHECK(watcher->now == version);
}

static void a_wait_outlives_its_line(void **state)
{
    hf_store *store = open_store();
    struct watcher watcher;
    uint64_t version;

    (void)state;
    watcher_start(&watcher, store);
    mem_cut(contract_server(), true);
    EXPECT(HF_UNAVAILABLE, cas(store, watcher.version, "second", &version));
    EXPECT(HF_UNAVAILABLE, call_cell_wait(store, "cell", HF_CSTRING, watcher.version, 50, NULL,
                                          NULL, &contract_error)); /* nothing is known at its end */
    thread_settled(&watcher.tid, &watcher.ended);                  /* it has noticed, too */
    CHECK(!watcher.ended);
    mem_cut(contract_server(), false);
    EXPECT(HF_OK, cas(store, watcher.version, "second", &version));
    watcher_told(&watcher, version);
    close_store(store);
}

static void a_lost_message_is_made_up_for(void **state)
{
    hf_store *store = open_store();
    struct watcher watcher;
    uint64_t version;

    (void)state;
    watcher_start(&watcher, store);
    mem_fault(contract_server(), MEM_LOSE_PUSH, MEM_VERBS, 1, 0);
    EXPECT(HF_OK, cas(store, watcher.version, "second", &version));
    watcher_told(&watcher, version);
    close_store(store);
}

/* With an event the cell is not read once; without, it is, and not often. */
static void waiting_reads_only_where_it_must(void **state)
{
    hf_store *store = open_store(), *bare;
    char url[160];

    (void)state;
    snprintf(url, sizeof url, "membare:%s?call=50ms", contract_server());
    EXPECT(HF_OK, hf_open(url, NULL, &bare, &contract_error));
    EXPECT(HF_TIMEOUT,
           call_cell_wait(store, "cell", HF_CSTRING, 0, 150, NULL, NULL, &contract_error));
    CHECK(mem_count(contract_server(), MEM_CELL_READ) == 0);
    EXPECT(HF_TIMEOUT,
           call_cell_wait(bare, "cell", HF_CSTRING, 0, 150, NULL, NULL, &contract_error));
    CHECK(mem_count(contract_server(), MEM_CELL_READ) >= 2 &&
          mem_count(contract_server(), MEM_CELL_READ) <= 20);
    close_store(bare);
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        CASE(a_write_may_be_unknown),
        CASE(a_late_write_does_nothing),
        CASE(an_unknown_update_is_not_repeated),
        CASE(a_wait_outlives_its_line),
        CASE(a_lost_message_is_made_up_for),
        CASE(waiting_reads_only_where_it_must),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    contract_begin("memevent:{id}?call=50ms", false);
    return cmocka_run_group_tests_name("cell_faults", cases, NULL, NULL) ? 1 : 0;
}
