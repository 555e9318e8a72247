/* SPDX-License-Identifier: MIT */
/*
 * Servers that die, come back empty or with their data, stand still, forget their scripts, are
 * kept busy by others, or hang up on us: what holders are told, and that waiters go on.
 */
#include "redis_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 200000 /* a third of it, the first renewal, is beyond LIMIT_MS */

static bool was_refused(hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_UNKNOWN;
}

/* A store that soon gives up on a server that is gone. */
static hf_store *open_impatient(void)
{
    return open_at(server_url(server, "?connect_timeout=500ms&op_timeout=500ms"));
}

/* ---- killed --------------------------------------------------------------------------- */

/* From its deadline on, which no renewal can have moved, nothing says "held". */
static void holder_is_told(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), 2000);
    hf_store *store = open_impatient();
    struct loss loss = { 0 };
    hf_lease *lease;
    int64_t killed_ms;

    (void)state;
    request.on_event = note_loss;
    request.on_event_arg = &loss;
    lease = take(store, &request);
    server_kill(server);
    killed_ms = now_ms();
    for (hf_state now = HF_STATE_HELD; now != HF_STATE_LOST; nap_ms(10)) {
        int64_t at_ms = now_ms();

        now = hf_lease_state(lease);
        CHECK(at_ms < killed_ms + 2000 || now == HF_STATE_LOST);
        CHECK(at_ms < killed_ms + LIMIT_MS);
    }
    CHECK(hf_lease_remaining_ms(lease) == 0);
    AWAIT(loss.calls == 1);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_hard(store);
}

/* A renewal that cannot be done while time is left is said: AT_RISK comes before LOST. */
static void risk_is_told(void **state)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), 10000);
    hf_store *store = open_impatient();
    hf_lease *lease = take(store, &request);
    hf_state now = HF_STATE_HELD;

    (void)state;
    server_kill(server);
    while (now == HF_STATE_HELD) {
        nap_ms(2);
        now = hf_lease_state(lease);
    }
    CHECK(now == HF_STATE_AT_RISK);
    CHECK(hf_lease_remaining_ms(lease) > 0);
    hf_release(lease, NULL);
    close_hard(store);
}

static void new_requests_are_refused(void **state)
{
    hf_store *store = open_impatient(), *none;
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_acquire_request trying = mutex_request("n");

    (void)state;
    EXPECT(HF_OK, probe(store, &trying));
    server_kill(server);
    CHECK(was_refused(probe(store, &trying)));
    options.open_wait_ms = 300;
    EXPECT(HF_UNAVAILABLE, hf_open(server_url(server, ""), &options, &none, &contract_error));
    CHECK(strstr(contract_error.text, "127.0.0.1"));
    server_restart(server);
    AWAIT(probe(store, &trying) == HF_OK);
    close_store(store);
}

/* A bounded wait ends by its deadline, whatever the server does. */
static void bounded_wait_ends(void **state)
{
    hf_store *holders = open_impatient(), *waiters = open_impatient();
    hf_acquire_request request = with_ttl(mutex_request("n"), 1000);
    hf_lease *lease = take(holders, &request);
    struct attempt attempt;

    (void)state;
    request = with_wait(mutex_request("n"), 2500);
    attempt_start(&attempt, waiters, &request);
    AWAIT(count_waiters(holders, "n") == 1);
    server_kill(server);
    attempt_join(&attempt);
    CHECK(attempt.status == HF_TIMEOUT || was_refused(attempt.status));
    hf_release(lease, NULL);
    close_hard(holders);
    close_hard(waiters);
}

/* ---- restarted ---------------------------------------------------------------------------- */

static void restarted_empty(void **state)
{
    hf_store *store = open_direct(), *other = open_direct();
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS);
    hf_lease *lease = take(store, &request);
    uint64_t token = hf_lease_token(lease);

    (void)state;
    server_kill(server);
    server_restart(server);
    /* Neither has its validity ended nor is a renewal due: it is renewed because the server is
     * another one. */
    await_lost(lease);
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    gets_free(other, "n", token);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_store(store);
    close_store(other);
}

/* The waiters join the queue again, and all are granted. */
static void waiters_go_on_after_restart(void **state)
{
    hf_store *holders = open_direct(), *stores[3];
    hf_acquire_request request = with_ttl(mutex_request("n"), 3000), waiting = waiting_request("n");
    hf_lease *lease = take(holders, &request);
    uint64_t token = hf_lease_token(lease);
    struct attempt attempts[3];

    (void)state;
    waiting.ttl_ms = 3000;
    for (size_t i = 0; i < 3; i++) {
        stores[i] = open_direct();
        attempt_start(&attempts[i], stores[i], &waiting);
        AWAIT(count_waiters(holders, "n") == i + 1);
    }
    server_kill(server);
    server_restart(server);
    for (size_t done = 0; done < 3;) {
        for (size_t i = 0; i < 3; i++) {
            if (!attempts[i].store || !attempts[i].ended)
                continue;
            EXPECT(HF_OK, attempt_join(&attempts[i]));
            CHECK(hf_lease_token(attempts[i].lease) > token);
            token = hf_lease_token(attempts[i].lease);
            give(attempts[i].lease);
            attempts[i].store = NULL;
            done++;
        }
        nap_ms(2);
    }
    hf_release(lease, NULL);
    close_store(holders);
    for (size_t i = 0; i < 3; i++)
        close_store(stores[i]);
}

static int setup_durable(void **state)
{
    (void)state;
    server =
        server_start((const char *[]){ "--appendonly", "yes", "--appendfsync", "always", NULL });
    proxy = proxy_start(server->port);
    aim(server_url(server, ""));
    return 0;
}

/* It was there all the time: the lease is asked for, found, and held as before. */
static void restarted_with_its_data(void **state)
{
    hf_store *store = open_direct(), *other = open_direct();
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS), trying = mutex_request("n");
    hf_lease *lease = take(store, &request);

    (void)state;
    server_kill(server);
    server_restart(server);
    AWAIT(probe(other, &trying) == HF_BUSY);
    /* A round trip on the holder's own connection: by then it knows that the server is another. */
    AWAIT(hf_renew(lease, 0, NULL) == HF_OK);
    AWAIT(hf_lease_state(lease) == HF_STATE_HELD);
    EXPECT(HF_BUSY, probe(other, &trying));
    give(lease);
    EXPECT(HF_OK, probe(other, &trying));
    close_store(store);
    close_store(other);
}

/* ---- stopped and continued ----------------------------------------------------------------- */

static void stopped_past_the_ttl(void **state)
{
    hf_store *store = open_direct(), *other = open_direct();
    hf_acquire_request request = with_ttl(mutex_request("n"), 1000), waiting = waiting_request("n");
    hf_lease *lease = take(store, &request);
    uint64_t token = hf_lease_token(lease);
    struct attempt attempt;

    (void)state;
    server_pause(server);
    attempt_start(&attempt, other, &waiting);
    await_lost(lease);
    CHECK(!attempt.ended);
    server_continue(server);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    CHECK(hf_lease_token(attempt.lease) > token);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(hf_lease_state(attempt.lease) == HF_STATE_HELD);
    give(attempt.lease);
    close_store(store);
    close_store(other);
}

/* A grant that was made while it was under way is worth what is left of it, or is given back. */
static void stopped_while_asked(void **state)
{
    hf_store *store = open_direct(), *other = open_direct();
    hf_acquire_request request = with_ttl(mutex_request("n"), 1000);
    struct attempt attempt;

    (void)state;
    EXPECT(HF_OK, probe(store, &request));
    server_pause(server);
    attempt_start(&attempt, store, &request);
    nap_ms(1500); /* longer than the ttl, counted from the send */
    server_continue(server);
    attempt_join(&attempt);
    if (attempt.status == HF_OK) {
        /* Only if this thread was so late that it was asked after the server went on. */
        CHECK(hf_lease_remaining_ms(attempt.lease) > 0 ||
              hf_release(attempt.lease, NULL) == HF_LOST);
        hf_release(attempt.lease, NULL);
    }
    gets_free(other, "n", 0);
    close_store(store);
    close_store(other);
}

/* ---- scripts --------------------------------------------------------------------------------- */

struct flusher {
    _Atomic bool stop;
    redisContext *c;
    const char *command;
    int every_ms;
    int count;
};

static void *repeat_command(void *arg)
{
    struct flusher *f = arg;

    for (; !f->stop; f->count++) {
        redisReply *reply = redisCommand(f->c, f->command);

        if (!reply || reply->type == REDIS_REPLY_ERROR)
            give_up("%s: %s", f->command, reply ? reply->str : f->c->errstr);
        freeReplyObject(reply);
        if (f->every_ms)
            nap_ms(f->every_ms);
    }
    return NULL;
}

/* Forgotten scripts are sent again: nobody notices. */
static void scripts_are_forgotten(void **state)
{
    struct flusher flusher = { .c = server_connect(server), .command = "SCRIPT FLUSH" };
    hf_store *store = open_direct(), *other = open_direct();
    hf_acquire_request waiting = waiting_request("n"),
                       kept = with_ttl(mutex_request("kept"), 60000);
    hf_lease *lease = take(store, &kept);
    pthread_t thread;

    (void)state;
    pthread_create(&thread, NULL, repeat_command, &flusher);
    for (int i = 0; i < 100; i++) {
        struct attempt attempt;
        hf_lease *ours = take(store, &waiting);

        attempt_start(&attempt, other, &waiting);
        if (i % 4 == 0)
            AWAIT(count_waiters(store, "n") == 1);
        give(ours);
        EXPECT(HF_OK, attempt_join(&attempt));
        give(attempt.lease);
    }
    for (int i = 0; i < 100; i++) /* and renewals go on */
        EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    give(lease);
    flusher.stop = true;
    pthread_join(thread, NULL);
    CHECK(flusher.count > 100);
    redisFree(flusher.c);
    close_store(store);
    close_store(other);
}

/* Somebody's endless script: a typed refusal that names it, and all is well after SCRIPT KILL. */
static void busy_with_a_foreign_script(void **state)
{
    hf_store *store = open_at(server_url(server, "?op_timeout=2s")), *other = open_direct();
    hf_acquire_request request = with_ttl(mutex_request("held"), 20000),
                       trying = mutex_request("n");
    hf_lease *lease = take(store, &request), *none;
    redisContext *rude = server_connect(server);
    redisReply *reply;
    hf_status status;

    (void)state;
    server_do(server, "CONFIG SET busy-reply-threshold 50");
    redisAppendCommand(rude, "EVAL %s 0", "while true do end");
    CHECK(redisBufferWrite(rude, NULL) == REDIS_OK);
    nap_ms(100);
    status = hf_acquire(store, &trying, &none, &contract_error);
    CHECK(was_refused(status));
    if (!strstr(contract_error.text, "BUSY"))
        fail_msg("the text does not name it: %s", contract_error.text);
    CHECK(hf_lease_state(lease) != HF_STATE_LOST);
    reply = server_ask(server, "SCRIPT KILL");
    freeReplyObject(reply);
    AWAIT(probe(other, &trying) == HF_OK);
    AWAIT(probe(store, &trying) == HF_OK);
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    give(lease);
    redisFree(rude);
    close_store(store);
    close_store(other);
}

/* ---- connections that the server ends ------------------------------------------------------------- */

/* Say it on every channel that somebody listens to; how many that were. */
static size_t publish_everywhere(const char *text, size_t len)
{
    redisReply *channels = server_ask(server, "PUBSUB CHANNELS *");
    size_t count = channels->elements;

    for (size_t i = 0; i < count; i++)
        server_do(server, "PUBLISH %s %b", channels->element[i]->str, text, len);
    freeReplyObject(channels);
    return count;
}

/* The server drops a subscriber whose buffer is full; its waiter is granted all the same. */
static void push_buffer_overflows(void **state)
{
    hf_store *store = open_direct();
    hf_acquire_request request = mutex_request("n"), waiting = waiting_request("n");
    struct peer waiter;
    static char junk[3 << 20];
    uint64_t token;

    (void)state;
    server_do(server, "CONFIG SET client-output-buffer-limit %s", "pubsub 1mb 1mb 1");
    memset(junk, 'x', sizeof junk);
    peer_start(&waiter);
    for (int i = 0; i < 2; i++) {
        hf_lease *lease = take(store, &request);

        token = hf_lease_token(lease);
        peer_begin(&waiter, 0, &waiting);
        AWAIT(count_waiters(store, "n") == 1);
        AWAIT(publish_everywhere(junk, sizeof junk) > 0);
        give(lease);
        EXPECT(HF_OK, peer_join(&waiter, 0, &token));
        EXPECT(HF_OK, peer_release(&waiter, 0));
    }
    peer_stop(&waiter);
    close_store(store);
}

/* Grants for the right owner, but of another attempt of it: as an old message would be. */
static void forge_for_owner(void)
{
    redisReply *owners = server_ask(server, "HKEYS hf:{n}:w");

    CHECK(owners->elements == 1);
    for (unsigned attempt = 90; attempt < 94; attempt++) {
        char text[128];
        int len = snprintf(text, sizeof text, "G %s %u 9007199254740000 1 10000",
                           owners->element[0]->str, attempt);

        publish_everywhere(text, (size_t)len);
    }
    freeReplyObject(owners);
}

/* Nor does what others publish there make a grant. */
static void forged_messages(void **state)
{
    const char *const junk[] = { "",
                                 "G",
                                 "G  ",
                                 "G x 1 1 1 1",
                                 "X",
                                 "L",
                                 "L x 0",
                                 "G 00000000000000000000000000000000 1 9007199254740991 1 10000",
                                 "G 00000000000000000000000000000000 -1 -1 -1 -1",
                                 "L 00000000000000000000000000000000 1" };
    hf_store *store = open_direct();
    hf_acquire_request request = mutex_request("n"), waiting = waiting_request("n");
    hf_lease *lease = take(store, &request);
    struct peer waiter;
    uint64_t token;

    (void)state;
    peer_start(&waiter);
    peer_begin(&waiter, 0, &waiting);
    AWAIT(count_waiters(store, "n") == 1);
    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++)
        AWAIT(publish_everywhere(junk[i], strlen(junk[i])) > 0);
    forge_for_owner();
    nap_ms(300); /* it has them by now; if not, the case only shows less */
    CHECK(count_waiters(store, "n") == 1);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    token = hf_lease_token(lease);
    give(lease);
    {
        uint64_t his;

        EXPECT(HF_OK, peer_join(&waiter, 0, &his));
        CHECK(his > token && his < 9007199254740000);
    }
    EXPECT(HF_OK, peer_release(&waiter, 0));
    peer_stop(&waiter);
    close_store(store);
}

/* ---- hung up on, all the time --------------------------------------------------------------------- */

#define WORKERS 4

struct work {
    hf_store *store;
    _Atomic int *inside;
    _Atomic bool *stop;
    _Atomic uint64_t *last; /* token */
    int done;
};

static void *work(void *arg)
{
    struct work *w = arg;
    hf_acquire_request request = with_ttl(waiting_request("n"), 10000);

    while (!*w->stop) {
        hf_lease *lease;
        hf_status status = hf_acquire(w->store, &request, &lease, &contract_error);

        if (status != HF_OK) {
            check_true(was_refused(status), contract_error.text, __FILE__, __LINE__);
            continue;
        }
        /* No ttl passes here, so that nobody else may be in. */
        CHECK(++*w->inside == 1);
        CHECK(hf_lease_token(lease) > *w->last);
        *w->last = hf_lease_token(lease);
        sched_yield();
        CHECK(--*w->inside == 0);
        status = hf_release(lease, &contract_error);
        check_true(status == HF_OK || was_refused(status), contract_error.text, __FILE__, __LINE__);
        w->done++;
    }
    return NULL;
}

static void hung_up_on(const char *command)
{
    struct flusher killer = { .c = server_connect(server), .command = command, .every_ms = 7 };
    struct work workers[WORKERS];
    pthread_t threads[WORKERS], thread;
    _Atomic int inside = 0;
    _Atomic bool stop = false;
    _Atomic uint64_t last = 0;
    hf_store *other = open_direct();
    int done = 0;

    for (int i = 0; i < WORKERS; i++) {
        /* Two share a store, two have one each. */
        workers[i] = (struct work){ .store = i == 1 ? workers[0].store : open_direct(),
                                    .inside = &inside,
                                    .stop = &stop,
                                    .last = &last };
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    pthread_create(&thread, NULL, repeat_command, &killer);
    nap_ms(3000);
    killer.stop = true;
    pthread_join(thread, NULL);
    stop = true;
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        done += workers[i].done;
    }
    printf("%s: %d times, %d leases\n", command, killer.count, done);
    CHECK(done > 0);
    /* All unknown outcomes have been settled: nothing is held, and nobody waits. */
    AWAIT(count_holders(other, "n") == 0 && count_waiters(other, "n") == 0);
    gets_free(other, "n", last);
    for (int i = 0; i < WORKERS; i++)
        if (i != 1)
            close_store(workers[i].store);
    close_store(other);
    redisFree(killer.c);
}

static void calls_are_hung_up_on(void **state)
{
    (void)state;
    hung_up_on("CLIENT KILL TYPE normal SKIPME yes");
}

static void inboxes_are_hung_up_on(void **state)
{
    (void)state;
    hung_up_on("CLIENT KILL TYPE pubsub SKIPME yes");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(holder_is_told),
        TEST(risk_is_told),
        TEST(new_requests_are_refused),
        TEST(bounded_wait_ends),
        TEST(restarted_empty),
        TEST(waiters_go_on_after_restart),
        cmocka_unit_test_setup_teardown(restarted_with_its_data, setup_durable, bed_teardown),
        TEST(stopped_past_the_ttl),
        TEST(stopped_while_asked),
        TEST(scripts_are_forgotten),
        TEST(busy_with_a_foreign_script),
        TEST(push_buffer_overflows),
        TEST(forged_messages),
        TEST(calls_are_hung_up_on),
        TEST(inboxes_are_hung_up_on),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
