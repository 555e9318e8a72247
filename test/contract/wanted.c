/* SPDX-License-Identifier: MIT */
/*
 * A holder learns that others wait for what it holds (HF_CAP_WANTED): the level, its events, the descriptor, and that a lease
 * without HF_FLAG_WATCH hears nothing.
 */
#include "loop.h"
#include "peer.h"
#include "watched.h"

#include <string.h>
#include <unistd.h>

static void undeclared_is_refused(void **state)
{
    hf_acquire_request request = mutex_request("wanted");
    hf_store *store = open_store();
    hf_lease *lease;

    (void)state;
    request.flags = HF_FLAG_WATCH;
    if (!has(HF_CAP_WANTED)) {
        EXPECT(HF_UNSUPPORTED, hf_acquire(store, &request, &lease, &contract_error));
        CHECK(strstr(contract_error.text, "HF_FLAG_WATCH"));
    } else if (has(HF_CAP_DETACHED)) {
        request.flags |= HF_FLAG_DETACHED;
        request.ttl_ms = 10000;
        EXPECT(HF_INVALID, hf_acquire(store, &request, &lease, &contract_error));
        CHECK(strstr(contract_error.text, "HF_FLAG_WATCH"));
    }
    close_store(store);
}

static void level_and_events(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told);
    struct waiter waiter;
    hf_store *store, *second;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    second = open_store();
    lease = take(store, &request);
    CHECK(!hf_lease_wanted(lease) && !lease_info(lease).wanted && !readable(lease));

    for (int round = 1; round <= 3; round++) {
        waiter_start(&waiter, second, mutex_request("wanted"));
        AWAIT(told.wanted >= round && told.wanted > told.unwanted);
        CHECK(hf_lease_wanted(lease) && readable(lease));
        CHECK(lease_info(lease).wanted && lease_info(lease).state == HF_STATE_HELD &&
              !readable(lease));
        waiter_cancel(&waiter);
        /* Several nodes tell it one after the other: the last of them may be late and be heard once more. */
        AWAIT(told.unwanted >= round && told.unwanted == told.wanted);
        CHECK(!hf_lease_wanted(lease) && readable(lease) && !lease_info(lease).wanted &&
              !readable(lease));
    }
    CHECK(told.total == 2 * told.wanted && (told.total == 6 || several_nodes()));
    CHECK(told.lease == lease);
    give(lease);
    CHECK(!hf_lease_wanted(lease));
    close_store(second);
    close_store(store);
}

/* A second waiter is no news; and as long as one is left it stays wanted. */
static void several_waiters(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told);
    struct waiter first, other;
    hf_store *store, *second, *third;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_WANTED | HF_CAP_WAITERS);
    store = open_store();
    second = open_store();
    third = open_store();
    lease = take(store, &request);
    waiter_start(&first, second, mutex_request("wanted"));
    AWAIT(told.wanted == 1);
    waiter_start(&other, third, mutex_request("wanted"));
    AWAIT(count_waiters(store, "wanted") == 2);
    waiter_cancel(&first);
    AWAIT(count_waiters(store, "wanted") == 1);
    CHECK(hf_lease_wanted(lease));
    waiter_cancel(&other);
    AWAIT(told.unwanted == 1);
    CHECK(told.total == 2);
    give(lease);
    close_store(third);
    close_store(second);
    close_store(store);
}

/* The callback releases it, and the waiter gets it. */
static void callback_gives_it_away(void **state)
{
    struct told told = { .release = true };
    hf_acquire_request request = watched("wanted", &told);
    struct waiter waiter;
    hf_store *store, *second;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    second = open_store();
    (void)take(store, &request);
    waiter_start(&waiter, second, mutex_request("wanted"));
    waiter_granted(&waiter);
    AWAIT(told.wanted == 1);
    EXPECT(HF_OK, told.released);
    CHECK(told.total == 1);
    close_store(second);
    close_store(store);
}

/* With the grant a holder learns that others wait behind it, also if no message comes later. */
static void grant_tells_it(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told);
    struct waiter next, last;
    hf_store *store, *second, *third;
    hf_lease *held;

    (void)state;
    NEEDS(HF_CAP_WANTED | HF_CAP_FIFO | HF_CAP_WAITERS);
    store = open_store();
    second = open_store();
    third = open_store();
    held = take(third, &(hf_acquire_request){
                           .size = sizeof request, .name = "wanted", .name_len = HF_CSTRING });
    waiter_start(&next, store, request);
    AWAIT(count_waiters(third, "wanted") == 1);
    waiter_start(&last, second, mutex_request("wanted"));
    AWAIT(count_waiters(third, "wanted") == 2);
    give(held);
    EXPECT(HF_OK, attempt_join(&next.attempt));
    CHECK(hf_lease_wanted(next.attempt.lease)); /* at once */
    AWAIT(told.wanted == 1);
    give(next.attempt.lease);
    EXPECT(HF_OK, hf_cancel_close(next.cancel));
    waiter_granted(&last);
    close_store(third);
    close_store(second);
    close_store(store);
}

/* What the store shows of the only holder. */
static bool shown_watched(hf_store *store, const char *name)
{
    hf_view *view = NULL;
    bool watched;

    EXPECT(HF_OK, hf_store_inspect(store, name, HF_CSTRING, 0, &view, &contract_error));
    CHECK(hf_view_count(view) == 1 && hf_view_entry(view, 0)->holder_count == 1);
    watched = hf_entry_holder(hf_view_entry(view, 0), 0)->watched;
    hf_free(view);
    return watched;
}

/* Others see which holders listen, also when a waiter has come and the store keeps the lease in another form. */
static void shown_to_others(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told), plain = mutex_request("plain");
    struct waiter waiters[2];
    hf_store *store, *second;
    hf_lease *lease, *deaf;

    (void)state;
    NEEDS(HF_CAP_WANTED | HF_CAP_WAITERS);
    store = open_store();
    second = open_store();
    lease = take(store, &request);
    deaf = take(store, &plain);
    CHECK(shown_watched(second, "wanted") && !shown_watched(second, "plain"));
    waiter_start(&waiters[0], second, mutex_request("wanted"));
    waiter_start(&waiters[1], second, mutex_request("plain"));
    AWAIT(count_waiters(second, "wanted") == 1 && count_waiters(second, "plain") == 1);
    CHECK(shown_watched(second, "wanted") && !shown_watched(second, "plain"));
    give(lease);
    give(deaf);
    waiter_granted(&waiters[0]);
    waiter_granted(&waiters[1]);
    close_store(second);
    close_store(store);
}

/* Without the flag nothing is told, whether there is a callback or not. */
static void unwatched_hears_nothing(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told);
    struct waiter waiter;
    hf_store *store, *second;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_WANTED | HF_CAP_WAITERS);
    store = open_store();
    second = open_store();
    request.flags = 0;
    lease = take(store, &request);
    waiter_start(&waiter, second, mutex_request("wanted"));
    AWAIT(count_waiters(store, "wanted") == 1);
    nap_ms(300);
    CHECK(!hf_lease_wanted(lease) && !lease_info(lease).wanted && !readable(lease));
    give(lease);
    waiter_granted(&waiter);
    CHECK(told.total == 0);
    close_store(second);
    close_store(store);
}

static void on_released(const hf_result *result, void *arg)
{
    EXPECT(HF_OK, result->status);
    *(_Atomic bool *)arg = true;
}

/* Both forms of a release end after a callback that runs; none begins afterwards. */
static void none_after_release(void **state)
{
    hf_store *store, *second;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    second = open_store();
    for (int round = 0; round < 20; round++) {
        struct told told = { .slow = true };
        hf_acquire_request request = watched("wanted", &told);
        hf_lease *lease = take(store, &request);
        _Atomic bool released = false;
        struct waiter waiter;
        int total;

        waiter_start(&waiter, second, mutex_request("wanted"));
        if (round % 2)
            AWAIT(told.begun);
        if (round % 4 < 2) {
            give(lease);
        } else {
            EXPECT(HF_OK, hf_release_async(lease, on_released, &released, NULL, &contract_error));
            /* First without the loop, whose lock would order for TSan what both threads do to the call. */
            if (told.begun)
                AWAIT(told.ended);
            LOOP_UNTIL(store, released);
        }
        total = told.total;
        CHECK(!told.begun || told.ended);
        waiter_granted(&waiter);
        CHECK(told.total == total);
    }
    close_store(second);
    close_store(store);
}

/* An event that waits for the callback of another lease is taken back. */
static void release_takes_back(void **state)
{
    struct told first = { .slow = true }, other = { .total = 0 };
    hf_acquire_request one = watched("wanted", &first), two = watched("another", &other);
    struct waiter waiters[2];
    hf_store *store, *second;
    hf_lease *leases[2];

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    second = open_store();
    for (int round = 0; round < 5; round++) {
        first.begun = first.ended = false;
        leases[0] = take(store, &one);
        leases[1] = take(store, &two);
        waiter_start(&waiters[0], second, mutex_request("wanted"));
        AWAIT(first.begun);
        waiter_start(&waiters[1], second, mutex_request("another"));
        AWAIT(hf_lease_wanted(leases[1]));
        give(leases[1]);
        give(leases[0]);
        waiter_granted(&waiters[0]);
        waiter_granted(&waiters[1]);
        CHECK(first.total == round + 1);
        CHECK(!other.begun ||
              other.ended); /* told before the release, on a slow machine, or never */
    }
    close_store(second);
    close_store(store);
}

/* Threads of this process, behind the holder in the local queue. */
static void local_waiters(void **state)
{
    struct told told = { .total = 0 }, second_told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told);
    hf_acquire_request again = watched("wanted", &second_told);
    struct waiter waiter, last;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    lease = take(store, &request);
    waiter_start(&waiter, store, again);
    AWAIT(told.wanted == 1);
    CHECK(hf_lease_wanted(lease));
    waiter_cancel(&waiter);
    AWAIT(told.unwanted == 1);
    CHECK(!hf_lease_wanted(lease));

    /* The next holder is told that one is left, whichever way it got the lease. */
    waiter_start(&waiter, store, again);
    AWAIT(told.wanted == 2);
    attempt_settled(&waiter.attempt);
    waiter_start(&last, store, mutex_request("wanted"));
    attempt_settled(&last.attempt);
    give(lease);
    EXPECT(HF_OK, attempt_join(&waiter.attempt));
    AWAIT(second_told.wanted == 1);
    CHECK(hf_lease_wanted(waiter.attempt.lease));
    CHECK(told.total == 3);
    give(waiter.attempt.lease);
    EXPECT(HF_OK, hf_cancel_close(waiter.cancel));
    waiter_granted(&last);
    close_store(store);
}

/* A waiter gets the place of another holder: nobody waits for what this one holds any more. */
static void another_place_is_given(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told), other = mutex_request("wanted");
    struct waiter waiter;
    hf_store *store, *second;
    hf_lease *lease, *place;

    (void)state;
    NEEDS(HF_CAP_WANTED | HF_CAP_SEMAPHORE);
    store = open_store();
    second = open_store();
    request.kind = other.kind = HF_KIND_SEMAPHORE;
    request.capacity = other.capacity = 2;
    if (has(HF_CAP_TTL)) { /* no renewal tells it */
        request.flags |= HF_FLAG_NO_RENEW;
        request.ttl_ms = 3 * LIMIT_MS;
    }
    lease = take(store, &request);
    place = take(second, &other);
    waiter_start(&waiter, second, other);
    AWAIT(hf_lease_wanted(lease));
    give(place);
    EXPECT(HF_OK, attempt_join(&waiter.attempt));
    AWAIT(!hf_lease_wanted(lease));
    AWAIT(told.unwanted == told.wanted);
    give(waiter.attempt.lease);
    EXPECT(HF_OK, hf_cancel_close(waiter.cancel));
    give(lease);
    close_store(second);
    close_store(store);
}

/* Each of several holders is told. */
static void readers(void **state)
{
    struct told told[3] = { { .total = 0 } };
    hf_acquire_request write = mutex_request("wanted");
    struct waiter waiter;
    hf_store *store, *second;
    hf_lease *leases[3];

    (void)state;
    NEEDS(HF_CAP_WANTED | HF_CAP_SHARED);
    store = open_store();
    second = open_store();
    for (int i = 0; i < 3; i++) {
        hf_acquire_request read = watched("wanted", &told[i]);

        read.kind = HF_KIND_SHARED;
        read.flags = i < 2 ? HF_FLAG_WATCH : 0;
        leases[i] = take(store, &read);
    }
    write.kind = HF_KIND_EXCLUSIVE;
    waiter_start(&waiter, second, write);
    AWAIT(told[0].wanted > 0 && told[1].wanted > 0);
    give(leases[0]);
    AWAIT(hf_lease_wanted(leases[1]) || !several_nodes());
    CHECK(hf_lease_wanted(leases[1]));
    waiter_cancel(&waiter);
    AWAIT(told[1].unwanted > 0 && told[1].unwanted == told[1].wanted);
    CHECK(told[2].total == 0);
    CHECK((told[0].total == 1 && told[1].total == 2) ||
          several_nodes()); /* those tell one after the other */
    give(leases[1]);
    give(leases[2]);
    close_store(second);
    close_store(store);
}

/* A waiter of another process, which then dies. */
static void waiter_dies(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told), other = waiting_request("wanted");
    struct peer peer;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    lease = take(store, &request);
    peer_start(&peer);
    peer_begin(&peer, 0, &other);
    AWAIT(told.wanted == 1);
    if (contract_processes) {
        peer_kill(&peer);
        AWAIT(told.unwanted >= 1);
        if (several_nodes()) /* a node that was slow may say once more what was true a moment ago */
            AWAIT(!hf_lease_wanted(lease));
        else
            CHECK(told.unwanted == 1 && !hf_lease_wanted(lease));
        give(lease);
    } else {
        give(lease);
        EXPECT(HF_OK, peer_join(&peer, 0, NULL));
        EXPECT(HF_OK, peer_release(&peer, 0));
        peer_stop(&peer);
    }
    close_store(store);
}

/* The holder is another process. */
static void between_processes(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told), other = waiting_request("wanted");
    struct peer peer;
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    peer_start(&peer);
    for (int round = 1; round <= 5; round++) {
        lease = take(store, &request);
        peer_begin(&peer, 0, &other);
        AWAIT(told.wanted == round);
        give(lease);
        EXPECT(HF_OK, peer_join(&peer, 0, NULL));
        EXPECT(HF_OK, peer_release(&peer, 0));
    }
    CHECK(told.total == 5);
    peer_stop(&peer);
    close_store(store);
}

/* What was acquired in the loop is told in the loop. */
static void in_the_loop(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told);
    struct waiter waiter;
    hf_store *store, *second;
    hf_lease *lease = NULL;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    second = open_store();
    EXPECT(HF_OK, hf_acquire_async(store, &request, keep_lease, &lease, NULL, &contract_error));
    LOOP_UNTIL(store, lease);
    waiter_start(&waiter, second, mutex_request("wanted"));
    LOOP_UNTIL(store, told.wanted == 1);
    CHECK(pthread_equal(told.thread, pthread_self()) && hf_lease_wanted(lease));
    waiter_cancel(&waiter);
    LOOP_UNTIL(store, told.unwanted == 1);
    give(lease);
    close_store(second);
    close_store(store);
}

/* A thread that did not ask stands between two that did: the last one is told all the same. */
static void behind_an_unwatched_thread(void **state)
{
    struct told told = { .total = 0 }, unused = { .total = 0 };
    hf_acquire_request request = watched("wanted", &unused), last = watched("wanted", &told);
    struct waiter between, behind, other;
    hf_store *store, *second;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    second = open_store();
    lease = take(store, &request);
    waiter_start(&between, store, mutex_request("wanted"));
    AWAIT(hf_lease_wanted(lease));
    attempt_settled(&between.attempt);
    waiter_start(&behind, store, last);
    attempt_settled(&behind.attempt);
    give(lease);
    waiter_granted(&between);
    EXPECT(HF_OK, attempt_join(&behind.attempt));
    waiter_start(&other, second, mutex_request("wanted"));
    AWAIT(told.wanted == 1);
    give(behind.attempt.lease);
    EXPECT(HF_OK, hf_cancel_close(behind.cancel));
    waiter_granted(&other);
    close_store(second);
    close_store(store);
}

/* A caller that has read the descriptor itself hears the next event all the same. */
static void descriptor_was_read(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told);
    struct waiter waiter;
    hf_store *store, *second;
    hf_lease *lease;
    uint64_t count;

    (void)state;
    NEEDS(HF_CAP_WANTED);
    store = open_store();
    second = open_store();
    lease = take(store, &request);
    CHECK(!readable(lease));
    for (int round = 1; round <= 2; round++) {
        waiter_start(&waiter, second, mutex_request("wanted"));
        AWAIT(told.wanted == round && readable(lease));
        CHECK(read(hf_lease_fd(lease), &count, sizeof count) == sizeof count && !readable(lease));
        if (round == 2)
            CHECK(lease_info(lease).wanted);
        waiter_cancel(&waiter);
        AWAIT(told.unwanted == round);
        CHECK(readable(lease) && !lease_info(lease).wanted && !readable(lease));
    }
    give(lease);
    close_store(second);
    close_store(store);
}

/* ---- asking ------------------------------------------------------------------------------- */

static void ask(void **state)
{
    struct told told = { .total = 0 };
    hf_acquire_request request = watched("wanted", &told), plain = mutex_request("plain");
    char large[4 * HF_LABEL_MAX];
    hf_store *store, *second;
    hf_lease *lease, *deaf;
    int64_t begun_ms;
    int seen;

    (void)state;
    second = open_store();
    if (!has(HF_CAP_WANTED)) {
        EXPECT(HF_UNSUPPORTED, hf_ask(second, "wanted", 6, "please", &contract_error));
        close_store(second);
        return;
    }
    store = open_store();
    EXPECT(HF_NOT_FOUND, hf_ask(second, "wanted", 6, "please", &contract_error));
    CHECK(strstr(contract_error.text, "it is free") != NULL);
    lease = take(store, &request);
    deaf = take(store, &plain);
    EXPECT(HF_BUSY, hf_ask(second, "plain", 5, "please", &contract_error));
    CHECK(strstr(contract_error.text, "listens"));
    EXPECT(HF_OK, hf_ask(second, "wanted", 6, "please \x1b[2J", &contract_error));
    AWAIT(told.asked == 1);
    CHECK(strcmp(told.text, "please \x1b[2J") == 0 && readable(lease));
    CHECK(lease_info(lease).asks == 1 && !lease_info(lease).wanted && !readable(lease));
    CHECK(!hf_lease_wanted(lease)); /* nobody waits */

    begun_ms = now_ms();
    for (int i = 0; i < 20; i++)
        EXPECT(HF_OK, hf_ask(second, "wanted", 6, "again", &contract_error));
    nap_ms(200);
    CHECK(lease_info(lease).asks <= 2 + (now_ms() - begun_ms) / 1000);
    seen = told.asked;

    /* At most once a second; what is too long is cut between two characters. */
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = 0;
    memcpy(large + HF_LABEL_MAX - 1, "\xc3\xa4", 2);
    do {
        EXPECT(HF_OK, hf_ask(second, "wanted", HF_CSTRING, large, &contract_error));
        nap_ms(100);
    } while (told.asked == seen || told.text[0] != 'x');
    CHECK(strlen(told.text) == HF_LABEL_MAX - 1 && told.text[HF_LABEL_MAX - 2] == 'x');
    give(lease);
    give(deaf);
    EXPECT(HF_NOT_FOUND, hf_ask(second, "wanted", 6, NULL, &contract_error));
    close_store(second);
    close_store(store);
}

int contract_wanted(void)
{
    const struct CMUnitTest cases[] = {
        CASE(undeclared_is_refused),
        CASE(level_and_events),
        CASE(several_waiters),
        CASE(callback_gives_it_away),
        CASE(grant_tells_it),
        CASE(unwatched_hears_nothing),
        CASE(shown_to_others),
        CASE(none_after_release),
        CASE(release_takes_back),
        CASE(local_waiters),
        CASE(another_place_is_given),
        CASE(readers),
        CASE(waiter_dies),
        CASE(between_processes),
        CASE(in_the_loop),
        CASE(ask),
        CASE(descriptor_was_read),
        CASE(behind_an_unwatched_thread),
    };

    return cmocka_run_group_tests_name("wanted", cases, NULL, NULL);
}
