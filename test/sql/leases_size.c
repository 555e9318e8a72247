/* SPDX-License-Identifier: MIT */
/* mode=lease: permits with numbers, and semaphores whose size is set; see leases.h. */
#include "leases.h"

#include <stdio.h>

static hf_acquire_request slots(const char *name, uint32_t permits, uint32_t capacity)
{
    hf_acquire_request request = mutex_request(name);

    request.kind = HF_KIND_SEMAPHORE;
    request.permits = permits;
    request.capacity = capacity;
    request.flags = HF_FLAG_NO_DEADLOCK_CHECK;
    return request;
}

/* The size as the store shows it; 0: it was not set. */
static uint32_t size_of(hf_store *store, const char *name)
{
    hf_view *view = NULL;
    uint32_t size = 0;

    EXPECT(HF_OK, hf_store_inspect(store, name, HF_CSTRING, 0, &view, &contract_error));
    if (hf_view_count(view) == 1 && hf_view_entry(view, 0)->resized)
        size = hf_view_entry(view, 0)->capacity;
    hf_free(view);
    return size;
}

/* The server is silent: it may have been set or not, and nobody says that it was. It is set again. */
static void resize_of_unknown_outcome(void **state)
{
    hf_store *store = leases_open("&op_timeout=900ms");
    hf_status status;
    uint32_t size;

    (void)state;
    EXPECT(HF_OK, hf_semaphore_resize(store, "silent", HF_CSTRING, 2, &contract_error));
    nap_ms(20);
    db_pause(leases_db);
    status = hf_semaphore_resize(store, "silent", HF_CSTRING, 5, &contract_error);
    CHECK(status == HF_UNKNOWN ||
          status == HF_UNAVAILABLE); /* not prepared on another connection */
    db_continue(leases_db);
    AWAIT((size = size_of(store, "silent")) == 2 || size == 5);
    AWAIT(hf_semaphore_resize(store, "silent", HF_CSTRING, 4, &contract_error) == HF_OK);
    EXPECT(HF_OK, hf_semaphore_resize(store, "silent", HF_CSTRING, 0, &contract_error));
    CHECK(size_of(store, "silent") == 0);
    leases_close(store);
}

static void sweep(void)
{
    if (leases_db->kind == DB_POSTGRES) {
        db_do(leases_db, "UPDATE hfl_names SET last = 1 WHERE name IN ('kept', 'idle')");
        db_do(leases_db, "UPDATE hfl_names SET head = 0 WHERE name = ''"); /* from the beginning */
        db_do(leases_db, "SELECT hfl_sweep_1(100000)");
    } else {
        db_do(leases_db, "UPDATE hfl_names SET token = 1 WHERE name IN ('kept', 'idle')");
        db_do(leases_db, "DELETE FROM hfl_meta WHERE item = 'sweep'");
        db_do(leases_db, "CALL hfl_sweep(10000)");
    }
}

/* A size is kept although nobody uses the name for hours; and the statement by which a client of an older version takes a free name finds no
 * row: its call comes to the routine, which knows the size. */
static void size_is_kept(void **state)
{
    hf_acquire_request request = slots("kept", 3, 3), other = slots("idle", 1, 3);
    hf_store *store = leases_open("");
    hf_lease *leases[2];

    (void)state;
    give(take(store, &other));
    EXPECT(HF_OK, hf_semaphore_resize(store, "kept", HF_CSTRING, 2, &contract_error));
    sweep();
    CHECK(db_do(leases_db, "SELECT count(*) FROM hfl_names WHERE name = 'idle'") == 0);
    CHECK(db_do(leases_db, "SELECT count(*) FROM hfl_names WHERE name = 'kept' AND holders = 0") ==
          0);
    CHECK(size_of(store, "kept") == 2);
    EXPECT(HF_MISMATCH, probe(store, &request));
    request.permits = 1;
    for (int i = 0; i < 2; i++)
        leases[i] = take(store, &request);
    EXPECT(HF_BUSY, probe(store, &request));
    give(leases[0]);
    give(leases[1]);
    sweep();
    CHECK(size_of(store, "kept") == 2);
    EXPECT(HF_OK, hf_semaphore_resize(store, "kept", HF_CSTRING, 0, &contract_error));
    sweep();
    CHECK(db_do(leases_db, "SELECT count(*) FROM hfl_names WHERE name = 'kept'") == 0);
    close_store(store);
}

/* A holder of all permits gets another record when a size is set: it is renewed, seen and released as before. */
static void holder_of_all_is_moved(void **state)
{
    hf_acquire_request all = slots("all", 3, 3), one = slots("all", 1, 3);
    hf_store *store = leases_open(""), *second = leases_open("");
    hf_lease *lease, *beside;

    (void)state;
    for (uint32_t size = 2; size <= 4; size++) {
        lease = take(store, &all);
        EXPECT(HF_OK, hf_semaphore_resize(second, "all", HF_CSTRING, size, &contract_error));
        EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
        CHECK(count_holders(second, "all") == 1);
        EXPECT(size == 4 ? HF_OK : HF_BUSY, probe(second, &one));
        if (size == 4) {
            beside = take(second, &one);
            EXPECT(HF_BUSY, probe(second, &one));
            give(beside);
        }
        give(lease);
        CHECK(count_holders(second, "all") == 0);
        EXPECT(HF_OK, hf_semaphore_resize(second, "all", HF_CSTRING, 0, &contract_error));
    }
    close_store(second);
    close_store(store);
}

/* More is held than the size. What is given back then goes to nobody until enough was: also where one holder alone has as much as the size,
 * and the next in the queue wants just that. */
static void shrunk_below_what_is_held(void **state)
{
    hf_acquire_request three = slots("shrunk", 3, 5), two = slots("shrunk", 2, 5);
    hf_store *store = leases_open(""), *second = leases_open("");
    struct attempt first, next;
    hf_lease *large, *small;

    (void)state;
    three.wait_ms = LIMIT_MS;
    large = take(store, &three);
    small = take(store, &two);
    attempt_start(&first, second, &three);
    AWAIT(count_waiters(store, "shrunk") == 1);
    attempt_start(&next, second, &three);
    AWAIT(count_waiters(store, "shrunk") == 2);
    EXPECT(HF_OK, hf_semaphore_resize(second, "shrunk", HF_CSTRING, 3, &contract_error));
    give(large);
    CHECK(count_holders(store, "shrunk") == 1 && count_waiters(store, "shrunk") == 2);
    give(small);
    EXPECT(HF_OK, attempt_join(&first));
    CHECK(count_holders(store, "shrunk") == 1 && count_waiters(store, "shrunk") == 1);
    give(first.lease);
    EXPECT(HF_OK, attempt_join(&next));
    give(next.lease);
    EXPECT(HF_OK, hf_semaphore_resize(second, "shrunk", HF_CSTRING, 0, &contract_error));
    close_store(second);
    close_store(store);
}

static long long temporary_files(void)
{
    return db_do(leases_db,
                 "SELECT variable_value + 0 FROM information_schema.session_status WHERE "
                 "variable_name = 'created_tmp_disk_tables'");
}

/* MariaDB: a view is made without a file on disk, which a column without a bound would need. */
static void inspected_in_memory(void **state)
{
    hf_acquire_request request = slots("seen", 2, 3);
    hf_store *store;
    hf_lease *lease;
    long long before, each;

    (void)state;
    if (leases_db->kind == DB_POSTGRES)
        return;
    store = leases_open("");
    request.flags |= HF_FLAG_NUMBERED;
    lease = take(store, &request);
    before = temporary_files();
    each = temporary_files() - before; /* of that question itself */
    before = temporary_files();
    db_do(leases_db, "CALL hfl_look(NULL)");
    CHECK(temporary_files() - before == each);
    give(lease);
    close_store(store);
}

const struct CMUnitTest leases_size_cases[] = {
    cmocka_unit_test(resize_of_unknown_outcome), cmocka_unit_test(size_is_kept),
    cmocka_unit_test(holder_of_all_is_moved),    cmocka_unit_test(shrunk_below_what_is_held),
    cmocka_unit_test(inspected_in_memory),
};
const size_t leases_size_count = sizeof leases_size_cases / sizeof *leases_size_cases;
