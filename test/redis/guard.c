/* SPDX-License-Identifier: MIT */
/*
 * The guard over a network that fails: what is not known is said, and may be done again; nothing is
 * written twice over somebody else, and a token that was shut out stays so.
 */
#include "holdfast/primitives.h"
#include "redis_bed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP 9   /* bytes between two places where the line is cut */
#define END  400 /* all answers of a call are shorter */

static hf_status put(hf_store *store, uint64_t token, unsigned value)
{
    char text[16];

    snprintf(text, sizeof text, "%u", value);
    return hf_guard_set(store, "thing", HF_CSTRING, token, text, strlen(text), &contract_error);
}

static unsigned found(hf_store *store, uint64_t token)
{
    void *bytes = NULL;
    unsigned value;

    EXPECT(HF_OK, hf_guard_claim(store, "thing", HF_CSTRING, token, &bytes, NULL, &contract_error));
    value = bytes ? (unsigned)strtoul(bytes, NULL, 10) : 0;
    hf_free(bytes);
    return value;
}

static bool not_known(hf_status status)
{
    return status == HF_UNKNOWN || status == HF_UNAVAILABLE;
}

/* Cut after each byte of what the server says (then it was done) or hears (then perhaps not). */
static void cut_anywhere(enum proxy_way way)
{
    hf_store *through = open_through(), *direct = open_direct();
    unsigned unknown = 0, value = 1;

    EXPECT(HF_OK, put(through, 1, value));
    for (int64_t at = 1; at < END; at += STEP) {
        hf_status status;
        unsigned now;

        proxy_cut_after(proxy, way, at);
        status = put(through, 1, value + 1);
        CHECK(status == HF_OK || not_known(status));
        unknown += status != HF_OK;
        proxy_heal(proxy);
        now = found(direct, 1);
        CHECK(now == value + 1 || (status != HF_OK && now == value));
        value++;
        while (status != HF_OK) { /* the same again is always right */
            status = put(through, 1, value);
            CHECK(status == HF_OK || not_known(status));
        }
        CHECK(found(direct, 1) == value);
    }
    CHECK(unknown > 0);
    close_store(direct);
    close_store(through);
}

static void answers_are_cut(void **state)
{
    (void)state;
    cut_anywhere(PROXY_DOWN);
}

static void calls_are_cut(void **state)
{
    (void)state;
    cut_anywhere(PROXY_UP);
}

/* A write whose answer was lost is tried again too late. */
static void shut_out_meanwhile(void **state)
{
    hf_store *through = open_through(), *direct = open_direct();

    (void)state;
    EXPECT(HF_OK, put(through, 1, 7));
    proxy_block(proxy, PROXY_DOWN, true);
    CHECK(not_known(put(through, 1, 8)));
    proxy_cut(proxy);
    proxy_heal(proxy);
    EXPECT(HF_OK, put(direct, 2, 9));
    AWAIT(!not_known(put(through, 1, 8)));
    EXPECT(HF_FENCED, put(through, 1, 8));
    CHECK(found(direct, 2) == 9);
    close_store(direct);
    close_store(through);
}

/* The same name as a cell of something else, of which there is none yet: made by hand. */
static void another_kind_of_cell(void **state)
{
    hf_store *store = open_direct();
    redisReply *keys;

    (void)state;
    EXPECT(HF_OK, put(store, 1, 7));
    keys = server_ask(server, "KEYS *thing*");
    CHECK(keys->type == REDIS_REPLY_ARRAY && keys->elements == 1);
    server_do(server, "HSET %s v something-else-that-is-long-enough", keys->element[0]->str);
    freeReplyObject(keys);
    EXPECT(HF_MISMATCH, put(store, 2, 8));
    EXPECT(HF_MISMATCH, hf_guard_claim(store, "thing", HF_CSTRING, 2, NULL, NULL, &contract_error));
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(answers_are_cut),
        TEST(calls_are_cut),
        TEST(shut_out_meanwhile),
        TEST(another_kind_of_cell),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
