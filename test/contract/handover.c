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

/* A winner that died keeps a name idle for a window, not for its ttl: nor does one that is stopped, and has heard of nothing. */
static void handed_over_for_a_window(void **state)
{
    hf_acquire_request request = mutex_request("window");
    hf_store *store = open_store();
    hf_view *view = NULL;
    struct peer peer;
    hf_lease *lease;

    (void)state;
    request.ttl_ms = LIMIT_MS;
    lease = take(store, &request);
    CHECK(hf_lease_remaining_ms(lease) > WINDOW_MAX_MS);
    peer_start(&peer);
    request.wait_ms = LIMIT_MS;
    peer_begin(&peer, 0, &request);
    AWAIT(count_waiters(store, "window") == 1);
    peer_signal(&peer, SIGSTOP);
    give(lease);
    EXPECT(HF_OK, hf_store_inspect(store, "window", 6, 0, &view, &contract_error));
    for (size_t i = 0; i < hf_view_count(view) && hf_view_entry(view, i)->holder_count > 0; i++)
        CHECK(hf_entry_holder(hf_view_entry(view, i), 0)->ttl_ms <= WINDOW_MAX_MS);
    hf_free(view);
    peer_signal(&peer, SIGCONT);
    EXPECT(HF_OK, peer_join(&peer, 0, NULL));
    (void)peer_release(&peer, 0);
    peer_stop(&peer);
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
