/* SPDX-License-Identifier: MIT */
/*
 * Servers that want a user, what `doctor` says of servers of all kinds, ttls beyond 30 days, and cells,
 * by the contract itself: there is no public call for them yet.
 */
#include "calls.h"
#include "memcached_bed.h"

#include "core/op.h"
#include "core/registry.h"
#include "direct.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- users ------------------------------------------------------------------------------------- */

static hf_status open_as(uint16_t port, const char *login, hf_store **ret_store)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    char url[128];

    options.open_wait_ms = LIMIT_MS;
    snprintf(url, sizeof url, "memcached://%s127.0.0.1:%u", login, (unsigned)port);
    return hf_open(url, &options, ret_store, &contract_error);
}

static void users(void **state)
{
    char file[] = "/tmp/holdfast-memcached-users-XXXXXX", url[160];
    const char *options[] = { "-Y", file, NULL };
    hf_acquire_request request = mutex_request("n");
    hf_store *as = NULL;
    struct cache *closed;
    int fd = mkstemp(file);

    (void)state;
    CHECK(fd >= 0 && dprintf(fd, "app:sesame\n") > 0 && close(fd) == 0);
    closed = cache_start(options);
    EXPECT(HF_DENIED, open_as(closed->port, "", &as));
    CHECK(strstr(contract_error.text, "user") != NULL);
    EXPECT(HF_DENIED, open_as(closed->port, "app:tractor@", &as));
    CHECK(strstr(contract_error.text, "tractor") == NULL);
    EXPECT(HF_DENIED, open_as(closed->port, "nobody:sesame@", &as));
    EXPECT(HF_OK, open_as(closed->port, "app:sesame@", &as));
    EXPECT(HF_OK, probe(as, &request));
    EXPECT(HF_OK, hf_close(as, 0));
    snprintf(url, sizeof url, "memcached://app@127.0.0.1:%u?password_env=MC_SECRET",
             (unsigned)closed->port);
    setenv("MC_SECRET", "sesame", 1);
    EXPECT(HF_OK, hf_open(url, NULL, &as, &contract_error));
    EXPECT(HF_OK, hf_close(as, 0));
    cache_free(closed);
    unlink(file);
}

/* ---- doctor ---------------------------------------------------------------------------------------- */

struct findings {
    char text[8192];
    unsigned bad;
};

static void note(hf_check_level level, const char *topic, const char *text, void *arg)
{
    struct findings *findings = arg;
    size_t len = strlen(findings->text);

    findings->bad += level == HF_CHECK_LEVEL_BAD;
    snprintf(findings->text + len, sizeof findings->text - len, "%d %s: %s\n", (int)level, topic,
             text);
}

static void doctor(void **state)
{
    static const char *const options[] = { "-M", "-m", "3", NULL };
    struct findings fresh = { .bad = 0 }, used = fresh, full = fresh;
    struct cache *without;
    hf_store *at;

    (void)state;
    EXPECT(HF_OK, call_store_check(other, note, &fresh, &contract_error));
    CHECK(fresh.bad == 0);
    CHECK(strstr(fresh.text, "0 eviction: 0 items") && strstr(fresh.text, "0 restart: ") &&
          strstr(fresh.text, "0 tokens: none") && strstr(fresh.text, "0 login: no password") &&
          strstr(fresh.text, "0 memory: 64 MB") && strstr(fresh.text, "0 server: memcached 1."));
    (void)cache_say(cache, "flush_all\r\n", 1);
    EXPECT(HF_OK, call_store_check(other, note, &used, &contract_error));
    CHECK(used.bad == 1 && strstr(used.text, "2 flush_all: 1 times"));

    without = cache_start(options);
    at = open_at(cache_url(without->port, ""));
    EXPECT(HF_OK, call_store_check(at, note, &full, &contract_error));
    CHECK(strstr(full.text, "eviction: off (-M)") && strstr(full.text, "memory: 3 MB"));
    EXPECT(HF_OK, hf_close(at, 0));
    cache_free(without);
}

/* ---- long ttls ---------------------------------------------------------------------------------------- */

/* memcached takes what is longer than 30 days for a date: neither gone at once nor there for ever. */
static void ttls_beyond_30_days(void **state)
{
    static const int64_t days[] = { 29, 30, 31, 365, 3650 };

    (void)state;
    for (size_t i = 0; i < sizeof days / sizeof *days; i++) {
        hf_acquire_request request = with_ttl(mutex_request("n"), days[i] * 24 * 3600 * 1000);
        hf_lease *lease = take(store, &request);
        long long left_s;
        const char *at;

        EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
        at = strstr(cache_say(cache, "mg hf:l:n t\r\n", 1), " t");
        CHECK(at != NULL);
        left_s = atoll(at + 2);
        CHECK(left_s >= days[i] * 24 * 3600 && left_s <= days[i] * 24 * 3600 + LIMIT_MS / 1000);
        give(lease);
    }
}

/* ---- cells ------------------------------------------------------------------------------------------------ */

static const struct hfi_engine *engine;

static void no_wake(struct hfi_host *host)
{
    (void)host;
}

static struct hfi_host host = { .label = "cells", .wake = no_wake };

static void *open_engine(void)
{
    host.open_deadline_ms = hfi_now_ms() + LIMIT_MS;
    return direct_open(cache_url(cache->port, ""), &host, &engine);
}

static hf_status cell(void *opened, enum hfi_op_kind kind, struct hfi_op *op, uint64_t version,
                      const char *bytes)
{
    static const unsigned char name[] = "the stock";

    hfi_op_init(op, engine, kind, NULL, hfi_now_ms() + LIMIT_MS);
    memset(&op->u.cell, 0, sizeof op->u.cell);
    op->u.cell.name.bytes = name;
    op->u.cell.name.len = sizeof name - 1;
    hfi_hash128(name, sizeof name - 1, op->u.cell.name.hash);
    op->u.cell.version = version;
    op->u.cell.bytes = bytes;
    op->u.cell.len = bytes ? strlen(bytes) : 0;
    engine->submit(opened, op);
    while (!op->finished)
        engine->drive->turn(opened, hfi_now_ms() + 1000);
    return (hf_status)(op->finished - 1);
}

static void cells(void **state)
{
    void *opened = open_engine();
    struct hfi_op op;
    uint64_t first, second;

    (void)state;
    CHECK(cell(opened, HFI_OP_CELL_READ, &op, 0, NULL) == HF_NOT_FOUND);
    CHECK(cell(opened, HFI_OP_CELL_SWAP, &op, 0, "ten") == HF_OK);
    first = op.u.cell.ret_version;
    CHECK(cell(opened, HFI_OP_CELL_SWAP, &op, 0, "again") == HF_BUSY);
    CHECK(op.u.cell.ret_version == first);
    CHECK(cell(opened, HFI_OP_CELL_SWAP, &op, first, "nine") == HF_OK);
    second = op.u.cell.ret_version;
    CHECK(second > first);
    CHECK(cell(opened, HFI_OP_CELL_SWAP, &op, first, "late") == HF_BUSY);
    direct_close(engine, opened);

    opened = open_engine();
    CHECK(cell(opened, HFI_OP_CELL_READ, &op, 0, NULL) == HF_OK);
    CHECK(op.u.cell.ret_version == second && op.u.cell.ret_len == 4);
    CHECK(memcmp(op.u.cell.ret_bytes, "nine", 4) == 0);
    hfi_free(op.u.cell.ret_bytes);
    CHECK(cell(opened, HFI_OP_CELL_SWAP, &op, second, NULL) == HF_OK);
    CHECK(cell(opened, HFI_OP_CELL_READ, &op, 0, NULL) == HF_NOT_FOUND);
    CHECK(cell(opened, HFI_OP_CELL_SWAP, &op, second, "too late") == HF_BUSY);
    CHECK(cell(opened, HFI_OP_CELL_SWAP, &op, 0, "new") == HF_OK);
    CHECK(op.u.cell.ret_version > second);

    /* The server was restarted, and its CAS numbers begin again: no old version is good for anything. */
    first = op.u.cell.ret_version;
    cache_restart(cache);
    AWAIT(cell(opened, HFI_OP_CELL_READ, &op, 0, NULL) == HF_NOT_FOUND);
    CHECK(cell(opened, HFI_OP_CELL_SWAP, &op, 0, "other") == HF_OK);
    CHECK(cell(opened, HFI_OP_CELL_SWAP, &op, first, "old") == HF_BUSY);
    direct_close(engine, opened);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(users),
        TEST(doctor),
        TEST(ttls_beyond_30_days),
        TEST(cells),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
