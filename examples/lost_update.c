/* SPDX-License-Identifier: MIT */
/*
 * The lost update. Two processes each add one to a number in a file, many times:
 * read, add, write. Without a lock, both read the same number now and then, and one
 * of the additions is gone. Under the lock none is.
 */
#include "example.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 2
#define ROUNDS    2000

static void add_one(int fd)
{
    int number = 0;

    expect(pread(fd, &number, sizeof number, 0) == (ssize_t)sizeof number, "pread(2)");
    sched_yield(); /* so that it shows on a machine with one processor, too */
    number++;
    expect(pwrite(fd, &number, sizeof number, 0) == (ssize_t)sizeof number, "pwrite(2)");
}

/* `store` NULL: without the lock. */
static void add_many(hf_store *store, int fd)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease = NULL;
    hf_error err;

    request.name = "example/counter";
    request.name_len = HF_CSTRING;
    request.wait_ms = HF_FOREVER;
    for (int i = 0; i < ROUNDS; i++) {
        if (store)
            must(hf_acquire(store, &request, &lease, &err), &err);
        add_one(fd);
        if (store)
            must(hf_release(lease, &err), &err);
    }
}

static int run_both(int argc, char **argv, int fd, int locked)
{
    int number = 0, status;

    expect(pwrite(fd, &number, sizeof number, 0) == (ssize_t)sizeof number, "pwrite(2)");
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork(); /* each opens the store for itself */

        expect(child >= 0, "a child");
        if (child == 0) {
            hf_store *store = locked ? open_store(argc, argv) : NULL;

            add_many(store, fd);
            if (store)
                close_store(store);
            exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++)
        expect(wait(&status) > 0 && status == 0, "a child did as it should");
    expect(pread(fd, &number, sizeof number, 0) == (ssize_t)sizeof number, "pread(2)");
    return number;
}

int main(int argc, char **argv)
{
    char path[] = "/tmp/holdfast-counter.XXXXXX";
    int fd = mkstemp(path);
    int naive, locked;

    expect(fd >= 0, "a file");
    unlink(path);
    setvbuf(stdout, NULL, _IOLBF, 0);

    naive = run_both(argc, argv, fd, 0);
    printf("without a lock: %d of %d, %d updates lost\n", naive, PROCESSES * ROUNDS,
           PROCESSES * ROUNDS - naive);
    locked = run_both(argc, argv, fd, 1);
    printf("under the lock: %d of %d\n", locked, PROCESSES * ROUNDS);
    expect(locked == PROCESSES * ROUNDS, "no update is lost under the lock");
    close(fd);
    return 0;
}
