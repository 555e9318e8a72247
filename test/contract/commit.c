/* SPDX-License-Identifier: MIT */
/* Several cells in one step: what is done, what is refused, and who is told. */
#include "commit.h"

#include <stdio.h>

static void needs_transactions(void **state)
{
    hf_store *store = open_store();
    uint64_t versions[2] = { 7, 7 };

    (void)state;
    if (has(HF_CAP_COMMIT)) {
        EXPECT(HF_OK, COMMIT(store, versions, NULL, WRITE("a", 0, "1"), WRITE("b", 0, "2")));
        CHECK(expect_text(store, "a", "1") == versions[0]);
        CHECK(expect_text(store, "b", "2") == versions[1]);
    } else {
        EXPECT(HF_UNSUPPORTED, COMMIT(store, versions, NULL, WRITE("a", 0, "1")));
        CHECK(strstr(contract_error.text, contract_info.engine));
        CHECK(strstr(contract_error.text, "transactions") || strstr(contract_error.text, "cells"));
        CHECK(versions[0] == 7);
    }
    close_store(store);
}

static void all_or_nothing(void **state)
{
    uint64_t first[3], second[3], kept[3] = { 7, 7, 7 };
    hf_store *store, *other;
    size_t index = 9;

    (void)state;
    NEEDS(HF_CAP_COMMIT);
    store = open_store();
    other = open_store();
    EXPECT(HF_OK,
           COMMIT(store, first, &index, WRITE("c", 0, "3"), WRITE("a", 0, "1"), WRITE("b", 0, "")));
    CHECK(index == 9);
    CHECK(expect_text(other, "c", "3") == first[0] && expect_text(other, "a", "1") == first[1] &&
          expect_text(other, "b", "") == first[2]);

    /* The list is not in the order of the names, and the answer is in that of the list. */
    EXPECT(HF_OK, COMMIT(other, second, NULL, WRITE("c", first[0], "33"), REMOVE("b", first[2]),
                         ASSERT("a", first[1])));
    CHECK(expect_text(store, "c", "33") == second[0] && second[0] != first[0]);
    CHECK(second[1] == 0 && second[2] == first[1]);
    expect_text(store, "b", NULL);

    EXPECT(HF_CHANGED, COMMIT(store, kept, &index, WRITE("a", first[1], "lost"),
                              WRITE("c", first[0], "lost"), WRITE("new", 0, "lost")));
    CHECK(index == 1 && kept[1] == second[0] && kept[0] == 7 && kept[2] == 7);
    CHECK(strstr(contract_error.text, "items[1]") && strstr(contract_error.text, "'c'"));
    EXPECT(HF_CHANGED, COMMIT(store, kept, &index, REMOVE("b", first[2]), WRITE("a", 0, "lost")));
    CHECK(index == 0 && kept[0] == 0 && strstr(contract_error.text, "does not exist"));
    EXPECT(HF_CHANGED, COMMIT(store, kept, &index, ASSERT("b", 0), WRITE("a", 0, "lost")));
    CHECK(index == 1 && kept[1] == first[1] && strstr(contract_error.text, "exists"));
    CHECK(expect_text(store, "a", "1") == first[1]);
    CHECK(expect_text(store, "c", "33") == second[0]);
    expect_text(store, "new", NULL);
    expect_text(store, "b", NULL);
    close_store(other);
    close_store(store);
}

/* The same commit again is not a second one; a cell that was made again has none of its old versions. */
static void a_version_never_comes_back(void **state)
{
    uint64_t first[2], second[2];
    hf_store *store;
    size_t index;

    (void)state;
    NEEDS(HF_CAP_COMMIT);
    store = open_store();
    EXPECT(HF_OK, COMMIT(store, first, NULL, WRITE("a", 0, "1"), WRITE("b", 0, "1")));
    EXPECT(HF_OK,
           COMMIT(store, second, NULL, WRITE("a", first[0], "2"), WRITE("b", first[1], "2")));
    EXPECT(HF_CHANGED,
           COMMIT(store, NULL, NULL, WRITE("a", first[0], "2"), WRITE("b", first[1], "2")));
    EXPECT(HF_OK, COMMIT(store, NULL, NULL, REMOVE("a", second[0]), REMOVE("b", second[1])));
    EXPECT(HF_OK, COMMIT(store, second, NULL, WRITE("a", 0, "1"), WRITE("b", 0, "1")));
    CHECK(second[0] != first[0] && second[1] != first[1]);
    EXPECT(HF_CHANGED,
           COMMIT(store, NULL, &index, ASSERT("a", second[0]), WRITE("b", first[1], "2")));
    CHECK(index == 1);
    EXPECT(HF_OK, call_cell_swap(store, "a", HF_CSTRING, second[0], "swapped", 7, 0, &first[0],
                                 &contract_error));
    EXPECT(HF_CHANGED, COMMIT(store, NULL, &index, ASSERT("b", second[1]), ASSERT("a", second[0])));
    CHECK(index == 1);
    EXPECT(HF_OK, COMMIT(store, second, NULL, ASSERT("b", second[1]), ASSERT("a", first[0])));
    CHECK(second[1] == first[0]);
    EXPECT(HF_CHANGED, COMMIT(store, NULL, &index, ASSERT("none", UINT64_MAX - 1)));
    close_store(store);
}

static void any_version(void **state)
{
    uint64_t versions[3];
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_COMMIT);
    store = open_store();
    EXPECT(HF_OK, COMMIT(store, versions, NULL, WRITE("a", HF_CELL_ANY, "1"),
                         REMOVE("b", HF_CELL_ANY), ASSERT("c", 0)));
    CHECK(expect_text(store, "a", "1") == versions[0] && versions[1] == 0 && versions[2] == 0);
    EXPECT(HF_OK,
           COMMIT(store, versions, NULL, WRITE("b", HF_CELL_ANY, "2"), REMOVE("a", HF_CELL_ANY)));
    CHECK(expect_text(store, "b", "2") == versions[0] && versions[1] == 0);
    expect_text(store, "a", NULL);
    EXPECT(HF_CHANGED, COMMIT(store, versions, NULL, WRITE("b", HF_CELL_ANY, "lost"),
                              ASSERT("c", versions[0])));
    expect_text(store, "b", "2");

    /* A cell of another primitive is never written over. */
    EXPECT(HF_OK, hf_guard_set(store, "thing", HF_CSTRING, 5, "five", 4, &contract_error));
    EXPECT(HF_MISMATCH, COMMIT(store, versions, NULL, WRITE("b", HF_CELL_ANY, "lost"),
                               WRITE("thing", HF_CELL_ANY, "lost")));
    CHECK(strstr(contract_error.text, "thing"));
    EXPECT(HF_MISMATCH, COMMIT(store, versions, NULL, REMOVE("thing", HF_CELL_ANY)));
    EXPECT(HF_CHANGED, COMMIT(store, versions, NULL, WRITE("thing", 0, "lost")));
    expect_text(store, "b", "2");
    EXPECT(HF_OK, hf_guard_claim(store, "thing", HF_CSTRING, 5, NULL, NULL, &contract_error));
    close_store(store);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(hf_store *store, const char *words, const char *more, hf_cell_item bad)
{
    EXPECT(HF_INVALID, COMMIT(store, NULL, NULL, WRITE("good", HF_CELL_ANY, "lost"), bad));
    CHECK(strstr(contract_error.text, words) && strstr(contract_error.text, more));
}

static void every_field_is_checked(void **state)
{
    hf_cell_item many[HF_CELLS_MAX + 1], bad;
    static char large[HF_CELL_MAX + 1];
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_COMMIT);
    store = open_store();
    refused(store, "items[1]", "name", WRITE("", 0, "x"));
    refused(store, "items[1]", "action", item("bad", 0, (hf_cell_action)3, "x"));
    refused(store, "items[1]", "version", ASSERT("bad", HF_CELL_ANY));
    refused(store, "items[1]", "version", REMOVE("bad", 0));
    refused(store, "items[0]", "'good'", ASSERT("good", 0));
    bad = WRITE("bad", 0, NULL);
    bad.len = 1;
    refused(store, "items[1]", "bytes", bad);
    bad.bytes = large;
    bad.len = HF_CELL_MAX + 1;
    refused(store, "items[1]", "len", bad);
    bad = WRITE("bad", 0, "x");
    bad.ttl_ms = 1;
    refused(store, "items[1]", "ttl_ms", bad);
    bad = WRITE("bad", 0, "x");
    bad.size = 8;
    refused(store, "items[1]", "size", bad);

    EXPECT(HF_INVALID, hf_cells_commit(store, many, 0, NULL, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_cells_commit(store, NULL, 1, NULL, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_cells_commit(store, many, HF_CELLS_MAX + 1, NULL, NULL, &contract_error));
    CHECK(strstr(contract_error.text, "count"));
    for (int i = 0; i < 9; i++) {
        static const char *const names[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8" };

        many[i] = WRITE(names[i], 0, "");
        many[i].bytes = large;
        many[i].len = HF_CELL_MAX;
    }
    EXPECT(HF_INVALID, hf_cells_commit(store, many, 9, NULL, NULL, &contract_error));
    CHECK(strstr(contract_error.text, "524288"));
    expect_text(store, "good", NULL);
    close_store(store);
}

static void as_large_as_it_may_be(void **state)
{
    static char names[HF_CELLS_MAX][HF_NAME_MAX];
    static char large[HF_CELL_MAX];
    size_t len = (HF_CELLS_BYTES_MAX - sizeof names) / HF_CELLS_MAX;
    hf_cell_item items[HF_CELLS_MAX];
    uint64_t versions[HF_CELLS_MAX];
    hf_cell cell = HF_CELL_INIT;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_COMMIT);
    store = open_store();
    memset(large, 0xfe, sizeof large);
    for (int i = 0; i < HF_CELLS_MAX; i++) {
        memset(names[i], ' ', HF_NAME_MAX); /* a byte that most engines escape */
        names[i][HF_NAME_MAX - 1] = (char)(HF_CELLS_MAX - i);
        items[i] = WRITE(NULL, 0, NULL);
        items[i].name = names[i];
        items[i].name_len = HF_NAME_MAX;
        items[i].bytes = large;
        items[i].len = len;
    }
    EXPECT(HF_OK, hf_cells_commit(store, items, HF_CELLS_MAX, versions, NULL, &contract_error));
    for (int i = 0; i < HF_CELLS_MAX; i++) {
        items[i].version = versions[i];
        items[i].action = i % 2 ? HF_CELL_ACTION_LEAVE : HF_CELL_ACTION_WRITE;
    }
    EXPECT(HF_OK, hf_cells_commit(store, items, HF_CELLS_MAX, NULL, NULL, &contract_error));
    EXPECT(HF_CHANGED, hf_cells_commit(store, items, HF_CELLS_MAX, NULL, NULL, &contract_error));
    EXPECT(HF_OK, hf_cell_get(store, names[5], HF_NAME_MAX, &cell, &contract_error));
    CHECK(cell.version == versions[5] && cell.len == len && memcmp(cell.bytes, large, len) == 0);
    hf_free(cell.bytes);
    close_store(store);
}

/* ---- others ------------------------------------------------------------------------------------ */

struct watcher {
    hf_store *store;
    const char *name;
    uint64_t version, now;
    hf_status status;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static void *watcher_run(void *arg)
{
    struct watcher *watcher = arg;
    hf_cell_request request = HF_CELL_REQUEST_INIT;

    request.name = watcher->name;
    request.name_len = HF_CSTRING;
    request.version = watcher->version;
    request.wait_ms = LIMIT_MS;
    watcher->tid = thread_id();
    watcher->status = (hf_cell_wait)(watcher->store, &request, &watcher->now, &contract_error);
    watcher->ended = true;
    return NULL;
}

#define WAITERS 4
#define PROMPT_MS \
    5000          /* sooner than an engine looks by itself (10 s) because a message may be lost */
#define CHANCES 5 /* a busy machine may be late */

static const char *const waited_for[WAITERS] = { "written", "deleted", "made", "asserted" };

/* One round of it. Returns how long it took until those of the three that changed were woken. */
static int64_t wake_waiters(hf_store *store)
{
    struct watcher watchers[WAITERS];
    uint64_t versions[WAITERS];
    int64_t begun_ms, took_ms;

    EXPECT(HF_OK, COMMIT(store, versions, NULL, WRITE("written", HF_CELL_ANY, "1"),
                         WRITE("deleted", HF_CELL_ANY, "1"), REMOVE("made", HF_CELL_ANY),
                         WRITE("asserted", HF_CELL_ANY, "1")));
    for (int i = 0; i < WAITERS; i++) {
        watchers[i] = (struct watcher){ .store = open_store(),
                                        .name = waited_for[i],
                                        .version = versions[i] };
        CHECK(pthread_create(&watchers[i].thread, NULL, watcher_run, &watchers[i]) == 0);
        AWAIT(watchers[i].tid != 0);
    }
    others_settled();
    begun_ms = now_ms();
    EXPECT(HF_OK, COMMIT(store, versions, NULL, WRITE("written", versions[0], "2"),
                         REMOVE("deleted", versions[1]), WRITE("made", 0, "2"),
                         ASSERT("asserted", versions[3])));
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_join(watchers[i].thread, NULL) == 0);
        EXPECT(HF_OK, watchers[i].status);
        CHECK(watchers[i].now == versions[i]);
    }
    took_ms = now_ms() - begun_ms;
    others_settled();
    CHECK(!watchers[3].ended);
    EXPECT(HF_OK, COMMIT(store, versions, NULL, REMOVE("asserted", versions[3])));
    CHECK(pthread_join(watchers[3].thread, NULL) == 0);
    CHECK(watchers[3].status == HF_OK && watchers[3].now == 0);
    for (int i = 0; i < WAITERS; i++)
        close_store(watchers[i].store);
    return took_ms;
}

/* Those of each cell that changes are woken, by an event where the engine has one; those of a cell that is only asserted are not. */
static void waiters_are_woken(void **state)
{
    hf_store *store;
    int chance = 0;

    (void)state;
    NEEDS(HF_CAP_COMMIT);
    store = open_store();
    while (wake_waiters(store) > PROMPT_MS && has(HF_CAP_CELL_WATCH))
        CHECK(++chance < CHANCES);
    close_store(store);
}

static void a_ttl_ends(void **state)
{
    hf_cell_item brief = WRITE("brief", 0, "1"), later = WRITE("later", 0, "1");
    hf_cell_item both[3];
    uint64_t versions[3];
    hf_cell cell = HF_CELL_INIT;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_COMMIT);
    store = open_store();
    brief.ttl_ms = HF_TTL_MIN_MS;
    later.ttl_ms = HF_DURATION_MAX_MS;
    both[0] = brief;
    both[1] = later;
    both[2] = WRITE("stays", 0, "1");
    if (!has(HF_CAP_CELL_TTL)) {
        EXPECT(HF_UNSUPPORTED, hf_cells_commit(store, both, 3, NULL, NULL, &contract_error));
        CHECK(strstr(contract_error.text, "ttl_ms"));
        close_store(store);
        return;
    }
    EXPECT(HF_OK, hf_cells_commit(store, both, 3, versions, NULL, &contract_error));
    EXPECT(HF_OK, call_cell_wait(store, "brief", HF_CSTRING, versions[0], LIMIT_MS, NULL,
                                 &versions[0], &contract_error));
    CHECK(versions[0] == 0);
    EXPECT(HF_OK, hf_cell_get(store, "later", HF_CSTRING, &cell, &contract_error));
    CHECK(cell.ttl_ms > 0);
    hf_free(cell.bytes);
    EXPECT(HF_CHANGED, COMMIT(store, NULL, NULL, ASSERT("brief", versions[1])));
    EXPECT(HF_OK, COMMIT(store, versions, NULL, WRITE("brief", 0, "2"),
                         WRITE("later", versions[1], "2"), ASSERT("stays", versions[2])));
    EXPECT(HF_OK, hf_cell_get(store, "later", HF_CSTRING, &cell, &contract_error));
    CHECK(cell.ttl_ms == -1 && cell.version == versions[1]);
    hf_free(cell.bytes);
    close_store(store);
}

int contract_commit(void)
{
    const struct CMUnitTest cases[] = {
        CASE(needs_transactions),         CASE(all_or_nothing),
        CASE(a_version_never_comes_back), CASE(any_version),
        CASE(every_field_is_checked),     CASE(as_large_as_it_may_be),
        CASE(waiters_are_woken),          CASE(a_ttl_ends),
        CASE(the_sum_is_never_broken),    CASE(no_write_of_a_long_list_is_lost),
        CASE(one_of_two_is_on),           CASE(any_version_is_one_step_too),
    };

    return cmocka_run_group_tests_name("commit", cases, NULL, NULL);
}
