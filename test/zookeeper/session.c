/* SPDX-License-Identifier: MIT */
/*
 * A session whose connection is cut, held up or stopped, on one server: leases survive what is short,
 * are lost in time by what is long, and nothing stays behind.
 */
#include "zk_bed.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How often a descriptor was shut down that is none any more. It might have been somebody else's by then. */
static atomic_int stale_shutdowns;

__attribute__((visibility("default"))) int shutdown(int fd, int how)
{
    int rc = (int)syscall(SYS_shutdown, fd, how);

    if (rc != 0 && errno == EBADF)
        atomic_fetch_add(&stale_shutdowns, 1);
    return rc;
}

/* A cut is nothing: the session goes on, with the same leases, and they are renewed. */
static void lease_survives_cuts(void **state)
{
    hf_store *store = open_through(), *other = open_direct();
    hf_acquire_request request = mutex_request("cut");
    hf_lease *lease = take(store, &request);
    uint64_t token = hf_lease_token(lease);

    (void)state;
    nap_ms(2000); /* longer than an attempt to connect may take, or none is given up */
    for (int i = 0; i < 5; i++) {
        unsigned before = proxy_connections(proxy);

        proxy_cut(proxy);
        AWAIT(proxy_connections(proxy) > before);
        AWAIT(hf_lease_state(lease) == HF_STATE_HELD);
        EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    }
    CHECK(hf_lease_token(lease) == token);
    CHECK(atomic_load(&stale_shutdowns) == 0); /* the library has closed its socket by itself */
    EXPECT(HF_BUSY, probe(other, &request));
    give(lease);
    EXPECT(HF_OK, probe(other, &request));
    close_store(store);
    close_store(other);
}

/*
 * A create whose answer was lost may be executed once more, or late, whatever was looked for: a server that was stopped executes
 * what it had read from the old connection behind what comes on the new one. The second node holds the name, and nobody
 * knows of it. Here we make it.
 */
static void second_node_goes(void **state)
{
    hf_store *store = open_through(), *other = open_direct();
    hf_acquire_request wait = waiting_request("twin");
    struct attempt attempt;

    (void)state;
    give(take(store, &wait)); /* the parent of its nodes is there */
    proxy_block(proxy, PROXY_DOWN, true);
    attempt_start(&attempt, store, &wait);
    AWAIT(nodes_of("twin") == 1); /* it was made, and the answer is not known */
    proxy_cut(proxy);
    proxy_heal(proxy);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_state(attempt.lease) == HF_STATE_HELD);
    twin_node("twin");
    EXPECT(HF_OK, hf_renew(attempt.lease, 0, &contract_error));
    give(attempt.lease);
    EXPECT(HF_OK, probe(other, &wait)); /* a waiter gets the name */
    AWAIT(nodes_of("twin") <= 0);
    close_store(store);
    close_store(other);
}

/* The servers have forgotten everything, and refuse a client that has seen more than they have: it begins anew. */
static void servers_are_empty(void **state)
{
    hf_store *store = open_at(zk_url(ensemble->servers[0].port, root(SHORT)));
    hf_acquire_request request = mutex_request("empty"), wait = waiting_request("empty");
    hf_lease *lease = take(store, &request);
    char data[2 * SERVER_PATH_ROOM];

    (void)state;
    zk_server_kill(&ensemble->servers[0]);
    snprintf(data, sizeof data, "%s/version-2", ensemble->servers[0].dir);
    remove_dir(data);
    zk_server_restart(&ensemble->servers[0]);
    AWAIT(hf_lease_state(lease) == HF_STATE_LOST);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    give(take(store, &wait));
    close_store(store);
}

/* AT_RISK while disconnected; LOST by our own clock before anybody else is let in. */
static void lost_before_the_next(void **state)
{
    hf_store *store = open_at(zk_url(proxy_port(proxy), root(SHORT))), *other = open_direct();
    hf_acquire_request request = mutex_request("risk"), wait = waiting_request("risk");
    struct loss loss = { 0 };
    hf_lease *lease, *next;
    int64_t granted_ms;

    (void)state;
    request.on_event = note_loss;
    request.on_event_arg = &loss;
    lease = take(store, &request);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    AWAIT(hf_lease_state(lease) != HF_STATE_HELD);
    next = take(other, &wait);
    granted_ms = now_ms();
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    AWAIT(loss.at_ms != 0);
    CHECK(loss.at_ms <= granted_ms + 500); /* the callback; the state was LOST before */
    CHECK(hf_lease_token(next) > hf_lease_token(lease));
    /* Connected again, to a session that has expired: nothing of it comes back. */
    proxy_heal(proxy);
    proxy_refuse(proxy, false);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(hf_lease_state(next) == HF_STATE_HELD);
    EXPECT(HF_BUSY, probe(other, &(hf_acquire_request){ .size = sizeof(hf_acquire_request),
                                                        .name = "risk",
                                                        .name_len = HF_CSTRING }));
    give(next);
    gets_free(store, "risk", hf_lease_token(next));
    close_store(other);
    close_store(store);
}

/* Bytes that are held up for longer than the session lives: expired by the server. */
static void expired_waiter_begins_again(void **state)
{
    hf_store *store = open_at(zk_url(proxy_port(proxy), root(SHORT))), *other = open_direct();
    hf_acquire_request request = mutex_request("again"), wait = waiting_request("again");
    hf_lease *lease = take(other, &request);
    struct attempt attempt;

    (void)state;
    attempt_start(&attempt, store, &wait);
    AWAIT(count_waiters(other, "again") == 1);
    proxy_block(proxy, PROXY_UP, true);
    AWAIT(count_waiters(other, "again") == 0); /* its session has ended */
    CHECK(!attempt.ended);
    proxy_heal(proxy);
    AWAIT(count_waiters(other, "again") == 1); /* it is in the queue again */
    give(lease);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_token(attempt.lease) > 0);
    give(attempt.lease);
    close_store(other);
    close_store(store);
}

/* Any byte of the answer may be the last: one grant at most, and no node that nobody knows. */
static void cut_answers(void **state)
{
    hf_store *store = open_through(), *other = open_direct();
    hf_acquire_request request = waiting_request("bytes");
    uint64_t last = 0;

    (void)state;
    for (int64_t bytes = 0; bytes < 400; bytes += 23) {
        hf_lease *lease;

        proxy_cut_after(proxy, PROXY_DOWN, bytes);
        lease = take(store, &request);
        CHECK(hf_lease_token(lease) > last);
        last = hf_lease_token(lease);
        CHECK(nodes_of("bytes") == 1);
        proxy_cut_after(proxy, PROXY_DOWN, bytes % 90);
        EXPECT(HF_OK, hf_release(lease, &contract_error));
        CHECK(nodes_of("bytes") <= 0);
    }
    gets_free(other, "bytes", last);
    close_store(other);
    close_store(store);
}

/* The same for what is sent. */
static void cut_requests(void **state)
{
    hf_store *store = open_through();
    hf_acquire_request request = waiting_request("sent");

    (void)state;
    for (int64_t bytes = 0; bytes < 500; bytes += 29) {
        hf_lease *lease;

        proxy_cut_after(proxy, PROXY_UP, bytes);
        lease = take(store, &request);
        CHECK(nodes_of("sent") == 1);
        proxy_cut_after(proxy, PROXY_UP, bytes % 110);
        EXPECT(HF_OK, hf_release(lease, &contract_error));
        CHECK(nodes_of("sent") <= 0);
    }
    close_store(store);
}

/* Its create was done, but nobody has heard of it, and nobody wants it any more. The session lives on:
 * only we can know that the node is ours. */
static void given_up_unheard(void **state)
{
    hf_store *store = open_at(zk_url(proxy_port(proxy), root(TIMEOUT)));
    hf_acquire_request request = mutex_request("ghost"), kept = mutex_request("kept");
    hf_lease *lease = take(store, &kept), *none = NULL;
    hf_status status;

    (void)state;
    EXPECT(HF_OK, probe(store, &request)); /* its parent is there */
    for (int seen = 0, tries = 0; seen < 3; tries++) {
        CHECK(tries < 20); /* on a busy machine the time may be up before the create is sent */
        proxy_block(proxy, PROXY_DOWN, true);
        request.wait_ms = 100;
        status = hf_acquire(store, &request, &none, &contract_error);
        CHECK(status == HF_TIMEOUT || status == HF_UNKNOWN || status == HF_UNAVAILABLE);
        seen += nodes_of("ghost") == 1;
        proxy_cut(proxy);
        proxy_heal(proxy);
        AWAIT(nodes_of("ghost") <= 0);
    }
    AWAIT(hf_lease_state(lease) != HF_STATE_AT_RISK);
    give(lease); /* it was the same session all the time */
    close_store(store);
}

/* Who waits is found again, keeps its place, and is woken. */
static void waiters_keep_their_place(void **state)
{
    hf_store *first = open_through(), *second = open_direct(), *other = open_direct();
    hf_acquire_request request = mutex_request("place"), wait = waiting_request("place");
    hf_lease *lease = take(other, &request);
    struct attempt a, b;

    (void)state;
    attempt_start(&a, first, &wait);
    AWAIT(count_waiters(other, "place") == 1);
    attempt_start(&b, second, &wait);
    AWAIT(count_waiters(other, "place") == 2);
    for (int i = 0; i < 3; i++) {
        unsigned before = proxy_connections(proxy);

        proxy_cut(proxy);
        AWAIT(proxy_connections(proxy) > before);
    }
    proxy_cut(proxy);
    give(lease);
    EXPECT(HF_OK, attempt_join(&a));
    CHECK(!b.ended);
    give(a.lease);
    EXPECT(HF_OK, attempt_join(&b));
    CHECK(hf_lease_token(b.lease) > hf_lease_token(a.lease));
    give(b.lease);
    CHECK(nodes_of("place") <= 0);
    close_store(first);
    close_store(second);
    close_store(other);
}

/* A server that says nothing: calls end in time, and what they left is settled later. */
static void stopped_server(void **state)
{
    hf_store *store = open_at(zk_url(ensemble->servers[0].port, root(SHORT)));
    hf_acquire_request held = mutex_request("held"), request = mutex_request("stop");
    hf_lease *lease = take(store, &held), *none = NULL;
    int64_t begin_ms;
    hf_status status;

    (void)state;
    zk_server_pause(&ensemble->servers[0]);
    begin_ms = now_ms();
    request.wait_ms = 500;
    status = hf_acquire(store, &request, &none, &contract_error);
    CHECK(status == HF_TIMEOUT || status == HF_UNKNOWN || status == HF_UNAVAILABLE);
    CHECK(now_ms() - begin_ms < 20000);
    await_lost(lease);
    CHECK(now_ms() - begin_ms < 30000);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    zk_server_continue(&ensemble->servers[0]);
    gets_free(store, "stop", 0);
    gets_free(store, "held", 0);
    AWAIT(nodes_of("stop") <= 0);
    AWAIT(nodes_of("held") <= 0);
    close_store(store);
}

/* A server that is killed and comes back has the sessions and the nodes. */
static void restarted_server(void **state)
{
    hf_store *store = open_at(zk_url(ensemble->servers[0].port, root(TIMEOUT)));
    hf_store *other = open_at(zk_url(ensemble->servers[0].port, root(TIMEOUT)));
    hf_acquire_request request = mutex_request("restart"), wait = waiting_request("restart");
    hf_lease *lease = take(store, &request);
    struct attempt attempt;
    hf_status status;

    (void)state;
    attempt_start(&attempt, other, &wait);
    AWAIT(count_waiters(store, "restart") == 1);
    zk_server_kill(&ensemble->servers[0]);
    zk_server_restart(&ensemble->servers[0]);
    AWAIT(hf_lease_state(lease) != HF_STATE_AT_RISK);
    status = hf_release(lease, &contract_error);
    CHECK(status == HF_OK ||
          status == HF_LOST); /* lost if the start took longer than the session */
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_token(attempt.lease) > hf_lease_token(lease));
    give(attempt.lease);
    close_store(other);
    close_store(store);
}

/* Nobody drives an idle store; its session expires, and the next call makes another one. */
static void idle_store(void **state)
{
    hf_store *store = open_at(zk_url(proxy_port(proxy), root("timeout=1s")));
    hf_acquire_request request = mutex_request("idle");

    (void)state;
    nap_ms(2500); /* nothing happens here: that is what is tested */
    EXPECT(HF_OK, probe(store, &request));
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

/* The parent of the last node goes away by itself. */
static void empty_parents_go(void **state)
{
    hf_store *store = open_direct();
    hf_acquire_request request = mutex_request("parent");

    (void)state;
    EXPECT(HF_OK, probe(store, &request));
    AWAIT(nodes_of("parent") == -1);
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(lease_survives_cuts),
        TEST(second_node_goes),
        TEST(servers_are_empty),
        TEST(lost_before_the_next),
        TEST(expired_waiter_begins_again),
        TEST(cut_answers),
        TEST(cut_requests),
        TEST(waiters_keep_their_place),
        TEST(stopped_server),
        TEST(idle_store),
        TEST(empty_parents_go),
        TEST(restarted_server),
        TEST(given_up_unheard),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    bed_begin(1, 10, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
