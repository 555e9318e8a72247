/* SPDX-License-Identifier: MIT */
/* Cells that are bound to a lease: seen while it is in the store, and not a moment longer. */
#include "both.h"
#include "peer.h"

#include <string.h>

#define NEEDED (HF_CAP_CELLS | HF_CAP_INSPECT | HF_CAP_TOKEN)

static hf_status bind(hf_lease *lease, const char *text)
{
    return hf_lease_cell_set(lease, "address", HF_CSTRING, text, strlen(text), &contract_error);
}

/* NULL: there is none. */
static bool shows(hf_store *store, const char *text)
{
    hf_cell cell = HF_CELL_INIT;
    hf_status status = hf_lease_cell_get(store, "address", HF_CSTRING, &cell, &contract_error);
    bool same = text && status == HF_OK && strcmp(cell.bytes, text) == 0;

    CHECK(status == HF_OK || status == HF_NOT_FOUND);
    if (status == HF_OK)
        CHECK(cell.version > 0 && cell.len == strlen(cell.bytes));
    hf_free(cell.bytes);
    return text ? same : status == HF_NOT_FOUND;
}

static void unsupported(void **state)
{
    hf_acquire_request request = mutex_request("lock");
    hf_cell cell = HF_CELL_INIT;
    hf_lease *lease;
    hf_store *store;

    (void)state;
    if (has(NEEDED))
        return;
    store = open_store();
    lease = take(store, &request);
    EXPECT(HF_UNSUPPORTED, bind(lease, "x"));
    CHECK(strstr(contract_error.text, contract_info.engine) != NULL);
    EXPECT(HF_UNSUPPORTED, hf_lease_cell_get(store, "address", HF_CSTRING, &cell, &contract_error));
    give(lease);
    close_store(store);
}

static void while_it_is_held(void **state)
{
    hf_acquire_request request = mutex_request("lock"), another = mutex_request("another");
    hf_lease *lease, *second;
    hf_store *store, *other;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    other = open_store();
    CHECK(shows(other, NULL));
    lease = take(store, &request);
    EXPECT(HF_OK, bind(lease, "one"));
    CHECK(shows(other, "one"));
    EXPECT(HF_OK, bind(lease, "two")); /* again and again */
    EXPECT(HF_OK, bind(lease, ""));
    CHECK(shows(other, ""));
    EXPECT(HF_OK, bind(lease, "three"));

    second = take(other, &another);
    EXPECT(HF_BUSY, bind(second, "mine")); /* it belongs to a lease that is held */
    CHECK(shows(store, "three"));
    give(lease);
    CHECK(shows(store, NULL) && shows(other, NULL));
    EXPECT(HF_OK, bind(second, "mine"));
    CHECK(shows(store, "mine"));
    lease = take(store, &request); /* the same name again is another lease */
    CHECK(shows(store, "mine"));
    give(second);
    CHECK(shows(store, NULL));
    give(lease);
    EXPECT(HF_INVALID, bind(lease, "late"));
    close_store(other);
    close_store(store);
}

/* A lease with a cell is neither passed on in the process, nor does it linger. */
static void next_holder_does_not_inherit(void **state)
{
    hf_acquire_request request = waiting_request("lock");
    struct attempt attempt;
    hf_lease *lease;
    hf_store *store;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    for (int round = 0; round < 3; round++) {
        lease = take(store, &request);
        EXPECT(HF_OK, bind(lease, "first"));
        attempt_start(&attempt, store, &request);
        attempt_settled(&attempt);
        give(lease);
        EXPECT(HF_OK, attempt_join(&attempt));
        CHECK(shows(store, NULL));
        give(attempt.lease);
    }
    close_store(store);
    if (!has(HF_CAP_LINGER))
        return;
    contract_param("linger=500ms");
    store = open_store();
    lease = take(store, &request);
    EXPECT(HF_OK, bind(lease, "lingers"));
    give(lease);
    CHECK(shows(store, NULL));
    close_store(store);
}

static void however_it_ends(void **state)
{
    hf_acquire_request request = mutex_request("lock");
    hf_lease *lease;
    hf_store *store, *other;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    if (has(HF_CAP_BREAK)) {
        lease = take(store, &request);
        EXPECT(HF_OK, bind(lease, "broken"));
        EXPECT(HF_OK, hf_lease_break(store, "lock", 4, hf_lease_token(lease), &contract_error));
        CHECK(shows(store, NULL));
        await_lost(lease);
        EXPECT(HF_LOST, bind(lease, "late"));
        CHECK(shows(store, NULL));
        (void)hf_release(lease, NULL);
    }
    if (has(HF_CAP_TTL)) {
        hf_acquire_request brief = mutex_request("brief");

        brief.ttl_ms =
            contract_info.min_ttl_ms > HF_TTL_MIN_MS ? contract_info.min_ttl_ms : HF_TTL_MIN_MS;
        brief.flags = HF_FLAG_NO_RENEW;
        brief.wait_ms = LIMIT_MS;
        lease = take(store, &brief);
        if (bind(lease, "expires") == HF_OK) /* it may be over already, on a slow machine */
            AWAIT(shows(store, NULL));
        (void)hf_release(lease, NULL);
    }
    other = open_store();
    lease = take(other, &request);
    EXPECT(HF_OK, bind(lease, "closes"));
    EXPECT(HF_OK, hf_close(other, HF_CLOSE_FLAG_RELEASE));
    AWAIT(shows(store, NULL));
    (void)hf_release(lease, NULL);
    close_store(store);
}

static void refused(void **state)
{
    static char large[HF_LEASE_CELL_MAX + 1];
    hf_acquire_request request = mutex_request("lock"), shared = mutex_request("shared");
    hf_cell_request plain = HF_CELL_REQUEST_INIT;
    hf_cell cell = HF_CELL_INIT;
    hf_lease *lease;
    hf_store *store;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    lease = take(store, &request);
    EXPECT(HF_INVALID, hf_lease_cell_set(lease, "", 0, "x", 1, &contract_error));
    EXPECT(HF_INVALID, hf_lease_cell_set(lease, "a", 1, NULL, 1, &contract_error));
    EXPECT(HF_INVALID, hf_lease_cell_set(lease, "a", 1, large, sizeof large, &contract_error));
    EXPECT(HF_OK, hf_lease_cell_set(lease, "a", 1, large, HF_LEASE_CELL_MAX, &contract_error));
    EXPECT(HF_INVALID, hf_lease_cell_get(store, "a", 1, NULL, &contract_error));
    /* Two kinds of cells are never mistaken for each other. */
    EXPECT(HF_MISMATCH, hf_cell_get(store, "a", 1, &cell, &contract_error));
    plain.name = "plain";
    plain.name_len = HF_CSTRING;
    EXPECT(HF_OK, hf_cell_set(store, &plain, NULL, &contract_error));
    EXPECT(HF_MISMATCH, hf_lease_cell_set(lease, "plain", 5, "x", 1, &contract_error));
    EXPECT(HF_MISMATCH, hf_lease_cell_get(store, "plain", 5, &cell, &contract_error));
    give(lease);
    if (has(HF_CAP_SHARED)) {
        shared.kind = HF_KIND_SHARED;
        lease = take(store, &shared);
        EXPECT(HF_UNSUPPORTED, bind(lease, "x"));
        give(lease);
    }
    close_store(store);
}

/* What is left of a cell keeps its name, and can be deleted by its version. */
static void remnant_is_deleted(void **state)
{
    hf_acquire_request request = mutex_request("lock");
    hf_cell_request plain = HF_CELL_REQUEST_INIT;
    uint64_t version = 0, bound;
    hf_lease *lease;
    hf_store *store;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    lease = take(store, &request);
    EXPECT(HF_OK, bind(lease, "here"));
    give(lease);
    CHECK(shows(store, NULL));
    plain.name = "address";
    plain.name_len = HF_CSTRING;
    EXPECT(HF_MISMATCH, hf_cell_set(store, &plain, NULL, &contract_error));
    EXPECT(HF_OK, hf_cell_wait(store, &plain, &version, &contract_error));
    CHECK(version > 0);

    lease = take(store, &request); /* it is bound again: the version that was read is an old one */
    EXPECT(HF_OK, bind(lease, "again"));
    EXPECT(HF_CHANGED, hf_cell_delete(store, "address", HF_CSTRING, version, &contract_error));
    CHECK(shows(store, "again"));
    give(lease);
    EXPECT(HF_OK, hf_cell_wait(store, &plain, &bound, &contract_error));
    CHECK(bound != version);
    EXPECT(HF_OK, hf_cell_delete(store, "address", HF_CSTRING, bound, &contract_error));
    EXPECT(HF_OK, hf_cell_set(store, &plain, NULL, &contract_error)); /* free for any use */
    close_store(store);
}

int contract_bound(void)
{
    const struct CMUnitTest cases[] = {
        CASE(unsupported),     CASE(while_it_is_held), CASE(next_holder_does_not_inherit),
        CASE(however_it_ends), CASE(refused),          CASE(remnant_is_deleted),
    };

    return cmocka_run_group_tests_name("bound", cases, NULL, NULL);
}
