/* SPDX-License-Identifier: MIT */
/* What a URL may say, at its limits, on a real server. */
#include "redis_bed.h"

#include <stdio.h>
#include <string.h>

#define PREFIX_MAX 128 /* HFI_PREFIX_MAX */

/* The channels of the two stores: the whole prefix, "inbox:" and 16 digits. (A grant that was published
 * elsewhere would be found by a heartbeat, and nobody would notice.) */
static void check_inboxes(void)
{
    redisReply *reply = server_ask(server, "PUBSUB CHANNELS");

    CHECK(reply->elements == 2);
    for (size_t i = 0; i < reply->elements; i++) {
        CHECK(reply->element[i]->len == PREFIX_MAX + 6 + 16);
        CHECK(memcmp(reply->element[i]->str + PREFIX_MAX, "inbox:", 6) == 0);
        CHECK(strspn(reply->element[i]->str + PREFIX_MAX + 6, "0123456789abcdef") == 16);
    }
    freeReplyObject(reply);
}

/* The longest prefix, of characters that mean something in patterns, and the longest name, every
 * byte of which is escaped in a key: waiting, hand-over, looking and releasing as with short ones. */
static void longest_prefix_and_name(void **state)
{
    char prefix[3 * PREFIX_MAX + 16], name[HF_NAME_MAX + 1], url[3 * PREFIX_MAX + 64];
    hf_store *store, *other;
    hf_acquire_request request;
    struct attempt attempt;
    hf_view *view = NULL;
    hf_lease *lease;
    size_t used = 0;

    (void)state;
    for (int i = 0; i < PREFIX_MAX; i++)
        used += (size_t)snprintf(prefix + used, sizeof prefix - used, "%s",
                                 i % 2 ? "%5B" : "*"); /* "*[*[*[..." */
    memset(name, '%', HF_NAME_MAX);
    name[HF_NAME_MAX] = 0;
    snprintf(url, sizeof url, "redis://127.0.0.1:%u?prefix=%s", (unsigned)server->port, prefix);
    store = open_at(url);
    other = open_at(url);

    request = waiting_request(name);
    lease = take(store, &request);
    attempt_start(&attempt, other, &request);
    AWAIT(count_waiters(store, name) == 1);
    EXPECT(HF_OK,
           hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
    CHECK(hf_view_count(view) == 1 && hf_view_entry(view, 0)->name_len == HF_NAME_MAX);
    CHECK(memcmp(hf_view_entry(view, 0)->name, name, HF_NAME_MAX) == 0);
    hf_free(view);
    check_inboxes();

    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_state(attempt.lease) == HF_STATE_HELD);
    give(attempt.lease);
    close_store(other);
    close_store(store);
}

/* The same name under another prefix, and on another wire, is another lock: a thread that holds one does not wait for itself if it
 * takes the other. */
static void other_locks(void **state)
{
    static const char *const others[] = { "prefix=other:", "wire=plain", "wire=redisson" };
    hf_acquire_request request = waiting_request("same");
    char url[64], text[96];
    hf_store *store;
    hf_lease *lease;

    (void)state;
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", (unsigned)server->port);
    store = open_at(url);
    lease = take(store, &request);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        hf_store_info info = HF_STORE_INFO_INIT;
        hf_store *other;

        snprintf(text, sizeof text, "%s?%s", url, others[i]);
        other = open_at(text);
        EXPECT(HF_OK, hf_store_get(other, &info));
        CHECK(strstr(info.location, others[i]) != NULL);
        give(take(other, &request));
        close_store(other);
    }
    give(lease);
    close_store(store);
}

/* A parameter that nobody knows is named before anybody is asked: no server, or one that wants a
 * password, must not hide it. */
static void unknown_parameter_comes_first(void **state)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store;

    (void)state;
    options.open_wait_ms = 500;
    EXPECT(HF_CONFIG, hf_open("redis://127.0.0.1:1?passwort=x", &options, &store, &contract_error));
    CHECK(strstr(contract_error.text, "passwort") != NULL);
    EXPECT(HF_UNAVAILABLE, hf_open("redis://127.0.0.1:1", &options, &store, &contract_error));
}

/* sync= where it cannot be kept is refused, and named. */
static void sync_where_it_cannot_be(void **state)
{
    static const struct {
        const char *url, *word;
    } rows[] = {
        { "redis+cluster://127.0.0.1:1?sync=1", "sync" },
        { "redis://127.0.0.1:1?sync=1&wire=plain", "sync" },
        { "redis://127.0.0.1:1?sync=1&wire=redisson", "sync" },
        { "redis://127.0.0.1:1?sync=1&sync_timeout=9s&op_timeout=5s", "sync_timeout" },
    };
    hf_store *store;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        EXPECT(HF_CONFIG, hf_open(rows[i].url, NULL, &store, &contract_error));
        CHECK(strstr(contract_error.text, rows[i].word) != NULL);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(longest_prefix_and_name),
        TEST(other_locks),
        TEST(unknown_parameter_comes_first),
        TEST(sync_where_it_cannot_be),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
