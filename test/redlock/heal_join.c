/* SPDX-License-Identifier: MIT */
/* What only a person can decide about the epoch of a cluster: its status, a node that joins, `force`. */
#include "heal_bed.h"
#include "holdfast/redis.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
