/* SPDX-License-Identifier: MIT */
/*
 * doubt [CASE]: the store does what a call asks for, the answer is lost, and then the store is away. The call must
 * say HF_UNKNOWN: HF_UNAVAILABLE would say that nothing was done. On the real server of HOLDFAST_TEST_URL, through
 * a proxy that holds answers back for a while: a second client, which is not held back, sees the write and cuts the
 * line before the answer has passed.
 */
#include "contract.h"

#include "calls.h"
#include "holdfast/primitives.h"
#include "prim/task.h"
#include "proxy.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELD_BACK_MS 400
#define CHANCES      5 /* that we cut before the answer has passed: a busy machine may be too late */

static struct proxy *proxy;
static hf_store *through, *direct;

/* ---- the bed ------------------------------------------------------------------------------------- */

static const char *url_through(void)
{
    static char url[600];
    const char *port = url_port(contract_url());

    snprintf(url, sizeof url, "%.*s%u%s", (int)(port - contract_url()), contract_url(),
             (unsigned)proxy_port(proxy), port + strspn(port, "0123456789"));
    return url;
}

static int setup(void **state)
{
    if (contract_setup(state) != 0)
        return -1;
    /* Then it is away. To connect takes several answers that are held back. */
    if (strcmp(contract_info.engine, "zookeeper") != 0)
        contract_param("op_timeout=3s");
    proxy = proxy_start((uint16_t)atoi(url_port(contract_url())));
    EXPECT(HF_OK, hf_open(url_through(), NULL, &through, &contract_error));
    direct = open_store();
    return 0;
}

static int teardown(void **state)
{
    proxy_heal(proxy);
    (void)hf_close(through, HF_CLOSE_FLAG_RELEASE);
    (void)hf_close(direct, HF_CLOSE_FLAG_RELEASE);
    proxy_stop(proxy);
    return contract_teardown(state);
}

static hf_status read_version(hf_store *store, const char *name, uint64_t *ret_version)
{
    struct hfi_prim_task task;
    hf_status status;

    hfi_prim_task_init_act(&task, HFI_ACT_READ);
    EXPECT(HF_OK, hfi_prim_enter(&task.prim, store, "look", name, HF_CSTRING, HF_CAP_CELLS,
                                 &contract_error));
    status = hfi_prim_task_run(&task, &contract_error);
    *ret_version = task.action.cell.version;
    hfi_cell_forget(&task.action.cell);
    return status;
}

/* On a busy machine the server may take longer than op_timeout: ask again. */
static uint64_t version_of(const char *name)
{
    uint64_t version;
    hf_status status;

    AWAIT((status = read_version(direct, name, &version)) != HF_UNAVAILABLE);
    EXPECT(HF_OK, status);
    return version;
}

static void go_away(void)
{
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
}

/* ---- one call whose answer is lost ---------------------------------------------------------------- */

struct call {
    hf_status (*run)(struct call *call);
    hf_lease *lease;
    hf_status status;
    hf_error err;
    pthread_t thread;
    _Atomic bool ended;
};

static void *run_there(void *arg)
{
    struct call *call = arg;

    call->status = call->run(call);
    atomic_store(&call->ended, true);
    return NULL;
}

static void start(struct call *call)
{
    atomic_store(&call->ended, false);
    CHECK(pthread_create(&call->thread, NULL, run_there, call) == 0);
}

static hf_status end(struct call *call)
{
    CHECK(pthread_join(call->thread, NULL) == 0);
    proxy_heal(proxy);
    fprintf(stderr, "%s: %s\n", hf_status_name(call->status), call->err.text);
    return call->status;
}

/* Run it; when the cell of that name has changed, the answer is lost and the store away. HF_UNAVAILABLE: the server did
 * not answer in time, and nothing was written. */
static hf_status doubt(struct call *call, const char *name)
{
    uint64_t before = version_of(name), seen;
    hf_status status;

    AWAIT(read_version(through, name, &seen) != HF_UNAVAILABLE); /* connected again after a cut */
    proxy_delay(proxy, PROXY_DOWN, HELD_BACK_MS);
    start(call);
    AWAIT(atomic_load(&call->ended) || version_of(name) != before);
    go_away();
    status = end(call);
    CHECK(status != HF_UNAVAILABLE ||
          version_of(name) == before); /* it says that nothing was done */
    return status;
}

/* As above, until it was cut in time: `prepare` makes it as it was. */
static void is_doubtful(struct call *call, const char *name, void (*prepare)(struct call *call))
{
    hf_status status = HF_OK;

    for (int chance = 0; chance < CHANCES; chance++) {
        if (status == HF_OK)
            prepare(call);
        status = doubt(call, name);
        if (status == HF_OK || status == HF_UNAVAILABLE)
            continue;
        EXPECT(HF_UNKNOWN, (contract_error = call->err, status));
        return;
    }
    FAIL("the line was never cut in time");
}

/* ---- latches -------------------------------------------------------------------------------------- */

static void set_gate(struct call *call)
{
    hf_status status = hf_latch_delete(direct, "gate", HF_CSTRING, &contract_error);

    (void)call;
    CHECK(status == HF_OK || status == HF_NOT_FOUND);
    EXPECT(HF_OK, hf_latch_create(direct, "gate", HF_CSTRING, 1, &contract_error));
}

static hf_status count_down(struct call *call)
{
    return hf_latch_count_down(through, "gate", HF_CSTRING, "us", NULL, &call->err);
}

static void a_count(void **state)
{
    struct call call = { .run = count_down };
    uint32_t left = 7;

    (void)state;
    is_doubtful(&call, "gate", set_gate);
    EXPECT(HF_OK, hf_latch_get(direct, "gate", HF_CSTRING, NULL, &left, &contract_error));
    CHECK(left == 0);
}

/* ---- several cells ---------------------------------------------------------------------------------- */

static uint64_t cells[2];

static hf_status write_cells(hf_store *store, const char *text, hf_error *err)
{
    hf_cell_item items[2] = { HF_CELL_ITEM_INIT, HF_CELL_ITEM_INIT };

    for (int i = 0; i < 2; i++) {
        items[i].name = i ? "right" : "left";
        items[i].name_len = HF_CSTRING;
        items[i].version = cells[i] ? cells[i] : HF_CELL_ANY;
        items[i].action = HF_CELL_ACTION_WRITE;
        items[i].bytes = text;
        items[i].len = strlen(text);
    }
    return hf_cells_commit(store, items, 2, store == direct ? cells : NULL, NULL, err);
}

static void set_cells(struct call *call)
{
    (void)call;
    memset(cells, 0, sizeof cells);
    EXPECT(HF_OK, write_cells(direct, "before", &contract_error));
}

static hf_status commit_cells(struct call *call)
{
    return write_cells(through, "after", &call->err);
}

/* All of it was done, once. */
static void a_commit(void **state)
{
    struct call call = { .run = commit_cells };
    hf_cell cell = HF_CELL_INIT;

    (void)state;
    if (!has(HF_CAP_COMMIT))
        skip();
    is_doubtful(&call, "right", set_cells);
    for (int i = 0; i < 2; i++) {
        EXPECT(HF_OK,
               hf_cell_get(direct, i ? "right" : "left", HF_CSTRING, &cell, &contract_error));
        CHECK(strcmp(cell.bytes, "after") == 0);
        hf_free(cell.bytes);
    }
    EXPECT(HF_CHANGED, write_cells(direct, "after", &contract_error));
}

/* ---- barriers ------------------------------------------------------------------------------------- */

static hf_status come(struct call *call)
{
    return call_barrier_wait(through, "ring", HF_CSTRING, 2, NULL, LIMIT_MS, NULL, &call->err);
}

static hf_status come_directly(struct call *call)
{
    return call_barrier_wait(direct, "ring", HF_CSTRING, 2, "other", LIMIT_MS, NULL, &call->err);
}

static struct call other;

static void other_comes(struct call *call)
{
    uint64_t before = version_of("ring");

    (void)call;
    if (other.run) /* they have passed: we were too late */
        EXPECT(HF_OK, end(&other));
    other = (struct call){ .run = come_directly };
    start(&other);
    AWAIT(version_of("ring") != before);
}

/* All others pass; we were counted. */
static void an_arrival(void **state)
{
    struct call call = { .run = come };

    (void)state;
    other = (struct call){ .run = NULL };
    is_doubtful(&call, "ring", other_comes);
    EXPECT(HF_OK, end(&other));
}

static hf_status come_for_a_while(struct call *call)
{
    return call_barrier_wait(through, "ring", HF_CSTRING, 2, NULL, 1000, NULL, &call->err);
}

/* We have arrived, the store becomes unreachable, and our time is up. The others, which can reach
 * it, pass; we were counted. */
static void giving_up(void **state)
{
    struct call call = { .run = come_for_a_while };
    uint64_t before = version_of("ring");

    (void)state;
    start(&call);
    AWAIT(version_of("ring") != before);
    go_away();
    other = (struct call){ .run = come_directly };
    EXPECT(HF_OK, come_directly(&other));
    EXPECT(HF_UNKNOWN, (end(&call), contract_error = call.err, call.status));
}

/* ---- once, and elections --------------------------------------------------------------------------- */

static void begin_job(struct call *call)
{
    hf_acquire_request request = waiting_request("job");

    if (call->lease) {
        give(call->lease);
        EXPECT(HF_OK, hf_once_delete(direct, "job", HF_CSTRING, &contract_error));
    }
    EXPECT(HF_OK, hf_once_begin(through, &request, 0, &call->lease, NULL, &contract_error));
    CHECK(call->lease);
}

static hf_status job_done(struct call *call)
{
    return hf_once_finish(call->lease, &call->err);
}

static void a_mark(void **state)
{
    struct call call = { .run = job_done };

    (void)state;
    is_doubtful(&call, "job", begin_job);
    EXPECT(HF_OK, hf_once_get(direct, "job", HF_CSTRING, NULL, &contract_error));
}

static void lead(struct call *call)
{
    hf_acquire_request request = waiting_request("chair");

    if (!call->lease)
        call->lease = take(through, &request);
    EXPECT(HF_OK, hf_election_set(call->lease, "-", 1, &contract_error));
}

static hf_status proclaim(struct call *call)
{
    return hf_election_set(call->lease, "ada", 3, &call->err);
}

static void a_word(void **state)
{
    struct call call = { .run = proclaim };
    hf_leader *seen;

    (void)state;
    is_doubtful(&call, "chair", lead);
    EXPECT(HF_OK,
           call_election_wait(direct, "chair", HF_CSTRING, NULL, 0, NULL, &seen, &contract_error));
    CHECK(strcmp(seen->value, "ada") == 0);
    hf_free(seen);
}

/* ---- the command ------------------------------------------------------------------------------------ */

/* `holdfast once`: the lease ends before the store is back. Does what it prints say that there is no mark? */
static int once_in_doubt(char *said, size_t size)
{
    uint64_t before;
    int out[2], status;
    size_t len = 0;
    ssize_t got;
    pid_t pid;

    CHECK(pipe(out) == 0);
    pid = fork();
    if (pid == 0) {
        dup2(out[1], STDERR_FILENO);
        close(out[0]);
        close(out[1]);
        execl(getenv("HOLDFAST_BIN"), "holdfast", "-S", url_through(), "once", "--ttl", "3s",
              "night", "--", "sh", "-c", "sleep 0.2", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    AWAIT((before = version_of("night")) != 0); /* claimed */
    proxy_delay(proxy, PROXY_DOWN, HELD_BACK_MS);
    AWAIT(version_of("night") != before);
    go_away();
    while (len + 1 < size && (got = read(out[0], said + len, size - len - 1)) > 0)
        len += (size_t)got;
    said[len] = 0;
    close(out[0]);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    proxy_heal(proxy);
    fprintf(stderr, "exit %d: %s", WEXITSTATUS(status), said);
    return WEXITSTATUS(status);
}

static void what_once_says(void **state)
{
    char said[4096];

    (void)state;
    if (!getenv("HOLDFAST_BIN"))
        skip();
    for (int chance = 0; chance < CHANCES; chance++) {
        if (once_in_doubt(said, sizeof said) != 0) {
            CHECK(strstr(said, "its mark may be missing"));
            CHECK(!strstr(said, "its mark is missing"));
            return;
        }
        EXPECT(HF_OK, hf_once_delete(direct, "night", HF_CSTRING, &contract_error));
    }
    FAIL("the line was never cut in time");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        TEST(a_count), TEST(a_commit), TEST(an_arrival),     TEST(giving_up),
        TEST(a_mark),  TEST(a_word),   TEST(what_once_says),
    };
    const char *url = getenv("HOLDFAST_TEST_URL");

    if (!url) {
        fprintf(stderr, "doubt: no HOLDFAST_TEST_URL\n");
        return 64;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    contract_begin(url, true);
    return cmocka_run_group_tests_name("doubt", cases, NULL, NULL) ? 1 : 0;
}
