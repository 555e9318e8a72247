/* SPDX-License-Identifier: MIT */
/*
 * Faults of the network for commits of several cells: lost, late and repeated requests, lost answers. A commit is done once or not
 * at all, and a call never says that it was not done when it was. On the engine in memory, whose network the test controls.
 */
#include "contract.h"

#include "holdfast/primitives.h"
#include "mem_engine.h"

#include <stdio.h>
#include <string.h>

static const char *server(void)
{
    static char name[128];
    const char *url = strchr(contract_url(), ':') + 1;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(url, "?"), url);
    return name;
}

/* Write the text into both cells at these versions, and take the new ones. */
static hf_status write_both(hf_store *store, uint64_t versions[2], const char *text)
{
    hf_cell_item items[2] = { HF_CELL_ITEM_INIT, HF_CELL_ITEM_INIT };

    for (int i = 0; i < 2; i++) {
        items[i].name = i ? "b" : "a";
        items[i].name_len = HF_CSTRING;
        items[i].version = versions[i];
        items[i].action = text ? HF_CELL_ACTION_WRITE : HF_CELL_ACTION_LEAVE;
        items[i].bytes = text;
        items[i].len = text ? strlen(text) : 0;
    }
    return hf_cells_commit(store, items, 2, versions, NULL, &contract_error);
}

/* Both have this text; NULL: both are absent. Takes their versions. */
static void expect_both(hf_store *store, const char *text, uint64_t ret_versions[2])
{
    for (int i = 0; i < 2; i++) {
        hf_cell cell = HF_CELL_INIT;

        EXPECT(text ? HF_OK : HF_NOT_FOUND,
               hf_cell_get(store, i ? "b" : "a", HF_CSTRING, &cell, &contract_error));
        CHECK(!text || strcmp(cell.bytes, text) == 0);
        ret_versions[i] = cell.version;
        hf_free(cell.bytes);
    }
}

static unsigned long commits(void)
{
    return mem_count(server(), MEM_CELL_COMMIT);
}

/* The second copy does it. */
static void a_lost_request_is_repeated(void **state)
{
    hf_store *store = open_store();
    uint64_t versions[2] = { 0, 0 }, found[2];

    (void)state;
    EXPECT(HF_OK, write_both(store, versions, "first"));
    mem_fault(server(), MEM_LOSE_REQUEST, MEM_CELL_COMMIT, 2, 0);
    EXPECT(HF_OK, write_both(store, versions, "second"));
    expect_both(store, "second", found);
    CHECK(found[0] == versions[0] && found[1] == versions[1]);
    CHECK(commits() == 2);
    close_store(store);
}

/* It was done: the second copy finds other versions, and nobody can say whose they are. */
static void a_lost_answer_is_unknown(void **state)
{
    hf_store *store = open_store();
    uint64_t versions[2] = { 0, 0 }, before[2], found[2];

    (void)state;
    EXPECT(HF_OK, write_both(store, versions, "first"));
    memcpy(before, versions, sizeof before);
    mem_fault(server(), MEM_LOSE_REPLY, MEM_CELL_COMMIT, 1, 0);
    EXPECT(HF_UNKNOWN, write_both(store, versions, "second"));
    CHECK(strstr(contract_error.text, "may have been done"));
    CHECK(memcmp(before, versions, sizeof before) == 0);
    expect_both(store, "second", found);
    CHECK(commits() == 3);

    /* The same commit once more is not a second one. */
    EXPECT(HF_CHANGED, write_both(store, versions, "second"));
    CHECK(versions[0] == found[0]);
    close_store(store);
}

/* "There is none" can come true again, so a commit that only makes cells is never sent twice. */
static void what_is_made_is_not_made_twice(void **state)
{
    hf_store *store = open_store();
    uint64_t versions[2] = { 0, 0 };

    (void)state;
    mem_fault(server(), MEM_LOSE_REQUEST, MEM_CELL_COMMIT, 1, 0);
    EXPECT(HF_UNKNOWN, write_both(store, versions, "never"));
    expect_both(store, NULL, versions);
    mem_fault(server(), MEM_LOSE_REPLY, MEM_CELL_COMMIT, 1, 0);
    EXPECT(HF_UNKNOWN, write_both(store, versions, "made"));
    CHECK(commits() == 1);
    expect_both(store, "made", versions);
    close_store(store);
}

/* The second copy was done, others wrote since, and then the first copy arrives. */
static void a_late_copy_does_nothing(void **state)
{
    hf_store *store = open_store();
    uint64_t versions[2] = { 0, 0 }, found[2];

    (void)state;
    EXPECT(HF_OK, write_both(store, versions, "first"));
    mem_fault(server(), MEM_DELAY_REQUEST, MEM_CELL_COMMIT, 1, 500);
    EXPECT(HF_OK, write_both(store, versions, "second"));
    EXPECT(HF_OK, write_both(store, versions, "third"));
    AWAIT((expect_both(store, "third", found), commits() >= 4));
    CHECK(found[0] == versions[0] && found[1] == versions[1]);

    mem_fault(server(), MEM_REPEAT_REQUEST, MEM_CELL_COMMIT, 1, 20);
    EXPECT(HF_OK, write_both(store, versions, "fourth"));
    AWAIT((expect_both(store, "fourth", found), commits() >= 6));
    CHECK(found[0] == versions[0] && found[1] == versions[1]);
    close_store(store);
}

/* Nothing is to be known of a list that only asserts. */
static void an_unanswered_check_is_unavailable(void **state)
{
    hf_store *store = open_store();
    uint64_t versions[2] = { 0, 0 };

    (void)state;
    EXPECT(HF_OK, write_both(store, versions, "first"));
    mem_fault(server(), MEM_LOSE_REPLY, MEM_CELL_COMMIT, 1, 0);
    EXPECT(HF_UNAVAILABLE, write_both(store, versions, NULL));
    EXPECT(HF_OK, write_both(store, versions, NULL));
    close_store(store);
}

/* The answer is lost, and then the store is away: "unavailable" would say that it was not done. */
static void doubt_stays(void **state)
{
    hf_store *store = open_store();
    uint64_t versions[2] = { 0, 0 };

    (void)state;
    mem_cut(server(), true);
    EXPECT(HF_UNAVAILABLE, write_both(store, versions, "never"));
    mem_cut(server(), false);
    EXPECT(HF_OK, write_both(store, versions, "first"));
    mem_fault(server(), MEM_LOSE_REPLY, MEM_CELL_COMMIT, 100000, 0);
    EXPECT(HF_UNKNOWN, write_both(store, versions, "second"));
    mem_heal(server());
    expect_both(store, "second", versions);
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        CASE(a_lost_request_is_repeated),         CASE(a_lost_answer_is_unknown),
        CASE(what_is_made_is_not_made_twice),     CASE(a_late_copy_does_nothing),
        CASE(an_unanswered_check_is_unavailable), CASE(doubt_stays),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    contract_begin("memevent:{id}?call=50ms", false);
    return cmocka_run_group_tests_name("commit_faults", cases, NULL, NULL) ? 1 : 0;
}
