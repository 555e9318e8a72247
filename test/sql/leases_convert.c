/* SPDX-License-Identifier: MIT */
/* mode=lease: a lease that becomes one of another kind; see leases.h. */
#include "leases.h"

#define MAX (1 << 30) /* permits of a writer */

static hf_acquire_request rw(const char *name, hf_kind kind)
{
    hf_acquire_request request = mutex_request(name);

    request.kind = kind;
    request.ttl_ms = 10 * LIMIT_MS;
    request.flags = HF_FLAG_NO_DEADLOCK_CHECK; /* one thread plays several parts */
    return request;
}

/* Convert while the server is silent. The statement may not have been sent (another one was under way, or it is not prepared yet): then
 * nothing has happened, and the lease is the same as before. */
static hf_status convert_in_silence(hf_store *store, hf_lease **lease, int64_t wait_ms)
{
    hf_acquire_request request = rw("convert", HF_KIND_EXCLUSIVE);
    hf_lease *same;
    hf_status status;

    *lease = take(store, &request);
    EXPECT(HF_OK, hf_convert(lease, HF_KIND_UPGRADEABLE, 0, &contract_error));
    same = *lease;
    nap_ms(20);
    db_pause(leases_db);
    status = hf_convert(lease, HF_KIND_SHARED, wait_ms, &contract_error);
    CHECK(*lease == same && (hf_lease_state(same) == HF_STATE_LOST) == (status == HF_UNKNOWN));
    db_continue(leases_db);
    if (status != HF_UNKNOWN) {
        CHECK(status == HF_UNAVAILABLE || status == HF_TIMEOUT);
        AWAIT(hf_renew(same, 0, &contract_error) == HF_OK);
        give(same);
    }
    return status;
}

/* What becomes of it nobody knows, so it is lost, and before its place is given back. */
static void conversion_is_lost(void **state)
{
    hf_store *store = leases_open("&op_timeout=900ms");
    hf_lease *lease;

    (void)state;
    for (int64_t wait_ms = 0; wait_ms < 2000; wait_ms += 1000) {
        AWAIT(convert_in_silence(store, &lease, wait_ms) == HF_UNKNOWN);
        EXPECT(HF_LOST, hf_release(lease, NULL));
        AWAIT(count_holders(store, "convert") == 0);
    }
    leases_close(store);
}

/* Call the routine for a claim with a ttl of 50 ms and a window of 60, in the place of the only holder; `wait`: it may wait. */
static void claim(const char *owner, int permits, int wait)
{
    if (leases_db->kind == DB_POSTGRES)
        db_do(
            leases_db,
            "SELECT verdict = 'G' FROM hfl_claim_1('term', '%s', 1, %d, %d, 0, 50, 0, 1, %d, 60, "
            "5, "
            "NULL, (SELECT coalesce(n.owner, h.owner) FROM hfl_names n LEFT JOIN hfl_holders h ON "
            "h.name = n.name AND h.permits > 1 WHERE n.name = 'term'))",
            owner, MAX, permits, wait);
    else
        db_do(leases_db,
              "CALL hfl_claim('term', '%s', 1, %d, %d, 0, 50, 0, 1, %d, 60, 5, '', (SELECT "
              "IF(x_owner "
              "<> '', x_owner, (SELECT owner FROM hfl_claims c WHERE c.name = 'term' AND permits > "
              "1)) "
              "FROM hfl_names WHERE name = 'term'))",
              owner, MAX, permits, wait);
}

/* For how many ms more this owner holds it; 0: it does not. */
static long long rest_of(const char *owner)
{
    if (leases_db->kind == DB_POSTGRES)
        return db_do(leases_db,
                     "SELECT coalesce(max(u - hfl_us_1()) / 1000, 0) FROM (SELECT soon AS u FROM "
                     "hfl_names WHERE "
                     "owner = '%s' UNION ALL SELECT until FROM hfl_holders WHERE owner = '%s') x",
                     owner, owner);
    return db_do(
        leases_db,
        "SELECT COALESCE((MAX(u) - UNIX_TIMESTAMP(SYSDATE(6)) * 1000000) DIV 1000, 0) FROM (SELECT "
        "x_until AS u FROM hfl_names WHERE x_owner = '%s' UNION ALL SELECT until FROM hfl_claims "
        "WHERE owner = '%s' AND state <> 'W') x",
        owner, owner);
}

/* The holder counts on its term until it has the answer: the one that takes its place has no shorter one, whatever ttl or window it asked for. */
static void term_is_not_shorter(void **state)
{
    hf_acquire_request request = rw("term", HF_KIND_EXCLUSIVE), shared = rw("term", HF_KIND_SHARED);
    hf_store *store = leases_open("");
    hf_lease *lease, *reader;

    (void)state;
    lease = take(store, &request);
    claim("to a reader 1234", 1, 0);
    CHECK(rest_of("to a reader 1234") > 8 * LIMIT_MS);
    EXPECT(HF_LOST, hf_release(lease, NULL));
    db_do(leases_db, "DELETE FROM hfl_names WHERE name = 'term'");
    db_do(leases_db, "DELETE FROM hfl_%s WHERE name = 'term'",
          leases_db->kind == DB_POSTGRES ? "holders" : "claims");

    request.kind = HF_KIND_UPGRADEABLE;
    lease = take(store, &request);
    claim("at once, to all.", MAX, 0);
    CHECK(rest_of("at once, to all.") > 8 * LIMIT_MS);
    claim("and back: half..", MAX / 2 + 1, 0);
    CHECK(rest_of("and back: half..") > 8 * LIMIT_MS && rest_of("at once, to all.") == 0);
    EXPECT(HF_LOST, hf_release(lease, NULL));

    reader = take(store, &shared);
    claim("it has to wait..", MAX, 1);
    CHECK(rest_of("it has to wait..") == 0 && count_waiters(store, "term") <= 1);
    if (leases_db->kind == DB_POSTGRES) /* a client that lives, as one of version 1 */
        db_do(leases_db,
              "INSERT INTO hfl_clients (client, until) VALUES (5, hfl_us_1() + 60000000)");
    else
        db_do(leases_db, "SELECT GET_LOCK('holdfast.5', 0)");
    give(reader);
    CHECK(rest_of("it has to wait..") > 8 * LIMIT_MS && rest_of("and back: half..") == 0);
    if (leases_db->kind != DB_POSTGRES)
        db_do(leases_db, "SELECT RELEASE_LOCK('holdfast.5')");
    close_store(store);
}

const struct CMUnitTest leases_convert_cases[] = {
    cmocka_unit_test(conversion_is_lost),
    cmocka_unit_test(term_is_not_shorter),
};
const size_t leases_convert_count = sizeof leases_convert_cases / sizeof *leases_convert_cases;
