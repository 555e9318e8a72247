/* SPDX-License-Identifier: MIT */
/*
 * Counting together, without a lock. Processes draw numbers that nobody else gets; then one after
 * the other gives something back, and the process that sees 0 knows that it was the last.
 */
#include <holdfast/primitives.h>

#include "example.h"

#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 3
#define DRAWS     5

#define NUMBERS "example/numbers"
#define AT_WORK "example/at work"

static void work(hf_store *store)
{
    int64_t number, left;
    hf_error err;

    for (int i = 0; i < DRAWS; i++) {
        must(hf_counter_add(store, NUMBERS, HF_CSTRING, 1, &number, &err), &err);
        printf("process %d has number %" PRId64 "\n", (int)getpid(), number);
    }
    must(hf_counter_add(store, AT_WORK, HF_CSTRING, -1, &left, &err), &err);
    if (left == 0)
        printf("process %d was the last\n", (int)getpid());
}

int main(int argc, char **argv)
{
    hf_store *store;
    int64_t value;
    hf_status status;
    hf_error err;
    int ended;

    needs(url_of(argc, argv), HF_CAP_CELLS);
    store = open_store(argc, argv);
    must(hf_counter_delete(store, NUMBERS, HF_CSTRING, &err), &err); /* it is 0 then */
    must(hf_counter_set(store, AT_WORK, HF_CSTRING, PROCESSES, &err), &err);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork(); /* each opens the store for itself */

        expect(child >= 0, "a child");
        if (child == 0) {
            hf_store *own = open_store(argc, argv);

            work(own);
            close_store(own);
            exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++)
        expect(wait(&ended) > 0 && ended == 0, "a child did as it should");
    must(hf_counter_get(store, NUMBERS, HF_CSTRING, &value, &err), &err);
    expect(value == PROCESSES * DRAWS, "no number was given twice");

    /* Start again, but only if nobody has drawn a number since. */
    status = hf_counter_swap(store, NUMBERS, HF_CSTRING, value - 1, 0, &value, &err);
    expect(status == HF_CHANGED, "set only if it is what we think");
    printf("%s: it is %" PRId64 "\n", hf_status_name(status), value);
    must(hf_counter_swap(store, NUMBERS, HF_CSTRING, value, INT64_MAX, NULL, &err), &err);
    status = hf_counter_add(store, NUMBERS, HF_CSTRING, 1, NULL, &err);
    expect(status == HF_OVERFLOW, "it does not begin again at the other end");
    puts(err.text);
    must(hf_counter_delete(store, NUMBERS, HF_CSTRING, &err), &err);
    must(hf_counter_delete(store, AT_WORK, HF_CSTRING, &err), &err);
    close_store(store);
    return 0;
}
