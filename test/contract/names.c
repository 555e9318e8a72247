/* SPDX-License-Identifier: MIT */
/* Names of any bytes: NUL bytes, all 256 values, 512 of them, one the prefix of another. */
#include "contract.h"

#include <string.h>

struct bytes {
    const void *at;
    size_t len;
};

static hf_acquire_request bytes_request(struct bytes name)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = name.at;
    request.name_len = name.len;
    return request;
}

/* All of them can be held at once, each is busy for itself, each is shown as it is. */
static void hold_all(hf_store *store, const struct bytes *names, size_t count)
{
    hf_lease *leases[300];
    hf_view *view = NULL;
    hf_acquire_request request;

    CHECK(count <= 300);
    for (size_t i = 0; i < count; i++) {
        hf_lease_info info = HF_LEASE_INFO_INIT;

        request = bytes_request(names[i]);
        leases[i] = take(store, &request);
        EXPECT(HF_OK, hf_lease_get(leases[i], &info));
        CHECK(info.name_len == names[i].len);
        CHECK(memcmp(info.name, names[i].at, names[i].len) == 0);
    }
    for (size_t i = 0; i < count; i++) {
        request = bytes_request(names[i]);
        EXPECT(HF_BUSY, probe(store, &request));
        if (!has(HF_CAP_INSPECT))
            continue;
        EXPECT(HF_OK,
               hf_store_inspect(store, names[i].at, names[i].len, 0, &view, &contract_error));
        CHECK(hf_view_count(view) == 1);
        CHECK(hf_view_entry(view, 0)->name_len == names[i].len);
        CHECK(memcmp(hf_view_entry(view, 0)->name, names[i].at, names[i].len) == 0);
        hf_free(view);
    }
    if (has(HF_CAP_INSPECT)) {
        EXPECT(HF_OK,
               hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
        CHECK(hf_view_count(view) == count);
        hf_free(view);
    }
    for (size_t i = 0; i < count; i++)
        give(leases[i]);
}

static void every_byte(void **state)
{
    static unsigned char all[256];
    struct bytes names[256];
    hf_store *store = open_store();

    (void)state;
    for (size_t i = 0; i < 256; i++) {
        all[i] = (unsigned char)i;
        names[i] = (struct bytes){ &all[i], 1 };
    }
    hold_all(store, names, 256);
    close_store(store);
}

static void prefixes_and_nuls(void **state)
{
    static const struct bytes names[] = {
        { "a", 1 },    { "aa", 2 },       { "a\0", 2 },      { "a\0\0", 3 }, { "\0", 1 },
        { "\0\0", 2 }, { "\0a", 2 },      { "a\0a", 3 },     { "a/b", 3 },   { "a/b/", 4 },
        { "a{b}", 4 }, { "%41", 3 },      { "A", 1 },        { " ", 1 },     { "a ", 2 },
        { "a\n", 2 },  { "\xff\xfe", 2 }, { "\xc3\xa9", 2 }, { "..", 2 },    { "*", 1 },
        { "a:b", 3 },  { "'", 1 },        { "\"", 1 },       { "\\", 1 },    { ";--", 3 },
    };
    hf_store *store = open_store();

    (void)state;
    hold_all(store, names, sizeof names / sizeof *names);
    close_store(store);
}

static void long_names(void **state)
{
    static unsigned char text[4][HF_NAME_MAX];
    struct bytes names[7];
    hf_store *store = open_store();

    (void)state;
    memset(text, 'n', sizeof text);
    text[1][HF_NAME_MAX - 1] = 'm'; /* differs in its last byte only */
    text[2][0] = 'm';
    memset(text[3], 0, HF_NAME_MAX);
    for (int i = 0; i < 4; i++)
        names[i] = (struct bytes){ text[i], HF_NAME_MAX };
    names[4] = (struct bytes){ text[0], HF_NAME_MAX - 1 };
    names[5] = (struct bytes){ text[0], 256 };
    names[6] = (struct bytes){ text[0], 255 };
    hold_all(store, names, 7);
    close_store(store);
}

static void c_string_is_the_same_name(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request text = mutex_request("name"),
                       bytes = bytes_request((struct bytes){ "name!", 4 });
    hf_lease *lease = take(store, &text);

    (void)state;
    EXPECT(HF_BUSY, probe(store, &bytes));
    give(lease);
    lease = take(store, &bytes);
    EXPECT(HF_BUSY, probe(store, &text));
    give(lease);
    close_store(store);
}

static void name_is_copied(void **state)
{
    hf_store *store = open_store();
    char name[] = "mine";
    hf_acquire_request request = mutex_request(name);
    hf_lease *lease = take(store, &request);
    hf_lease_info info = HF_LEASE_INFO_INIT;

    (void)state;
    memcpy(name, "your", 4);
    EXPECT(HF_OK, hf_lease_get(lease, &info));
    CHECK(memcmp(info.name, "mine", 4) == 0);
    EXPECT(HF_OK, probe(store, &request));
    memcpy(name, "mine", 4);
    EXPECT(HF_BUSY, probe(store, &request));
    give(lease);
    close_store(store);
}

static void waiting_on_any_name(void **state)
{
    static const struct bytes names[] = { { "\0", 1 }, { "a\0", 2 }, { "\xff", 1 } };
    hf_store *store = open_store(), *second = open_store();

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        hf_acquire_request request = bytes_request(names[i]);
        hf_lease *lease = take(store, &request);
        struct attempt attempt;

        request.wait_ms = LIMIT_MS;
        attempt_start(&attempt, second, &request);
        attempt_settled(&attempt);
        give(lease);
        EXPECT(HF_OK, attempt_join(&attempt));
        give(attempt.lease);
    }
    close_store(second);
    close_store(store);
}

int contract_names(void)
{
    const struct CMUnitTest cases[] = {
        CASE(every_byte),     CASE(prefixes_and_nuls),
        CASE(long_names),     CASE(c_string_is_the_same_name),
        CASE(name_is_copied), CASE(waiting_on_any_name),
    };

    return cmocka_run_group_tests_name("names", cases, NULL, NULL);
}
