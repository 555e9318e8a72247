/* SPDX-License-Identifier: MIT */
/*
 * mode=lease: names that are used once, and processes that come and go. What they leave behind is removed as fast as it is made.
 * CHURN_NAMES=100000 in the environment is the long form; a few thousand show the same.
 */
#include "leases.h"

#include <stdio.h>
#include <stdlib.h>

#define PROCESSES 400
#define ROUNDS    10
#define NAMES     2000  /* in all rounds */
#define MINUTE_MS 61000 /* after which a name is idle */
#define HOUR_MS   INT64_C(3600000)

static bool is_postgres(void)
{
    return leases_db->kind == DB_POSTGRES;
}

static long long rows_of(const char *table)
{
    return db_do(leases_db, "SELECT count(*) FROM hfc_%s", table);
}

static hf_store *open_churn(void)
{
    hf_store *store = NULL;

    EXPECT(HF_OK, hf_open(leases_url("c", ""), NULL, &store, &contract_error));
    return store;
}

static void use_once(hf_store *store, unsigned number)
{
    char name[32];
    hf_acquire_request request;

    snprintf(name, sizeof name, "order-%u", number);
    request = mutex_request(name);
    give(take(store, &request));
}

/* The clock of these cases begins an hour back and never comes to what it really is: MariaDB's SLEEP(), by which a store is opened, would
 * sleep until then. */
static int64_t behind_ms;

static void begin_an_hour_back(void)
{
    behind_ms = HOUR_MS;
    leases_clock_jump(-behind_ms);
}

static void end_now(void)
{
    leases_clock_jump(behind_ms);
}

/* A minute has passed, and the server has done what it does each minute. */
static void pass_a_minute(void)
{
    leases_clock_jump(MINUTE_MS);
    behind_ms -= MINUTE_MS;
    if (is_postgres())
        db_do(leases_db, "VACUUM hfc_names");
}

/* Each round is a minute and uses fresh names, by two processes one after the other. The rows of two rounds are there at most, of one whose
 * minute is not over, and of one that is being removed; a sweep may lag behind by one more. */
static void a_name_for_each_order(void **state)
{
    const char *given = getenv("CHURN_NAMES");
    unsigned each = (given ? (unsigned)atoi(given) : NAMES) / ROUNDS, number = 0;
    long long most = 0;

    (void)state;
    begin_an_hour_back();
    for (int round = 0; round < ROUNDS; round++) {
        for (int half = 0; half < 2; half++) {
            hf_store *store = open_churn();

            for (unsigned i = 0; i < each / 2; i++)
                use_once(store, number++);
            close_store(store);
        }
        most = rows_of("names") > most ? rows_of("names") : most;
        pass_a_minute();
    }
    printf("%u names, each used once: at most %lld rows at a time\n", number, most);
    CHECK(most <= 3 * (long long)each + 1);
    end_now();
}

/* A process for each order. One close in four sweeps, by chance, and a sweep sees a part of the table: so what stays is bounded generously, and far below
 * what was made. */
static void a_process_for_each_order(void **state)
{
    (void)state;
    begin_an_hour_back();
    for (unsigned i = 0; i < PROCESSES; i++) {
        hf_store *store = open_churn();

        use_once(store, 1000000 + i);
        close_store(store);
        if (i % 10 == 9)
            pass_a_minute();
    }
    printf("%d processes, a name each: %lld rows in the end\n", PROCESSES, rows_of("names"));
    CHECK(rows_of("names") <= PROCESSES * 3 / 5);
    end_now();
}

/* Waiters and holders that are told of them leave nothing when they close, also a holder that never listened. */
static void who_closes_leaves_nothing(void **state)
{
    hf_store *store = open_churn(), *second = open_churn();
    hf_acquire_request request = mutex_request("told"), wait = waiting_request("told");
    struct attempt attempt;
    hf_lease *lease;

    (void)state;
    request.flags |= HF_FLAG_WATCH;
    lease = take(store, &request);
    attempt_start(&attempt, second, &wait);
    AWAIT(count_waiters(store, "told") == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    CHECK(rows_of("clients") > 0);
    close_store(second);
    close_store(store);
    CHECK(rows_of("clients") == 0);
    CHECK(rows_of(is_postgres() ? "mail" : "letters") == 0);
}

/* Letters to a client that has never listened, and died: they go with the row that the sweep makes for it. PostgreSQL. */
static void letters_to_nobody(void **state)
{
    (void)state;
    if (!is_postgres())
        return;
    close_store(open_churn()); /* the tables are there */
    db_do(leases_db, "INSERT INTO hfc_mail (client, words) VALUES (4711, 'W'), (4711, 'U')");
    db_do(leases_db, "SELECT hfc_sweep_1(1)");
    CHECK(rows_of("mail") == 2);
    leases_clock_jump(MINUTE_MS);
    db_do(leases_db, "SELECT hfc_sweep_1(1)");
    CHECK(rows_of("mail") == 0);
}

static void sweep_all(void)
{
    if (is_postgres()) /* from the beginning: a sweep of the whole table leaves the mark where it is */
        db_do(leases_db, "UPDATE hfc_names SET head = 0 WHERE name = ''");
    for (int i = 0; i < 2; i++) /* MariaDB's mark may be anywhere */
        db_do(leases_db, is_postgres() ? "SELECT hfc_sweep_1(100000)" : "CALL hfc_sweep(100000)");
}

static uint64_t token_of(hf_store *store, const hf_acquire_request *request)
{
    hf_lease *lease = take(store, request);
    uint64_t token = hf_lease_token(lease);

    give(lease);
    return token;
}

static uint64_t raised(const char *name)
{
    return (uint64_t)db_do(
        leases_db, is_postgres() ? "SELECT hfc_token_1('%s', 1)" : "CALL hfc_token('%s', 1)", name);
}

/* The row of a name goes, the clock goes back by more than any row is kept, and the name is used again: its token is larger all the same. */
static void tokens_of_a_name_that_is_made_again(void **state)
{
    hf_store *store = open_churn();
    hf_acquire_request request = mutex_request("again"), sized = mutex_request("sized");
    uint64_t token = token_of(store, &request), other, bare = raised("bare");

    (void)state;
    sized.kind = HF_KIND_SEMAPHORE;
    sized.capacity = 3;
    sized.permits = 1;
    other = token_of(store, &sized);
    leases_clock_jump(MINUTE_MS);
    sweep_all();
    CHECK(rows_of("names WHERE name IN ('again', 'sized', 'bare')") == 0);
    leases_clock_jump(-3 * HOUR_MS);
    CHECK(token_of(store, &request) > token);
    EXPECT(HF_OK, hf_semaphore_resize(store, "sized", HF_CSTRING, 2, &contract_error));
    EXPECT(HF_OK, hf_semaphore_resize(store, "sized", HF_CSTRING, 0, &contract_error));
    CHECK(token_of(store, &sized) > other);
    CHECK(raised("bare") > bare);
    leases_clock_jump(3 * HOUR_MS);
    close_store(store);
}

const struct CMUnitTest leases_churn_cases[] = {
    cmocka_unit_test(a_name_for_each_order),
    cmocka_unit_test(a_process_for_each_order),
    cmocka_unit_test(who_closes_leaves_nothing),
    cmocka_unit_test(letters_to_nobody),
    cmocka_unit_test(tokens_of_a_name_that_is_made_again),
};
const size_t leases_churn_count = sizeof leases_churn_cases / sizeof *leases_churn_cases;
