/* SPDX-License-Identifier: MIT */
/*
 * What else the engine promises, on one server: calls per acquisition that do not grow with the number
 * of waiters, users and rights, cells, refusals that name what is wrong.
 */
#include "zk_bed.h"

#include "core/op.h"
#include "core/registry.h"
#include "direct.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- no herd ------------------------------------------------------------------------------ */

#define WAITERS_MAX 12

/* So many wait for one name, each with a session of its own, and take it one after the other. How
 * many requests did the server get for each of them, from the first release on? */
static double calls_each(const char *name, hf_kind kind, uint32_t capacity, int waiters)
{
    hf_acquire_request request = kind_request(name, kind, capacity, LIMIT_MS);
    struct attempt attempts[WAITERS_MAX];
    hf_store *stores[WAITERS_MAX], *store = open_direct();
    hf_lease *held[4];
    long long before, after;

    for (uint32_t i = 0; i < (capacity ? capacity : 1); i++)
        held[i] = take(store, &request);
    for (int i = 0; i < waiters; i++) {
        stores[i] = open_at(zk_url(ensemble->servers[0].port, root(TIMEOUT)));
        attempt_start(&attempts[i], stores[i], &request);
        AWAIT(count_waiters(store, name) == (size_t)i + 1);
        attempt_settled(&attempts[i]);
    }
    before = zk_srvr(&ensemble->servers[0], "Received: ");
    for (uint32_t i = 0; i < (capacity ? capacity : 1); i++)
        give(held[i]);
    for (int i = 0; i < waiters; i++) {
        EXPECT(HF_OK, attempt_join(&attempts[i]));
        give(attempts[i].lease);
    }
    after = zk_srvr(&ensemble->servers[0], "Received: ");
    for (int i = 0; i < waiters; i++)
        close_hard(stores[i]);
    close_store(store);
    return (double)(after - before) / waiters;
}

/* A herd of 12 would cost at least 12 / 2 each. The bound has room for heartbeats of a slow run. */
static void no_herd(void **state)
{
    static const struct {
        const char *name;
        hf_kind kind;
        uint32_t capacity;
    } cases[] = { { "mutex", HF_KIND_MUTEX, 0 },
                  { "writer", HF_KIND_EXCLUSIVE, 0 },
                  { "slots", HF_KIND_SEMAPHORE, 3 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double few = calls_each(cases[i].name, cases[i].kind, cases[i].capacity, 3);
        double many = calls_each(cases[i].name, cases[i].kind, cases[i].capacity, WAITERS_MAX);

        print_message("%s: %.1f requests each of 3 waiters, %.1f of %d\n", cases[i].name, few, many,
                      WAITERS_MAX);
        CHECK(many < few + 3);
    }
}

/* Who waits for some of several permits learns of it although it watches only one node. */
static void slots_are_filled(void **state)
{
    hf_store *store = open_direct(), *stores[6];
    hf_acquire_request request = kind_request("slots", HF_KIND_SEMAPHORE, 3, LIMIT_MS);
    struct attempt attempts[6];
    hf_lease *held[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        held[i] = take(store, &request);
    for (int i = 0; i < 6; i++) {
        stores[i] = open_direct();
        attempt_start(&attempts[i], stores[i], &request);
        AWAIT(count_waiters(store, "slots") == (size_t)i + 1);
    }
    /* Whichever holder leaves, the first waiter is next, and then the second learns that it is
     * first. */
    give(held[2]);
    EXPECT(HF_OK, attempt_join(&attempts[0]));
    give(held[0]);
    EXPECT(HF_OK, attempt_join(&attempts[1]));
    CHECK(!attempts[2].ended);
    give(attempts[0].lease);
    EXPECT(HF_OK, attempt_join(&attempts[2]));
    give(held[1]);
    EXPECT(HF_OK, attempt_join(&attempts[3]));
    give(attempts[3].lease);
    give(attempts[2].lease);
    EXPECT(HF_OK, attempt_join(&attempts[4]));
    EXPECT(HF_OK, attempt_join(&attempts[5]));
    give(attempts[1].lease);
    give(attempts[4].lease);
    give(attempts[5].lease);
    for (int i = 0; i < 6; i++)
        close_store(stores[i]);
    CHECK(nodes_of("slots") <= 0);
    close_store(store);
}

/* ---- users and rights ------------------------------------------------------------------------ */

static const char *as(const char *user, const char *query)
{
    static char url[512];

    snprintf(url, sizeof url, "zk://%s127.0.0.1:%u%s", user, (unsigned)ensemble->servers[0].port,
             root(query));
    return url;
}

static void users(void **state)
{
    hf_store *ours = open_at(as("us:sesame@", "acl=read")), *theirs = open_at(as("them:open@", ""));
    hf_store *nobody = open_at(as("", ""));
    hf_acquire_request request = mutex_request("mine");
    hf_lease *lease = take(ours, &request);

    (void)state;
    EXPECT(HF_DENIED, probe(theirs, &request));
    EXPECT(HF_DENIED, probe(nobody, &request));
    CHECK(strstr(contract_error.text, "sesame") == NULL);
    EXPECT(HF_DENIED, hf_lease_break(theirs, "mine", 4, hf_lease_token(lease), &contract_error));
    CHECK(count_holders(nobody, "mine") == 1); /* acl=read */
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    close_store(ours);
    close_store(theirs);
    close_store(nobody);
}

static void closed_to_others(void **state)
{
    hf_store *ours = open_at(as("us:sesame@", "")), *nobody = open_at(as("", ""));
    hf_acquire_request request = mutex_request("mine");
    hf_view *view = NULL;

    (void)state;
    EXPECT(HF_OK, probe(ours, &request));
    EXPECT(HF_DENIED, hf_store_inspect(nobody, "mine", 4, 0, &view, &contract_error));
    close_store(ours);
    close_store(nobody);
}

/* A server that knows no users of this kind refuses ours. Whoever opened the store without waiting hears it from the calls. */
static void refused_user(void **state)
{
    struct ensemble *strict = ensemble_start(1, TICK_MS, 10, false);
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_acquire_request request = waiting_request("n");
    hf_lease *lease = NULL;
    hf_view *view = NULL;
    hf_store *store;
    char url[64];

    (void)state;
    zk_server_kill(&strict->servers[0]);
    strict->more = "DigestAuthenticationProvider.enabled=false\n";
    zk_server_restart(&strict->servers[0]);
    snprintf(url, sizeof url, "zk://us:sesame@127.0.0.1:%u/x", (unsigned)strict->servers[0].port);
    options.flags = HF_OPEN_FLAG_NO_WAIT;
    EXPECT(HF_OK, hf_open(url, &options, &store, &contract_error));
    EXPECT(HF_DENIED, hf_acquire(store, &request, &lease, &contract_error)); /* while it connects */
    CHECK(
        strstr(contract_error.text, "authentication failed") || /* of its node, or of the session */
        strstr(contract_error.text, "refused our user"));
    CHECK(!strstr(contract_error.text, "sesame"));
    EXPECT(HF_DENIED, hf_acquire(store, &request, &lease, &contract_error)); /* when it knows */
    CHECK(strstr(contract_error.text, "refused our user"));
    EXPECT(HF_DENIED, hf_store_inspect(store, "n", 1, 0, &view, &contract_error));
    CHECK(!lease && !view);
    close_store(store);
    EXPECT(HF_OK, hf_open(url, &options, &store, &contract_error));
    EXPECT(HF_DENIED, hf_store_inspect(store, "n", 1, 0, &view, &contract_error)); /* parked */
    close_store(store);
    ensemble_free(strict);
}

/* ---- refusals --------------------------------------------------------------------------------- */

static void refusals(void **state)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store = NULL;
    char url[64];

    (void)state;
    options.open_wait_ms = 1500;
    snprintf(url, sizeof url, "zk://127.0.0.1:%u/x?nonsense=1", (unsigned)free_port());
    EXPECT(HF_CONFIG, hf_open(url, &options, &store, &contract_error));
    CHECK(strstr(contract_error.text, "nonsense") != NULL);
    *strchr(url, '?') = 0;
    EXPECT(HF_UNAVAILABLE, hf_open(url, &options, &store, &contract_error));
    EXPECT(HF_UNAVAILABLE,
           hf_open("zk://no-such-host.invalid/x", &options, &store, &contract_error));
    CHECK(strstr(contract_error.text, "no-such-host.invalid") != NULL);
    /* One of several that cannot be found, or is not there, is no harm. */
    options.open_wait_ms = LIMIT_MS;
    snprintf(url, sizeof url, "zk://127.0.0.1:%u,127.0.0.1:%u/x", (unsigned)free_port(),
             (unsigned)ensemble->servers[0].port);
    EXPECT(HF_OK, hf_open(url, &options, &store, &contract_error));
    close_store(store);
}

/* The server's limits on timeouts are what leases get, and what hf_store_get() says. */
static void negotiated(void **state)
{
    hf_store *store = open_at(zk_url(ensemble->servers[0].port, root("timeout=1h")));
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_acquire_request request = mutex_request("long");
    hf_lease *lease = take(store, &request);

    (void)state;
    EXPECT(HF_OK, hf_store_get(store, &info));
    CHECK(info.max_ttl_ms == (int64_t)20 * TICK_MS);
    CHECK(hf_lease_remaining_ms(lease) < (int64_t)20 * TICK_MS);
    give(lease);
    close_store(store);
}

/* ---- cells ------------------------------------------------------------------------------------- */

static const struct hfi_engine *engine;

static void woken(struct hfi_host *host)
{
    (void)host;
}

static struct hfi_host host = { .label = "cells", .wake = woken };

static void *open_engine(void)
{
    host.open_deadline_ms = hfi_now_ms() + LIMIT_MS;
    return direct_open(zk_url(ensemble->servers[0].port, root("")), &host, &engine);
}

static hf_status cell(void *store, enum hfi_op_kind kind, struct hfi_op *op, uint64_t version,
                      const char *bytes)
{
    static const unsigned char name[] = "st/ock";

    hfi_op_init(op, engine, kind, NULL, hfi_now_ms() + LIMIT_MS);
    memset(&op->u.cell, 0, sizeof op->u.cell);
    op->u.cell.name.bytes = name;
    op->u.cell.name.len = sizeof name - 1;
    hfi_hash128(name, sizeof name - 1, op->u.cell.name.hash);
    op->u.cell.version = version;
    op->u.cell.bytes = bytes;
    op->u.cell.len = bytes ? strlen(bytes) : 0;
    engine->submit(store, op);
    while (!hfi_op_finished(op))
        engine->drive->turn(store, hfi_now_ms() + 100);
    return hfi_op_status(op);
}

static void cells(void **state)
{
    void *store = open_engine(), *other = open_engine();
    uint64_t first, second, third;
    struct hfi_op op;

    (void)state;
    EXPECT(HF_NOT_FOUND, cell(store, HFI_OP_CELL_READ, &op, 0, NULL));
    EXPECT(HF_OK, cell(store, HFI_OP_CELL_SWAP, &op, 0, "ten"));
    first = op.u.cell.ret_version;
    CHECK(first > 0);
    EXPECT(HF_BUSY, cell(other, HFI_OP_CELL_SWAP, &op, 0, "again"));
    CHECK(op.u.cell.ret_version == first);
    EXPECT(HF_OK, cell(other, HFI_OP_CELL_SWAP, &op, first, "nine"));
    second = op.u.cell.ret_version;
    CHECK(second > first);
    EXPECT(HF_BUSY, cell(store, HFI_OP_CELL_SWAP, &op, first, "late"));
    EXPECT(HF_OK, cell(store, HFI_OP_CELL_READ, &op, 0, NULL));
    CHECK(op.u.cell.ret_version == second && op.u.cell.ret_len == 4);
    CHECK(memcmp(op.u.cell.ret_bytes, "nine", 4) == 0);
    hfi_free(op.u.cell.ret_bytes);
    EXPECT(HF_OK, cell(store, HFI_OP_CELL_SWAP, &op, second, NULL));
    EXPECT(HF_NOT_FOUND, cell(store, HFI_OP_CELL_READ, &op, 0, NULL));
    EXPECT(HF_BUSY, cell(store, HFI_OP_CELL_SWAP, &op, second, "ghost"));
    /* Made again, and written as often: its version is another one all the same. */
    EXPECT(HF_OK, cell(store, HFI_OP_CELL_SWAP, &op, 0, "new"));
    third = op.u.cell.ret_version;
    CHECK(third > second);
    EXPECT(HF_BUSY, cell(other, HFI_OP_CELL_SWAP, &op, first, "stale"));
    EXPECT(HF_OK, cell(other, HFI_OP_CELL_SWAP, &op, third, ""));
    EXPECT(HF_OK, cell(store, HFI_OP_CELL_READ, &op, 0, NULL));
    CHECK(op.u.cell.ret_len == 0);
    hfi_free(op.u.cell.ret_bytes);
    direct_close(engine, other);
    direct_close(engine, store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(no_herd),      TEST(slots_are_filled), TEST(users),      TEST(closed_to_others),
        TEST(refused_user), TEST(refusals),         TEST(negotiated), TEST(cells),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    bed_begin(1, 10, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
