/* SPDX-License-Identifier: MIT */
/*
 * Several cells in one step, where Redis is special: a cluster has steps of one slot only; a script that fails half way is not
 * rolled back, so a user without all rights must be refused before the first write; a key of another type stops all of it.
 */
#include "holdfast/primitives.h"
#include "redis_bed.h"
#include "set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hf_cell_item item(const char *name, uint64_t version, hf_cell_action action)
{
    hf_cell_item made = HF_CELL_ITEM_INIT;

    made.name = name;
    made.name_len = HF_CSTRING;
    made.version = version;
    made.action = action;
    made.bytes = "new";
    made.len = 3;
    return made;
}

static hf_status commit(hf_store *store, hf_cell_item first, hf_cell_item second,
                        uint64_t ret_versions[2])
{
    hf_cell_item items[2] = { first, second };

    return hf_cells_commit(store, items, 2, ret_versions, NULL, &contract_error);
}

static void expect_text(hf_store *store, const char *name, const char *text)
{
    hf_cell cell = HF_CELL_INIT;

    EXPECT(text ? HF_OK : HF_NOT_FOUND,
           hf_cell_get(store, name, HF_CSTRING, &cell, &contract_error));
    CHECK(!text || strcmp(cell.bytes, text) == 0);
    hf_free(cell.bytes);
}

#define WRITE(name, version)  item(name, version, HF_CELL_ACTION_WRITE)
#define REMOVE(name, version) item(name, version, HF_CELL_ACTION_DELETE)

/* The error says which names are apart, and what puts them together. */
static void a_cluster_has_steps_of_one_slot(void **state)
{
    struct cluster *cluster = cluster_start(NULL);
    hf_cell_item alone = WRITE("ada", 0);
    hf_store *store, *tagged;

    (void)state;
    EXPECT(HF_OK, hf_open(cluster_url(cluster, ""), NULL, &store, &contract_error));
    EXPECT(HF_INVALID, commit(store, WRITE("ben", 0), WRITE("ada", 0), NULL));
    CHECK(strstr(contract_error.text, "'ada'") && strstr(contract_error.text, "'ben'"));
    CHECK(strstr(contract_error.text, "prefix=hf:{bank}:"));
    expect_text(store, "ada", NULL);
    EXPECT(HF_OK, hf_cells_commit(store, &alone, 1, NULL, NULL, &contract_error));

    EXPECT(HF_OK,
           hf_open(cluster_url(cluster, "?prefix=hf:{bank}:"), NULL, &tagged, &contract_error));
    expect_text(tagged, "ada", NULL);
    EXPECT(HF_OK, commit(tagged, WRITE("ben", 0), WRITE("ada", 0), NULL));
    expect_text(tagged, "ben", "new");
    close_store(tagged);
    close_store(store);
    cluster_free(cluster);
}

/* The first item needs HSET only, the second DEL, which is not allowed: the first must not be done either. */
static void without_a_right_nothing_is_done(void **state)
{
    uint64_t versions[2];
    hf_store *admin, *user;
    char url[128];

    (void)state;
    server_do(server, "ACL SETUSER app reset on >sesame ~hf:* &hf:* +@all -del");
    snprintf(url, sizeof url, "redis://app:sesame@127.0.0.1:%u", (unsigned)server->port);
    admin = open_direct();
    EXPECT(HF_OK, commit(admin, WRITE("a", 0), WRITE("b", 0), versions));
    EXPECT(HF_OK, hf_open(url, NULL, &user, &contract_error));
    EXPECT(HF_DENIED, commit(user, WRITE("a0", 0), REMOVE("b", versions[1]), NULL));
    expect_text(admin, "a0", NULL);
    expect_text(admin, "b", "new");
    close_store(user);
    close_store(admin);
}

static redisReply *next_message(redisContext *line)
{
    redisReply *reply = NULL;

    CHECK(redisGetReply(line, (void **)&reply) == REDIS_OK && reply &&
          reply->type == REDIS_REPLY_ARRAY && reply->elements == 3);
    return reply;
}

/* A wait for a cell would find a change by itself after a while. So the message itself is looked for: one of each cell. */
static void each_change_is_told(void **state)
{
    redisContext *line = redisConnect("127.0.0.1", server->port);
    hf_store *store = open_direct();
    uint64_t versions[2];
    redisReply *reply;

    (void)state;
    CHECK(line && !line->err);
    EXPECT(HF_OK, commit(store, WRITE("a", 0), WRITE("b", 0), versions));
    CHECK(redisSetTimeout(line, (struct timeval){ .tv_sec = LIMIT_MS / 1000 }) == REDIS_OK);
    CHECK(redisAppendCommand(line, "SUBSCRIBE hf:{a}:c hf:{b}:c") == REDIS_OK);
    for (int i = 0; i < 2; i++)
        freeReplyObject(next_message(line)); /* subscribed */
    EXPECT(HF_OK, commit(store, WRITE("a", versions[0]), REMOVE("b", versions[1]), versions));
    for (int i = 0; i < 2; i++) {
        reply = next_message(line);
        CHECK(strcmp(reply->element[1]->str, i ? "hf:{b}:c" : "hf:{a}:c") == 0);
        CHECK(strtoull(reply->element[2]->str, NULL, 10) == versions[i]);
        freeReplyObject(reply);
    }
    redisFree(line);
    close_store(store);
}

static void a_key_of_another_type_stops_it(void **state)
{
    hf_store *store = open_direct();

    (void)state;
    server_do(server, "SET hf:{z}:c 5");
    CHECK(commit(store, WRITE("a", 0), WRITE("z", 0), NULL) != HF_OK);
    expect_text(store, "a", NULL);
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_has_steps_of_one_slot),
        TEST(without_a_right_nothing_is_done),
        TEST(each_change_is_told),
        TEST(a_key_of_another_type_stops_it),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
