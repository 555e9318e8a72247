/* SPDX-License-Identifier: MIT */
/*
 * A thousand processes open one store at the same moment, new or not: all of them get in, and take a name each. They meet at the
 * file lock under which a store is made, and then at the mutex; neither may be a place where most of them sleep for too long.
 */
#include "embedded.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PROCESSES 60
#else
#define PROCESSES 1000
#endif

/* In a child. It keeps its name until `stay` ends. */
static int open_and_take(int number, int go, int told, int stay)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store;
    hf_lease *lease;
    hf_error err;
    char name[NAME_ROOM], end;

    snprintf(name, sizeof name, "process %d", number);
    request.name = name;
    request.name_len = HF_CSTRING;
    options.open_wait_ms = 120000; /* of a slow machine; what is tested is lock_wait */
    if (read(go, &end, 1) != 0)
        return 1;
    if (hf_open(place_url, &options, &store, &err) != HF_OK ||
        hf_acquire(store, &request, &lease, &err) != HF_OK) {
        fprintf(stderr, "process %d: %s\n", number, err.text);
        return 1;
    }
    close(told);
    if (read(stay, &end, 1) != 0)
        return 1;
    return hf_release(lease, NULL) != HF_OK || hf_close(store, 0) != HF_OK;
}

static void all_open(void)
{
    int go[2], told[2], stay[2], failed = 0, status;
    pid_t pids[PROCESSES];
    char end;

    assert_true(pipe(go) == 0 && pipe(told) == 0 && pipe(stay) == 0);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            close(go[1]);
            close(stay[1]);
            _exit(open_and_take(i, go[0], told[1], stay[0]));
        }
    }
    close(go[1]);
    close(told[1]);
    assert_int_equal(read(told[0], &end, 1), 0); /* each has its name, or has failed */
    close(stay[1]);
    for (int i = 0; i < PROCESSES; i++)
        failed += waitpid(pids[i], &status, 0) != pids[i] || status != 0;
    assert_int_equal(failed, 0);
    close(go[0]);
    close(told[0]);
    close(stay[0]);
}

static void a_new_store(void **state)
{
    (void)state;
    all_open();
}

static void a_store_that_is_there(void **state)
{
    (void)state;
    all_open();
    all_open();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_store),
        TEST(a_store_that_is_there),
    };

    return cmocka_run_group_tests_name("opening", tests, NULL, NULL);
}
