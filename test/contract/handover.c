/* SPDX-License-Identifier: MIT */
/*
 * Engines whose server hands over for a claim window (src/engine/kit/handover.h): Redis, Redlock, PostgreSQL, MariaDB. That
 * a caller that needs more than the window gets it is in lease.c; messages of grants that have ended are in the
 * engines' own tests, behind proxies.
 */
#include "peer.h"

#include <signal.h>

#define WINDOW_MIN_MS 3000
#define WINDOW_MAX_MS 10000

/* A winner that died keeps a name idle for a window, not for its ttl. */
static void handed_over_for_a_window(void **state)
{
    hf_acquire_request request = mutex_request("window");
    hf_store *store = open_store(), *second = open_store();
    struct attempt attempt;
    hf_lease *lease;

    (void)state;
    request.ttl_ms = LIMIT_MS;
    request.flags = HF_FLAG_NO_RENEW;
    lease = take(store, &request);
    CHECK(hf_lease_remaining_ms(lease) > WINDOW_MAX_MS);
    request.wait_ms = LIMIT_MS;
    attempt_start(&attempt, second, &request);
    AWAIT(count_waiters(store, "window") == 1);
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_remaining_ms(attempt.lease) <= WINDOW_MAX_MS);
    (void)hf_release(attempt.lease, NULL);
    close_store(second);
    close_store(store);
}

/* The winner is stopped for longer than its window. The message that it finds then must not end its wait. */
static void stopped_past_its_window(void **state)
{
    hf_acquire_request request = mutex_request("window");
    hf_store *store = open_store();
    struct peer peer;
    hf_lease *lease;

    (void)state;
    request.ttl_ms = WINDOW_MIN_MS;
    lease = take(store, &request);
    peer_start(&peer);
    request.wait_ms = LIMIT_MS;
    peer_begin(&peer, 0, &request);
    AWAIT(count_waiters(store, "window") == 1);
    peer_signal(&peer, SIGSTOP);
    give(lease);
    nap_ms(WINDOW_MIN_MS + WINDOW_MIN_MS / 3);
    peer_signal(&peer, SIGCONT);
    EXPECT(HF_OK, peer_join(&peer, 0, NULL));
    (void)peer_release(&peer, 0);
    peer_stop(&peer);
    close_store(store);
}

int contract_handover(void)
{
    const struct CMUnitTest tests[] = {
        CASE(handed_over_for_a_window),
        CASE(stopped_past_its_window),
    };

    return cmocka_run_group_tests_name("handover", tests, NULL, NULL);
}
