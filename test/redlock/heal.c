/* SPDX-License-Identifier: MIT */
/*
 * Epochs on real servers: starting a cluster, nodes that come back with their data and without, healers that die anywhere, and
 * what only a person can decide. What a healer leaves behind when it dies is written by hand here, state by state; that
 * no state is forgotten is the simulator's business (test/sim/redlock_main.c).
 */
#include "holdfast/redis.h"
#include "nodes.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHORT   "?max_ttl=3s"
#define ID      16
#define STATE   57 /* bytes of the field m */
#define RACERS  8
#define HEALERS 4
#define HIGH    (UINT64_C(1) << 52) /* a counter that no clock explains */

static int servers_setup(void **state)
{
    (void)state;
    nodes_start();
    aim(nodes_url("?prefix=bed:"));
    return 0;
}

static int servers_teardown(void **state)
{
    contract_teardown(state);
    for (unsigned i = 0; i < NODES; i++) {
        server_free(nodes[i]);
        nodes[i] = NULL;
    }
    return 0;
}

#define SERVERS_TEST(f) cmocka_unit_test_setup_teardown(f, servers_setup, servers_teardown)

/* ---- looking at nodes, and doing things to them -------------------------------------------- */

struct look {
    bool ready;
    unsigned char
        bytes[STATE]; /* version, epoch, cluster, n, max_ttl; top and floor come after that */
};

static struct look look_at(unsigned node)
{
    redisReply *reply = server_ask(nodes[node], "HGET hf:rl:cluster m");
    struct look look = { .ready = reply->type == REDIS_REPLY_STRING };

    if (look.ready) {
        CHECK(reply->len == STATE + 16);
        memcpy(look.bytes, reply->str, STATE);
    }
    freeReplyObject(reply);
    return look;
}

static double epoch_number(const struct look *look)
{
    double number;

    memcpy(&number, look->bytes + 1, sizeof number);
    return number;
}

static bool all_the_same(void)
{
    struct look first = look_at(0);

    for (unsigned i = 0; i < NODES; i++) {
        struct look other = look_at(i);

        if (!other.ready || memcmp(first.bytes, other.bytes, STATE) != 0)
            return false;
    }
    return true;
}

static double await_same(void)
{
    struct look look;

    AWAIT(all_the_same());
    look = look_at(0);
    return epoch_number(&look);
}

/* The node as a healer leaves it: in an epoch that another one began ... */
static void set_epoch(unsigned node, double number, const char *id)
{
    server_do(nodes[node], "EVAL %s 1 hf:rl:cluster %f %b",
              "local m = redis.call('HGET', KEYS[1], 'm'); "
              "redis.call('HSET', KEYS[1], 'm', '\\3' .. struct.pack('<d', ARGV[1] + 0) .. "
              "ARGV[2] .. string.sub(m, 26)); return 1",
              number, id, (size_t)ID);
}

/* ... or empty, with a marker that has been there for a minute; with `cluster`: just installed by it. */
static void set_marked(unsigned node, const char *marker)
{
    server_do(
        nodes[node], "EVAL %s 1 hf:rl:cluster %b",
        "local t = redis.call('TIME'); redis.call('DEL', KEYS[1]); "
        "redis.call('HSET', KEYS[1], 'k', ARGV[1] .. struct.pack('<d', t[1] * 1000 - 60000)); "
        "return 1",
        marker, (size_t)ID);
}

static void set_installed(unsigned node, const char *marker)
{
    server_do(nodes[node], "EVAL %s 1 hf:rl:cluster %b",
              "redis.call('DEL', KEYS[1]); "
              "redis.call('HSET', KEYS[1], 'm', '\\3' .. struct.pack('<d', 1) .. ARGV[1] .. "
              "'just one cluster' .. struct.pack('<dddd', 5, 3000, 0, 0)); "
              "return 1",
              marker, (size_t)ID);
}

static void raise_counter(unsigned node, const char *name, uint64_t to)
{
    server_do(nodes[node], "EVAL %s 1 hf:rl:cluster n%s %s",
              "local c, m = struct.pack('<d', ARGV[2] + 0), redis.call('HGET', KEYS[1], 'm') "
              "redis.call('HSET', KEYS[1], ARGV[1], c, 'm', string.sub(m, 1, 57) .. c .. "
              "string.sub(m, 66)); return 1",
              name, "4503599627370496");
    CHECK(to == HIGH);
}

static void forget(unsigned node)
{
    server_do(nodes[node], "FLUSHALL");
}

/* A store that is driven all the time, because it holds something. */
struct healer {
    hf_store *store;
    hf_lease *lease;
};

static struct healer healer_open(const char *own)
{
    struct healer healer = { .store = open_at(nodes_url(SHORT)) };
    hf_acquire_request request = with_ttl(waiting_request(own), 3000);

    healer.lease = take(healer.store, &request);
    return healer;
}

static void healer_close(struct healer *healer)
{
    hf_release(healer->lease, NULL); /* it may be lost */
    close_hard(healer->store);
}

static uint64_t token_of(hf_store *store, const char *name)
{
    hf_acquire_request request = with_ttl(waiting_request(name), 3000);
    hf_lease *lease = take(store, &request);
    uint64_t token = hf_lease_token(lease);

    give(lease);
    return token;
}

/* ---- in processes of their own ------------------------------------------------------------------ */

/* Waits for the end of `gate`, opens, acquires once, and with `stays` holds on until it is killed. */
static pid_t spawn(const int gate[2], int number, bool stays)
{
    hf_acquire_request request;
    char own[32], byte;
    hf_store *store = NULL;
    hf_lease *lease = NULL;
    hf_error err;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(gate[1]);
    while (read(gate[0], &byte, 1) > 0)
        ;
    snprintf(own, sizeof own, "own %d", number);
    request = with_ttl(waiting_request(own), 3000);
    if (hf_open(nodes_url(SHORT), NULL, &store, &err) != HF_OK ||
        hf_acquire(store, &request, &lease, &err) != HF_OK) {
        fprintf(stderr, "process %d: %s\n", number, err.text);
        _exit(1);
    }
    while (stays)
        pause();
    hf_release(lease, NULL);
    hf_close(store, HF_CLOSE_FLAG_RELEASE);
    _exit(0);
}

static void start_raced_by_many(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        pid_t racers[RACERS];
        int gate[2], status;

        for (unsigned i = 0; i < NODES; i++)
            forget(i);
        CHECK(pipe(gate) == 0);
        for (int i = 0; i < RACERS; i++)
            racers[i] = spawn(gate, i, false);
        close(gate[0]);
        close(gate[1]);
        for (int i = 0; i < RACERS; i++) {
            CHECK(waitpid(racers[i], &status, 0) == racers[i]);
            CHECK(status == 0);
        }
        CHECK(await_same() == 1); /* one start, and nobody healed anything */
    }
}

/*
 * Two starters, each of which reaches other nodes at once and the rest late: without the question whether all
 * carry the marker still, each would begin a cluster of its own.
 */
static void *start_slowly(void *arg)
{
    const char *url = arg;
    hf_store *store = open_at(url);

    close_store(store);
    return NULL;
}

static void start_with_slow_lines(void **state)
{
    struct proxy *slow[2][NODES];
    pthread_t threads[2];
    char urls[2][512];

    (void)state;
    for (int side = 0; side < 2; side++) {
        int len = snprintf(urls[side], sizeof urls[side], "redlock://");

        for (unsigned i = 0; i < NODES; i++) {
            slow[side][i] = proxy_start(nodes[i]->port);
            if (i < 2 ? side == 0 : side == 1)
                proxy_delay(slow[side][i], PROXY_UP, 100);
            len += snprintf(urls[side] + len, sizeof urls[side] - (size_t)len, "%s127.0.0.1:%u",
                            i ? "," : "", (unsigned)proxy_port(slow[side][i]));
        }
        snprintf(urls[side] + len, sizeof urls[side] - (size_t)len, SHORT);
    }
    for (int side = 0; side < 2; side++)
        CHECK(pthread_create(&threads[side], NULL, start_slowly, urls[side]) == 0);
    for (int side = 0; side < 2; side++)
        CHECK(pthread_join(threads[side], NULL) == 0);
    CHECK(await_same() == 1);
    for (int side = 0; side < 2; side++)
        for (unsigned i = 0; i < NODES; i++)
            proxy_stop(slow[side][i]);
}

/* Two nodes are emptied again and again under clients that are killed while they heal. */
static void healers_that_are_killed(void **state)
{
    pid_t healers[HEALERS];
    int gate[2], status;
    struct healer last;

    (void)state;
    CHECK(pipe(gate) == 0);
    last = healer_open("last");
    AWAIT(all_the_same());
    healer_close(&last);
    for (int i = 0; i < HEALERS; i++)
        healers[i] = spawn(gate, i, true);
    close(gate[0]);
    close(gate[1]);
    forget(1);
    forget(3);
    nap_ms(2900); /* just before they may heal: from now on one dies every few milliseconds */
    for (int i = 0; i < HEALERS; i++) {
        nap_ms(rand() % 100);
        kill(healers[i], SIGKILL);
        CHECK(waitpid(healers[i], &status, 0) == healers[i]);
    }
    last = healer_open("last");
    CHECK(await_same() >= 2);
    healer_close(&last);
}

/* ---- loss and return -------------------------------------------------------------------------------- */

static void with_its_data_it_votes_again(void **state)
{
    struct healer healer = healer_open("own");

    (void)state;
    AWAIT(all_the_same());
    for (unsigned i = 0; i < NODES; i++) {
        node_restart(i, true);
        token_of(healer.store, "name");
    }
    CHECK(await_same() == 1); /* nothing had to be healed */
    healer_close(&healer);
}

/*
 * All nodes lose their data, two at a time, and in the end those vote that have nothing but what they were
 * installed with. The counter is far ahead of every clock: only the floor can have told them.
 */
static void tokens_survive_all_nodes(void **state)
{
    struct healer healers[HEALERS];
    uint64_t before;

    (void)state;
    for (int i = 0; i < HEALERS; i++) {
        char own[32];

        snprintf(own, sizeof own, "own %d", i);
        healers[i] = healer_open(own);
    }
    AWAIT(all_the_same());
    for (unsigned i = 0; i < NODES; i++)
        raise_counter(i, "name", HIGH);
    before = token_of(healers[0].store, "name");
    CHECK(before > HIGH);
    node_restart(0, false);
    forget(1); /* without the connection noticing */
    CHECK(await_same() >= 2);
    node_restart(2, false);
    node_restart(3, false);
    CHECK(await_same() >= 3);
    server_kill(nodes[4]); /* the last that remembers */
    CHECK(token_of(healers[1].store, "name") > before);
    for (int i = 0; i < HEALERS; i++)
        healer_close(&healers[i]);
}

/* ---- what a dead healer leaves ------------------------------------------------------------------------ */

static void another_goes_on(void **state)
{
    static const char x[] = "marker x........", y[] = "marker y........";
    struct healer healer = healer_open("own");

    (void)state;
    AWAIT(all_the_same());
    healer_close(&healer);

    set_marked(4, x); /* one of four is sealed */
    set_epoch(0, 2, x);
    healer = healer_open("own");
    CHECK(await_same() == 2);
    healer_close(&healer);

    set_marked(4, y); /* all are sealed, nothing is installed */
    for (unsigned i = 0; i < 4; i++)
        set_epoch(i, 3, y);
    healer = healer_open("own");
    CHECK(await_same() == 3);
    healer_close(&healer);

    set_marked(3, x); /* two losses, and one of three is sealed for the first */
    set_marked(4, y);
    set_epoch(1, 4, x);
    healer = healer_open("own");
    CHECK(await_same() >= 4);
    healer_close(&healer);

    for (unsigned i = 0; i < 4; i++) /* one was not there when the others were sealed */
        set_epoch(i, 9, x);
    healer = healer_open("own");
    CHECK(await_same() == 9);
    healer_close(&healer);
}

static void another_finishes_a_start(void **state)
{
    static const char m[] = "marker m........", other[] = "marker of others";
    struct healer healer;
    struct look look;

    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        set_marked(i, m);
    set_installed(2, m);
    healer = healer_open("own");
    CHECK(await_same() == 1);
    look = look_at(0);
    CHECK(memcmp(look.bytes + 9, m, ID) == 0); /* that start, and no other */
    healer_close(&healer);

    for (unsigned i = 0; i < NODES; i++) /* it died before it could install anything */
        set_marked(i, i < 3 ? m : other);
    healer = healer_open("own");
    CHECK(await_same() == 1);
    look = look_at(0);
    CHECK(memcmp(look.bytes + 9, m, ID) != 0);
    healer_close(&healer);

    for (unsigned i = 0; i < NODES;
         i++) /* its marker is on one node only that is not installed: not its start */
        set_marked(i, i == 1 ? m : other);
    set_installed(2, m);
    EXPECT(HF_CORRUPT, hf_open(nodes_url(SHORT), NULL, &healer.store, &contract_error));
}

/* ---- what only a person can decide ---------------------------------------------------------------------- */

/*
 * Both forms. The asynchronous one is delivered by a store that has nothing to do with it, and its inputs are gone once it has
 * begun.
 */
static pthread_t tester;
static unsigned steps; /* that the last join told of */

static hf_store *open_deliverer(void)
{
    return open_at(server_url(nodes[4], "?prefix=deliverer:"));
}

/* The error of the call stays. */
static void close_deliverer(hf_store *store)
{
    hf_error error = contract_error;

    close_store(store);
    contract_error = error;
}

/* Of both forms: on the thread that called, or that pumps; and before `done`, whose arg it gets. */
static void said(hf_check_level level, const char *topic, const char *text, void *arg)
{
    struct both *both = arg;

    (void)level;
    CHECK(pthread_equal(pthread_self(), tester) && !both->done);
    steps++;
    print_message("%s: %s\n", topic, text);
}

static hf_status join_node(const char *node, uint64_t flags)
{
    struct both both = { .done = false };
    char url[512], named[64];
    hf_store *store;
    hf_status status;

    tester = pthread_self();
    steps = 0;
    if (!contract_pumped)
        return hf_redlock_join(nodes_url(SHORT), node, flags, said, &both, &contract_error);
    snprintf(url, sizeof url, "%s", nodes_url(SHORT));
    snprintf(named, sizeof named, "%s", node ? node : "");
    store = open_deliverer();
    status = hf_redlock_join_async(store, url, node ? named : NULL, flags, said, both_done, &both,
                                   NULL, &contract_error);
    memset(url, '?', sizeof url - 1);
    memset(named, '?', sizeof named - 1);
    CHECK(!both.done && steps == 0);
    status = both_end(store, status, &both, &contract_error);
    close_deliverer(store);
    return status;
}

static hf_status join(bool force)
{
    return join_node(NULL, force ? HF_REDLOCK_JOIN_FLAG_FORCE : 0);
}

static hf_status get_status(const char *at, hf_redlock_status **ret_status)
{
    struct both both = { .done = false };
    hf_store *store;
    hf_status status;
    char url[512];

    if (!contract_pumped)
        return hf_redlock_get_status(at, ret_status, &contract_error);
    snprintf(url, sizeof url, "%s", at);
    store = open_deliverer();
    status = hf_redlock_get_status_async(store, url, both_done, &both, NULL, &contract_error);
    memset(url, '?', sizeof url - 1);
    status = both_end(store, status, &both, &contract_error);
    *ret_status = both.result.redlock;
    close_deliverer(store);
    return status;
}

/* It cannot be healed, and yet there is something to see. */
static void looks_corrupt(void)
{
    hf_redlock_status *status = NULL;
    const hf_redlock_node *node;

    EXPECT(HF_CORRUPT, get_status(nodes_url(SHORT), &status));
    CHECK(status && status->nodes == NODES && status->next == HF_REDLOCK_STEP_OPERATOR);
    for (size_t i = 0; i < NODES; i++) {
        node = hf_redlock_get_node(status, i);
        CHECK(node && strncmp(node->name, "127.0.0.1:", 10) == 0);
    }
    CHECK(hf_redlock_get_node(status, NODES) == NULL);
    hf_free(status);
}

static bool says(const char *word)
{
    if (strstr(contract_error.text, word))
        return true;
    print_error("'%s' is not in: %s\n", word, contract_error.text);
    return false;
}

static bool says_node(unsigned node)
{
    char shown[32];

    snprintf(shown, sizeof shown, "127.0.0.1:%u", (unsigned)nodes[node]->port);
    return says(shown);
}

static void a_node_of_another_cluster_is_named(void **state)
{
    hf_store *store = open_at(nodes_url(SHORT));

    (void)state;
    await_same();
    close_store(store);
    set_installed(4, "marker z........");
    EXPECT(HF_CONFIG, hf_open(nodes_url(SHORT), NULL, &store, &contract_error));
    CHECK(says_node(4) && says("another cluster"));
    EXPECT(HF_CONFIG, join(true)); /* nor does force mix them */
    CHECK(says_node(4));
}

static void force_goes_on_with_larger_tokens(void **state)
{
    hf_store *store = open_at(nodes_url(SHORT)), *late = NULL;
    uint64_t before;

    (void)state;
    await_same();
    for (unsigned i = 0; i < NODES; i++)
        raise_counter(i, "name", HIGH);
    before = token_of(store, "name");
    close_store(store);
    for (unsigned i = 0; i < MAJORITY; i++)
        forget(i);
    EXPECT(HF_CORRUPT, hf_open(nodes_url(SHORT), NULL, &late, &contract_error));
    CHECK(says_node(0) && says_node(1) && says_node(2) && says("holdfast redlock join --force"));
    looks_corrupt();
    EXPECT(HF_CORRUPT, join(false)); /* it explains, and does nothing */
    CHECK(says("--force") && !node_votes(0));
    server_kill(nodes[3]);
    EXPECT(HF_UNAVAILABLE, join(true)); /* it could have what is missed */
    CHECK(says_node(3) && !node_votes(0));
    node_restart(3, true);
    EXPECT(HF_OK, join(true));
    CHECK(steps >= MAJORITY && await_same() > 1);
    store = open_at(nodes_url(SHORT));
    server_kill(nodes[3]); /* those that remember are not there */
    server_kill(nodes[4]);
    CHECK(token_of(store, "name") > before);
    close_hard(store);
}

static void what_a_join_refuses(void **state)
{
    hf_redlock_status *status = NULL;
    hf_store *store;

    (void)state;
    EXPECT(HF_INVALID, join_node("10.0.0.1:1", 0));
    CHECK(says("10.0.0.1:1") && steps == 0);
    EXPECT(HF_INVALID, join_node(NULL, HF_REDLOCK_JOIN_FLAG_FORCE << 1));
    EXPECT(HF_UNSUPPORTED, get_status("file:/tmp", &status));
    EXPECT(HF_INVALID, get_status("", &status));
    CHECK(status == NULL);
    if (!contract_pumped)
        return;
    store = open_deliverer();
    EXPECT(HF_INVALID,
           hf_redlock_get_status_async(store, nodes_url(SHORT), NULL, NULL, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_redlock_join_async(store, nodes_url(SHORT), NULL, 0, NULL, NULL, NULL,
                                             NULL, &contract_error));
    close_store(store); /* nothing is pending */
}

/* A join waits for max_ttl, for which nobody may have to wait in hf_close(). */
struct early {
    struct both both;
    bool waits;
};

static void heard(hf_check_level level, const char *topic, const char *text, void *arg)
{
    struct early *early = arg;

    (void)topic, (void)text;
    CHECK(!early->both.done);
    early->waits = early->waits || level == HF_CHECK_LEVEL_WARNING;
}

static void ended_early(const hf_result *result, void *arg)
{
    both_done(result, &((struct early *)arg)->both);
}

/* Begin one, and see it wait. */
static hf_op *begin_long(hf_store *store, struct early *early)
{
    hf_op *op = NULL;

    *early = (struct early){ .waits = false };
    EXPECT(HF_OK, hf_redlock_join_async(store, nodes_url("?max_ttl=1h"), NULL, 0, heard,
                                        ended_early, early, &op, &contract_error));
    while (!early->waits && !early->both.done) {
        struct pollfd fd = { .fd = hf_store_fd(store), .events = POLLIN };

        poll(&fd, 1, hf_store_timeout_ms(store));
        hf_store_process(store);
    }
    CHECK(!early->both.done);
    return op;
}

static void a_join_ends_early(void **state)
{
    hf_store *store = open_at(nodes_url("?max_ttl=1h"));
    struct early early;

    (void)state;
    await_same();
    close_store(store);
    forget(0);
    store = open_deliverer();
    EXPECT(HF_OK, hf_op_cancel(begin_long(store, &early)));
    EXPECT(HF_CANCELLED, both_end(store, HF_OK, &early.both, &contract_error));
    (void)begin_long(store, &early);
    EXPECT(HF_IN_USE, hf_close(store, 0));
    close_hard(store);
    CHECK(early.both.done && early.both.result.status == HF_CANCELLED && !node_votes(0));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(start_raced_by_many),
        SERVERS_TEST(start_with_slow_lines),
        SERVERS_TEST(healers_that_are_killed),
        SERVERS_TEST(with_its_data_it_votes_again),
        SERVERS_TEST(tokens_survive_all_nodes),
        SERVERS_TEST(another_goes_on),
        SERVERS_TEST(another_finishes_a_start),
        SERVERS_TEST(a_node_of_another_cluster_is_named),
        SERVERS_TEST(a_join_ends_early),
        SERVERS_TEST(what_a_join_refuses),
        SERVERS_TEST(force_goes_on_with_larger_tokens),
    };
    const struct CMUnitTest pumped[] = {
        SERVERS_TEST(a_node_of_another_cluster_is_named),
        SERVERS_TEST(what_a_join_refuses),
        SERVERS_TEST(force_goes_on_with_larger_tokens),
    };
    int failed;

    bed_main(argc, argv);
    failed = BED_RUN(tests);
    contract_pumped = true;
    return failed + BED_RUN(pumped);
}
