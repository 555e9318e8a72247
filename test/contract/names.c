/* SPDX-License-Identifier: MIT */
/* Names of any bytes: NUL bytes, all 256 values, 512 of them, one the prefix of another. */
#include "contract.h"

#include "calls.h"
#include "holdfast/redis.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* ---- lengths are lengths ------------------------------------------------------------------- */

static hf_status nothing(const hf_cell *old, hf_cell_change *change, void *arg)
{
    (void)old, (void)change, (void)arg;
    return HF_OK;
}

static int no_sql(const char *sql, int64_t *ret_number, void *arg)
{
    (void)sql, (void)arg;
    *ret_number = 1;
    return 0;
}

/* Every call that takes a name. What it answers is other tests' business, but of HF_INVALID. */
static hf_status call_with(hf_store *store, int which, const void *name, size_t len)
{
    static const char text[] = "00000000000000000000000000000000-1";
    hf_acquire_request request = bytes_request((struct bytes){ name, len });
    hf_limit_request limit = HF_LIMIT_REQUEST_INIT;
    hf_cell cell = HF_CELL_INIT;
    hf_error *err = &contract_error;
    hf_status status = HF_INTERNAL;
    hf_leader *leader = NULL;
    hf_lease *lease = NULL;
    hf_view *view = NULL;
    int64_t number;
    uint32_t left;

    limit.name = name;
    limit.name_len = len;
    limit.rate = 1;
    limit.per_ms = 1000;
    switch (which) {
    case 0:
        status = hf_acquire(store, &request, &lease, err);
        break;
    case 1:
        status = hf_acquire_all(store, &request, 1, &lease, err);
        break;
    case 2:
        status = call_lease_adopt(store, name, len, text, 0, false, &lease, err);
        break;
    case 3:
        status = hf_store_inspect(store, name, len, 0, &view, err);
        break;
    case 4:
        status = hf_store_inspect(store, name, len, HF_INSPECT_FLAG_PATTERN, &view, err);
        break;
    case 5:
        status = hf_lease_break(store, name, len, 1, err);
        break;
    case 6:
        status = hf_cell_get(store, name, len, &cell, err);
        break;
    case 7:
        status = call_cell_set(store, name, len, "x", 1, 0, NULL, err);
        break;
    case 8:
        status = call_cell_swap(store, name, len, 7, "x", 1, 0, NULL, err);
        break;
    case 9:
        status = hf_cell_delete(store, name, len, 7, err);
        break;
    case 10:
        status = call_cell_update(store, name, len, nothing, NULL, 0, NULL, NULL, err);
        break;
    case 11:
        status = call_cell_wait(store, name, len, 7, 0, NULL, NULL, err);
        break;
    case 12:
        status = hf_counter_add(store, name, len, 1, NULL, err);
        break;
    case 13:
        status = hf_counter_get(store, name, len, &number, err);
        break;
    case 14:
        status = hf_counter_set(store, name, len, 1, err);
        break;
    case 15:
        status = hf_counter_swap(store, name, len, 1, 2, NULL, err);
        break;
    case 16:
        status = hf_counter_delete(store, name, len, err);
        break;
    case 17:
        status = hf_guard_claim(store, name, len, 1, NULL, NULL, err);
        break;
    case 18:
        status = hf_guard_set(store, name, len, 1, "x", 1, err);
        break;
    case 19:
        status = call_guard_claim_sql(HF_SQL_DIALECT_MYSQL, NULL, name, len, 1, no_sql, NULL, err);
        break;
    case 20:
        status = hf_limit_take(store, &limit, NULL, err);
        break;
    case 21:
        status = hf_limit_get(store, &limit, NULL, err);
        break;
    case 22:
        status = hf_latch_create(store, name, len, 1, err);
        break;
    case 23:
        status = hf_latch_count_down(store, name, len, "a", &left, err);
        break;
    case 24:
        status = call_latch_join(store, name, len, "a", 0, NULL, &lease, err);
        break;
    case 25:
        status = call_latch_wait(store, name, len, 0, NULL, err);
        break;
    case 26:
        status = hf_latch_get(store, name, len, NULL, NULL, err);
        break;
    case 27:
        status = hf_latch_delete(store, name, len, err);
        break;
    case 28:
        status = call_barrier_wait(store, name, len, 1, NULL, 0, NULL, err);
        break;
    case 29:
        status = call_barrier_enter(store, name, len, 1, NULL, 0, NULL, &lease, err);
        break;
    case 30:
        status = hf_election_campaign(store, &request, "x", 1, &lease, err);
        break;
    case 31:
        status = call_election_wait(store, name, len, NULL, 0, NULL, &leader, err);
        break;
    case 32:
        status = hf_once_begin(store, &request, 0, &lease, NULL, err);
        break;
    case 33:
        status = hf_once_get(store, name, len, NULL, err);
        break;
    case 34:
        status = hf_once_delete(store, name, len, err);
        break;
    default:
        return HF_NOT_FOUND;
    }
    hf_free(view);
    hf_free(leader);
    hf_free(cell.bytes);
    if (lease)
        hf_release(lease, NULL);
    return status;
}
#define CALLS 35

/* A name at the end of a page, with an unmapped page behind it: reading further crashes. An empty
 * name is refused without reading it, even if the pointer is invalid. */
static void no_call_reads_beyond_a_name(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    hf_store *store = open_store();
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
    for (int which = 0; which < CALLS; which++) {
        char *name = pages + page - 4;
        hf_status status;

        snprintf(pages, page, "n%03d", which);
        memcpy(name, pages, 4);
        status = call_with(store, which, name, 4);
        if (status == HF_INVALID || status == HF_INTERNAL)
            fail_msg("call %d: %s: %s", which, hf_status_name(status), contract_error.text);
        status = call_with(store, which, pages + page, 0);
        if (status != HF_INVALID && status != HF_UNSUPPORTED)
            fail_msg("call %d, empty: %s", which, hf_status_name(status));
        if (status == HF_INVALID && !strstr(contract_error.text, "name: empty"))
            fail_msg("call %d, empty: %s", which, contract_error.text);
    }
    munmap(pages, 2 * page);
    close_store(store);
}

int contract_names(void)
{
    const struct CMUnitTest cases[] = {
        CASE(every_byte),
        CASE(prefixes_and_nuls),
        CASE(long_names),
        CASE(c_string_is_the_same_name),
        CASE(name_is_copied),
        CASE(waiting_on_any_name),
        CASE(no_call_reads_beyond_a_name),
    };

    return cmocka_run_group_tests_name("names", cases, NULL, NULL);
}
