/* SPDX-License-Identifier: MIT */
/*
 * Numbers that no sane server says: each number of each answer becomes the largest, or the smallest, there is (extreme.py). What
 * we make of it stays within its range; that nothing overflows on the way only UBSan sees. Run by with_server:
 * extreme redis|etcd.
 */
#include "calls.h"
#include "contract.h"
#include "holdfast/primitives.h"
#include "redis_server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *orders, *answers;
static const char *kind;
static char spoiled_url[256], sane_url[256];
static const char *const numbers[] = { "9223372036854775807", "-9223372036854775808" };

/* ---- tools ------------------------------------------------------------------------------------------ */

static pid_t start_proxy(const char *server_port, unsigned *ret_port)
{
    int to[2], from[2];
    pid_t pid;

    if (pipe(to) != 0 || pipe(from) != 0 || (pid = fork()) < 0)
        give_up("extreme: no pipe or process");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        execl("/usr/bin/python3", "python3", EXTREME, kind, server_port, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    orders = fdopen(to[1], "w");
    answers = fdopen(from[0], "r");
    if (!orders || !answers || fscanf(answers, "%u", ret_port) != 1)
        give_up("extreme: %s does not start", EXTREME);
    return pid;
}

static unsigned order(const char *format, unsigned which, const char *number)
{
    char word[32];

    fprintf(orders, format, which, number);
    fflush(orders);
    CHECK(fscanf(answers, "%31s", word) == 1);
    return strcmp(word, "ok") == 0 ? 0 : (unsigned)strtoul(word, NULL, 10);
}

static hf_store *open_at(const char *url)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store = NULL;

    options.open_wait_ms = LIMIT_MS;
    EXPECT(HF_OK, hf_open(url, &options, &store, &contract_error));
    return store;
}

typedef void scenario_fn(hf_store *store, unsigned which);

static void each_number(scenario_fn *scenario)
{
    hf_store *store = open_at(spoiled_url);
    unsigned count;

    (void)order("spoil %u %s\n", 0, "0");
    scenario(store, 0);
    count = order("told %u %s\n", 0, "-");
    CHECK(count > 0);
    (void)hf_close(store, HF_CLOSE_FLAG_RELEASE);
    for (unsigned which = 1; which <= count; which++)
        for (size_t i = 0; i < (strcmp(kind, "redis") == 0 ? 2 : 1);
             i++) { /* etcd takes its time */
            store = open_at(spoiled_url);
            (void)order("spoil %u %s\n", which, numbers[i]);
            scenario(store, 2 * which + (unsigned)i);
            (void)order("spoil %u %s\n", 0, "0");
            (void)hf_close(store, HF_CLOSE_FLAG_RELEASE);
        }
}

static void check_lease(hf_lease *lease)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;

    CHECK(hf_lease_get(lease, &info) == HF_OK);
    CHECK(info.token < UINT64_C(1) << 53);
    CHECK(info.remaining_ms <= HF_DURATION_MAX_MS || info.remaining_ms == INT64_MAX);
}

/* ---- cases -------------------------------------------------------------------------------------------- */

/* Acquired, renewed, looked at, released; each time another name. */
static void use(hf_store *store, unsigned which)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease = NULL;
    hf_view *view = NULL;
    char name[32];

    snprintf(name, sizeof name, "use-%u", which);
    request.name = name;
    request.name_len = HF_CSTRING;
    request.ttl_ms = 20000;
    if (hf_acquire(store, &request, &lease, &contract_error) != HF_OK)
        return;
    check_lease(lease);
    IGNORE(hf_renew(lease, 0, &contract_error));
    check_lease(lease);
    if (hf_store_inspect(store, name, HF_CSTRING, 0, &view, &contract_error) == HF_OK) {
        for (size_t i = 0; i < hf_view_count(view); i++)
            for (size_t h = 0; h < hf_view_entry(view, i)->holder_count; h++) {
                CHECK(hf_entry_holder(hf_view_entry(view, i), h)->ttl_ms <= HF_DURATION_MAX_MS);
                CHECK(hf_entry_holder(hf_view_entry(view, i), h)->age_ms <= HF_DURATION_MAX_MS);
            }
        hf_free(view);
    }
    (void)hf_release(lease, &contract_error);
}

static void using(void **state)
{
    (void)state;
    each_number(use);
}

/* A lease of another process is taken over. */
static void adopt(hf_store *store, unsigned which)
{
    hf_store *other = open_at(sane_url);
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease = NULL;
    char handle[HF_LEASE_TEXT_MAX], name[32];

    snprintf(name, sizeof name, "adopt-%u", which);
    request.name = name;
    request.name_len = HF_CSTRING;
    request.ttl_ms = 20000;
    request.flags = HF_FLAG_DETACHED;
    EXPECT(HF_OK, hf_acquire(other, &request, &lease, &contract_error));
    EXPECT(HF_OK, hf_lease_export(lease, handle));
    EXPECT(HF_OK, hf_close(other, 0));
    lease = NULL;
    if (call_lease_adopt(store, name, HF_CSTRING, handle, 0, 0, &lease, &contract_error) == HF_OK) {
        check_lease(lease);
        (void)hf_release(lease, &contract_error);
    }
}

static void adopting(void **state)
{
    (void)state;
    each_number(adopt);
}

static void cells(hf_store *store, unsigned which)
{
    hf_cell cell = HF_CELL_INIT;
    int64_t value;

    (void)which;
    (void)call_cell_set(store, "cell", HF_CSTRING, "value", 5, 20000, NULL, &contract_error);
    if (hf_cell_get(store, "cell", HF_CSTRING, &cell, &contract_error) == HF_OK) {
        CHECK(cell.ttl_ms <= HF_DURATION_MAX_MS);
        hf_free(cell.bytes);
    }
    IGNORE(hf_counter_add(store, "count", HF_CSTRING, 1, &value, &contract_error));
}

static void cells_and_counters(void **state)
{
    (void)state;
    each_number(cells);
}

/* The holder releases while we wait: a hand-over, by a message or by an answer. */
static void wait_for_it(hf_store *store, unsigned which)
{
    hf_store *other = open_at(sane_url);
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease = NULL, *held = NULL;
    char name[32];

    snprintf(name, sizeof name, "wait-%u", which);
    request.name = name;
    request.name_len = HF_CSTRING;
    request.ttl_ms = 20000;
    EXPECT(HF_OK, hf_acquire(other, &request, &held, &contract_error));
    request.wait_ms = 30;
    if (hf_acquire(store, &request, &lease, &contract_error) == HF_OK)
        (void)hf_release(lease, NULL);
    EXPECT(HF_OK, hf_release(held, &contract_error));
    lease = NULL;
    request.wait_ms = 1000;
    if (hf_acquire(store, &request, &lease, &contract_error) == HF_OK) {
        check_lease(lease);
        (void)hf_release(lease, NULL);
    }
    EXPECT(HF_OK, hf_close(other, HF_CLOSE_FLAG_RELEASE));
}

static void waiting(void **state)
{
    (void)state;
    each_number(wait_for_it);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest cases[] = {
        cmocka_unit_test(using),
        cmocka_unit_test(adopting),
        cmocka_unit_test(cells_and_counters),
        cmocka_unit_test(waiting),
    };
    const char *port = getenv("HOLDFAST_TEST_PORT");
    unsigned own;
    int failed;
    pid_t proxy;

    if (argc < 2 || !port)
        give_up("usage: with_server redis|etcd %s redis|etcd [CASE]", argv[0]);
    kind = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    signal(SIGPIPE, SIG_IGN);
    proxy = start_proxy(port, &own);
    snprintf(spoiled_url, sizeof spoiled_url, "%s://127.0.0.1:%u", kind, own);
    snprintf(sane_url, sizeof sane_url, "%s://127.0.0.1:%s", kind, port);
    failed = cmocka_run_group_tests(cases, NULL, NULL);
    fclose(orders);
    waitpid(proxy, NULL, 0);
    fclose(answers);
    return failed;
}
