/* SPDX-License-Identifier: MIT */
/*
 * Answers in the wrong shape: each answer that a call gets is spoiled in each way that mangle.py knows (columns and rows that
 * are missing or too many, NULLs, other types, extreme numbers, bytes without end). Whatever a server says, the client does
 * not crash, believes nothing of it, and goes on when the server is sane again. Sanitizers see what a plain run does not.
 */
#include "calls.h"
#include "contract.h"
#include "db.h"
#include "holdfast/primitives.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct db *db;
static FILE *orders, *answers;
static unsigned port;
static const char *const ways[] = { "none",  "fewer", "more", "null", "types",
                                    "empty", "rows",  "huge", "long", "least" };

/* ---- tools ------------------------------------------------------------------------------------------ */

static pid_t start_mangler(void)
{
    char real[16];
    int to[2], from[2];
    pid_t pid;

    snprintf(real, sizeof real, "%u", (unsigned)db->port);
    if (pipe(to) != 0 || pipe(from) != 0 || (pid = fork()) < 0)
        give_up("mangled: no pipe or process");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        execl("/usr/bin/python3", "python3", MANGLER,
              db->kind == DB_POSTGRES ? "postgres" : "mariadb", real, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    orders = fdopen(to[1], "w");
    answers = fdopen(from[0], "r");
    if (!orders || !answers || fscanf(answers, "%u", &port) != 1)
        give_up("mangled: %s does not start", MANGLER);
    return pid;
}

static unsigned order(const char *format, unsigned number, const char *how)
{
    char word[16];
    unsigned told = 0;

    fprintf(orders, format, number, how);
    fflush(orders);
    CHECK(fscanf(answers, "%15s", word) == 1);
    if (strcmp(word, "ok") != 0)
        told = (unsigned)strtoul(word, NULL, 10);
    return told;
}

static void spoil(unsigned which, const char *how)
{
    (void)order("spoil %u %s\n", which, how);
}

static unsigned told(void)
{
    return order("told %u %s\n", 0, "-");
}

/* The server itself, or through the one that spoils. */
static hf_status try_open(bool spoiled, const char *more, hf_store **ret_store)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    char url[256];

    snprintf(url, sizeof url, "%s@127.0.0.1:%u/test?prefix=hfs_&op_timeout=5s%s",
             db->kind == DB_POSTGRES ? "postgresql://app:" DB_SECRET : "mariadb://app",
             spoiled ? port : (unsigned)db->port, more);
    options.open_wait_ms = spoiled ? 300 : LIMIT_MS;
    contract_error.text[0] = 0;
    return hf_open(url, &options, ret_store, &contract_error);
}

static hf_store *open_sane(bool spoiled, const char *more)
{
    hf_store *store = NULL;

    for (int i = 0; i < 20; i++) /* 300 ms may be too short on a busy machine */
        if (try_open(spoiled, more, &store) == HF_OK)
            return store;
    EXPECT(HF_OK, try_open(spoiled, more, &store));
    return store;
}

/* What to do to a store; each is done once for every answer and every way. */
typedef void scenario_fn(hf_store *store, const char *how, unsigned which);

static void each_answer(scenario_fn *scenario, const char *more)
{
    hf_store *store = open_sane(true, more);
    unsigned count;

    spoil(0, "none");
    scenario(store, "none", 0);
    count = told();
    CHECK(count > 0);
    CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
    for (unsigned which = 1; which <= count; which++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            store = open_sane(true, more);
            spoil(which, ways[i]);
            scenario(store, ways[i], which);
            spoil(0, "none");
            (void)hf_close(store, HF_CLOSE_FLAG_RELEASE);
        }
}

/* ---- cases -------------------------------------------------------------------------------------------- */

static void opening(void **state)
{
    hf_store *store = open_sane(true, "");
    unsigned count;

    (void)state;
    (void)hf_close(store, 0);
    spoil(0, "none");
    store = open_sane(true, "");
    count = told();
    (void)hf_close(store, 0);
    for (unsigned which = 1; which <= count; which++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            hf_status status;

            spoil(which, ways[i]);
            status = try_open(true, "", &store);
            CHECK(status != HF_INTERNAL && status != HF_NO_MEMORY);
            if (status == HF_OK)
                (void)hf_close(store, 0);
        }
    spoil(0, "none");
}

static void take_and_release(hf_store *store, const char *how, unsigned which)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease_info info = HF_LEASE_INFO_INIT;
    hf_lease *lease = NULL;
    hf_status status;
    char name[64];

    snprintf(name, sizeof name, "take-%s-%u", how,
             which); /* what is left of one is not the next one's */
    request.name = name;
    request.name_len = HF_CSTRING;
    status = hf_acquire(store, &request, &lease, &contract_error);
    CHECK(status != HF_INTERNAL && status != HF_NO_MEMORY);
    if (status != HF_OK)
        return;
    CHECK(hf_lease_get(lease, &info) == HF_OK);
    CHECK(info.token < UINT64_C(1) << 53);
    CHECK(info.remaining_ms <= HF_DURATION_MAX_MS || info.remaining_ms == INT64_MAX);
    status = hf_release(lease, &contract_error);
    CHECK(status == HF_OK || status == HF_LOST || status == HF_UNKNOWN || status == HF_UNAVAILABLE);
}

/* A lease with numbers of a semaphore whose size is set, and a writer that becomes a reader. */
static void size_and_convert(hf_store *store, const char *how, unsigned which)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease_info info = HF_LEASE_INFO_INIT;
    hf_lease *lease = NULL;
    hf_status status;
    char name[64];

    snprintf(name, sizeof name, "size-%s-%u", how, which);
    status = hf_semaphore_resize(store, name, HF_CSTRING, 4, &contract_error);
    CHECK(status != HF_INTERNAL && status != HF_NO_MEMORY);
    request.name = name;
    request.name_len = HF_CSTRING;
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = 4;
    request.permits = 2;
    request.flags = HF_FLAG_NUMBERED | HF_FLAG_DETACHED;
    status = hf_acquire(store, &request, &lease, &contract_error);
    CHECK(status != HF_INTERNAL && status != HF_NO_MEMORY);
    if (status == HF_OK) {
        CHECK(hf_lease_get(lease, &info) == HF_OK);
        CHECK(info.slot_count == 2 && info.slots[0] < info.slots[1]);
        (void)hf_release(lease, &contract_error);
    }
    snprintf(name, sizeof name, "convert-%s-%u", how, which);
    request.kind = HF_KIND_EXCLUSIVE;
    request.capacity = request.permits = 0;
    request.flags = 0;
    if (hf_acquire(store, &request, &lease, &contract_error) == HF_OK) {
        status = hf_convert(&lease, HF_KIND_SHARED, 0, &contract_error);
        CHECK(status != HF_INTERNAL && status != HF_NO_MEMORY);
        (void)hf_release(lease, &contract_error);
    }
}

static void sizing_and_converting(void **state)
{
    (void)state;
    each_answer(size_and_convert, "");
}

static void taking(void **state)
{
    (void)state;
    each_answer(take_and_release, "");
}

static void taking_by_session(void **state)
{
    (void)state;
    each_answer(take_and_release, "&mode=session&tokens=on");
}

static void taking_by_row(void **state)
{
    (void)state;
    each_answer(take_and_release, "&mode=row");
}

static void look(hf_store *store, const char *how, unsigned which)
{
    hf_view *view = NULL;
    hf_status status =
        hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &contract_error);

    (void)which;
    CHECK(status == HF_OK || status == HF_CORRUPT);
    if (strcmp(how, "fewer") == 0 || strcmp(how, "null") == 0)
        CHECK(status == HF_CORRUPT && strstr(contract_error.text, "answer") != NULL);
    hf_free(view);
}

/* Somebody holds a name all the time. */
static void looking(void **state)
{
    hf_store *other = open_sane(false, "");
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease = NULL;

    (void)state;
    request.name = "looked-at";
    request.name_len = HF_CSTRING;
    EXPECT(HF_OK, hf_acquire(other, &request, &lease, &contract_error));
    request.name = "with-numbers";
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = request.permits = 3;
    request.flags = HF_FLAG_NUMBERED;
    EXPECT(HF_OK, hf_acquire(other, &request, &lease, &contract_error));
    each_answer(look, "");
    EXPECT(HF_OK, hf_close(other, HF_CLOSE_FLAG_RELEASE));
}

static bool is_one_of(const char *how, const char *words)
{
    return strstr(words, how) != NULL;
}

static void read_cell(hf_store *store, const char *how, unsigned which)
{
    hf_cell cell = HF_CELL_INIT;
    hf_status status = hf_cell_get(store, "cell", HF_CSTRING, &cell, &contract_error);

    (void)which;
    CHECK(status == HF_OK || status == HF_CORRUPT || status == HF_NOT_FOUND);
    if (which && is_one_of(how, "fewer more null types rows long"))
        CHECK(status == HF_CORRUPT);
    if (status == HF_OK) {
        CHECK((cell.len == 5 && memcmp(cell.bytes, "value", 5) == 0) || cell.len == 0);
        CHECK(cell.ttl_ms <= HF_DURATION_MAX_MS && cell.version != 0);
        hf_free(cell.bytes);
    }
}

static void write_cell(hf_store *store, const char *how, unsigned which)
{
    uint64_t version = 0;
    hf_status status =
        call_cell_set(store, "cell", HF_CSTRING, "value", 5, 0, &version, &contract_error);

    (void)how;
    (void)which;
    CHECK(status == HF_OK || status == HF_CORRUPT || status == HF_UNKNOWN || status == HF_BUSY ||
          status == HF_UNAVAILABLE);
}

static void cells(void **state)
{
    hf_store *other = open_sane(false, "");

    (void)state;
    EXPECT(HF_OK, call_cell_set(other, "cell", HF_CSTRING, "value", 5, 0, NULL, &contract_error));
    EXPECT(HF_OK, hf_close(other, 0));
    each_answer(read_cell, "");
    each_answer(write_cell, "");
}

static void wait_a_little(hf_store *store, const char *how, unsigned which)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease = NULL;
    hf_status status;

    (void)how;
    (void)which;
    request.name = "waited-for";
    request.name_len = HF_CSTRING;
    request.wait_ms = 30;
    status = hf_acquire(store, &request, &lease, &contract_error);
    CHECK(status != HF_INTERNAL && status != HF_NO_MEMORY);
    if (status == HF_OK)
        (void)hf_release(lease, NULL);
}

static void waiting(void **state)
{
    hf_store *other = open_sane(false, "");
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease = NULL;

    (void)state;
    request.name = "waited-for";
    request.name_len = HF_CSTRING;
    EXPECT(HF_OK, hf_acquire(other, &request, &lease, &contract_error));
    each_answer(wait_a_little, "");
    EXPECT(HF_OK, hf_close(other, HF_CLOSE_FLAG_RELEASE));
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest cases[] = {
        cmocka_unit_test(opening),           cmocka_unit_test(taking),
        cmocka_unit_test(taking_by_session), cmocka_unit_test(taking_by_row),
        cmocka_unit_test(looking),           cmocka_unit_test(cells),
        cmocka_unit_test(waiting),           cmocka_unit_test(sizing_and_converting),
    };
    int failed, status;
    pid_t mangler;

    if (argc < 2)
        give_up("usage: %s postgres|mariadb [CASE]", argv[0]);
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    signal(SIGPIPE, SIG_IGN);
    db = db_start(strcmp(argv[1], "mariadb") == 0 ? DB_MARIADB : DB_POSTGRES, NULL);
    mangler = start_mangler();
    failed = cmocka_run_group_tests(cases, NULL, NULL);
    fclose(orders);
    waitpid(mangler, &status, 0);
    fclose(answers);
    db_free(db);
    return failed;
}
