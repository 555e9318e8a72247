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

/* ---- the answer does not come -------------------------------------------------------------- */

/* One connection, on which a conversion was made before: so the next one is a single statement. */
#define BEHIND "&op_timeout=900ms&connections=1"

/* The stores of one such case. */
struct cut_off {
    struct proxy *proxy;
    hf_store *store;        /* behind the proxy */
    hf_store *direct;       /* another client */
    hf_lease *lease, *warm; /* of `store` */
    unsigned made;          /* connections, before the conversion */
    struct attempt writer;
};

/* The listener has its connection: one more is made only when a connection of the pool was given up. */
static void cut_off_begin(struct cut_off *c)
{
    hf_acquire_request warm = mutex_request("warm");

    c->proxy = proxy_start(leases_db->port);
    c->store = leases_open_behind(c->proxy, BEHIND);
    c->direct = leases_open("");
    warm.flags |= HF_FLAG_WATCH;
    warm.ttl_ms = 10 * LIMIT_MS;
    c->warm = take(c->store, &warm);
    AWAIT(proxy_connections(c->proxy) > 1);
}

static void cut_off_end(struct cut_off *c)
{
    (void)hf_release(c->warm, NULL);
    leases_close(c->store);
    close_store(c->direct);
    proxy_stop(c->proxy);
}

/* An upgradeable reader. What is left of the writer that it was is given back in the background. A conversion that comes too soon for that
 * may wait for the connection, and not be sent: the cases try again then. */
static void take_upgradeable(struct cut_off *c)
{
    hf_acquire_request request = rw("cut", HF_KIND_EXCLUSIVE);

    request.wait_ms = LIMIT_MS;
    c->lease = take(c->store, &request);
    EXPECT(HF_OK, hf_convert(&c->lease, HF_KIND_UPGRADEABLE, 0, &contract_error));
    nap_ms(20);
}

/* The try was not what the case wanted: nothing is left of it. */
static void give_up_try(struct cut_off *c)
{
    proxy_heal(c->proxy);
    (void)hf_release(c->lease, NULL);
    AWAIT(count_holders(c->direct, "cut") == 0);
}

/* A writer of the other client waits: whoever is in the store now is in its way. */
static void start_writer(struct cut_off *c)
{
    hf_acquire_request request = rw("cut", HF_KIND_EXCLUSIVE);

    request.wait_ms = LIMIT_MS;
    attempt_start(&c->writer, c->direct, &request);
    AWAIT(count_waiters(c->direct, "cut") == 1);
}

/* It is granted, long before the ttl of anything that might have been left. */
static void writer_gets_it(struct cut_off *c)
{
    EXPECT(HF_OK, attempt_join(&c->writer));
    CHECK(hf_lease_state(c->lease) == HF_STATE_LOST);
    CHECK(count_holders(c->direct, "cut") == 1);
    give(c->writer.lease);
}

/* Is the reader there that the lease was to become? */
static bool is_converted(void)
{
    return db_do(leases_db, "SELECT count(*) FROM hfl_%s WHERE name = 'cut' AND permits = 1",
                 leases_db->kind == DB_POSTGRES ? "holders" : "claims") == 1;
}

/* Begin a conversion that is executed, and whose answer is kept back. false: it was not sent. */
static bool convert_unheard(struct cut_off *c, struct both *end)
{
    *end = (struct both){ .done = false };
    take_upgradeable(c);
    c->made = proxy_connections(c->proxy);
    proxy_block(c->proxy, PROXY_DOWN, true);
    EXPECT(HF_OK,
           hf_convert_async(c->lease, HF_KIND_SHARED, 0, both_done, end, NULL, &contract_error));
    AWAIT(hf_store_process(c->store) == HF_OK && (is_converted() || end->done));
    if (!end->done)
        return true;
    give_up_try(c);
    return false;
}

/* The network is well again before the call has ended. HF_OK: too soon, and the answer came. */
static hf_status convert_cut_off(struct cut_off *c)
{
    struct both end;
    hf_status status;

    AWAIT(convert_unheard(c, &end));
    start_writer(c);
    AWAIT(proxy_connections(c->proxy) > c->made); /* it gave up the connection with the answer */
    proxy_heal(c->proxy);
    for (int i = 0; i < 1500 && !c->writer.ended; i++) /* longer than an engine tries */
        nap_ms(2);
    CHECK(!c->writer.ended || hf_lease_state(c->lease) == HF_STATE_LOST);
    status = both_end(c->store, HF_OK, &end, &contract_error);
    if (status == HF_OK) {
        give(end.result.lease);
        writer_gets_it(c);
    }
    return status;
}

/* The engine could give the claim back by itself. It must not: the holder counts on its lease until it is told, and the writer would be
 * granted meanwhile. */
static void answer_is_cut_off(void **state)
{
    struct cut_off c;
    hf_status status;

    (void)state;
    cut_off_begin(&c);
    AWAIT((status = convert_cut_off(&c)) != HF_OK);
    CHECK(hf_lease_state(c.lease) == HF_STATE_LOST);
    EXPECT(HF_UNKNOWN, status);
    writer_gets_it(&c);
    EXPECT(HF_LOST, hf_release(c.lease, NULL));
    cut_off_end(&c);
}

/* Convert while nothing reaches the server. */
static hf_status convert_into_the_void(struct cut_off *c)
{
    hf_lease *same;
    hf_status status;

    take_upgradeable(c);
    same = c->lease;
    proxy_block(c->proxy, PROXY_UP, true);
    status = hf_convert(&c->lease, HF_KIND_SHARED, 0, &contract_error);
    CHECK(c->lease == same);
    if (status != HF_UNKNOWN)
        give_up_try(c);
    return status;
}

/* The statement arrives after core has given back what it might have done, while the holder that it replaces is still in the store: by then
 * its session has been ended, so it grants nothing. */
static void conversion_arrives_late(void **state)
{
    struct cut_off c;

    (void)state;
    cut_off_begin(&c);
    AWAIT(convert_into_the_void(&c) == HF_UNKNOWN);
    CHECK(hf_lease_state(c.lease) == HF_STATE_LOST);
    CHECK(!is_converted() && count_holders(c.direct, "cut") == 1);
    start_writer(&c);
    proxy_cut_late(c.proxy);
    c.made = proxy_connections(c.proxy);
    proxy_heal(c.proxy);
    AWAIT(proxy_connections(c.proxy) > c.made);
    /* Core's release is answered meanwhile. If not, it comes after the statement, and undoes it. */
    nap_ms(1500);
    proxy_deliver(c.proxy);
    EXPECT(HF_LOST, hf_release(c.lease, NULL));
    EXPECT(HF_OK, attempt_join(&c.writer));
    give(c.writer.lease);
    cut_off_end(&c);
}

/* ---- the term ------------------------------------------------------------------------------ */

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
    cmocka_unit_test(answer_is_cut_off),
    cmocka_unit_test(conversion_arrives_late),
    cmocka_unit_test(term_is_not_shorter),
};
const size_t leases_convert_count = sizeof leases_convert_cases / sizeof *leases_convert_cases;
