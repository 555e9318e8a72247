/* SPDX-License-Identifier: MIT */
/*
 * A job that several machines start at about the same time, and that one of them is to do.
 *
 * A lock alone is not enough: their clocks differ, and the job is short. The machine that comes last finds the name free again, and
 * does the job once more. With min_hold_ms the name stays held at least that long, whenever the job has ended: take more than the
 * clocks differ, and less than the time between two runs.
 */
#include "example.h"

#include <unistd.h>

#define MACHINES 3

/* What each machine does when its clock says so. 1: it has done the job. */
static int start(int argc, char **argv, const char *job, int64_t min_hold_ms)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_store *store = open_store(argc, argv);
    hf_lease *lease;
    hf_status status;
    hf_error err;

    request.name = job;
    request.name_len = HF_CSTRING;
    request.wait_ms = 0; /* somebody does it, or has done it: all is well */
    request.min_hold_ms = min_hold_ms;
    status = hf_acquire(store, &request, &lease, &err);
    if (status != HF_BUSY) {
        must(status, &err);
        /* ... the job, which takes no time here. */
        must(hf_release(lease, &err), &err); /* returns at once; from here on the store keeps it */
    }
    close_store(store);
    return status == HF_OK;
}

/* The machines, each a little later than the one before. */
static int night(int argc, char **argv, const char *what, int64_t min_hold_ms)
{
    char job[64];
    int did = 0;

    snprintf(job, sizeof job, "example/nightly/%d/%d", (int)getpid(), min_hold_ms > 0);
    for (int i = 0; i < MACHINES; i++)
        did += start(argc, argv, job, min_hold_ms);
    printf("%s: %d of %d machines did the job\n", what, did, MACHINES);
    return did;
}

int main(int argc, char **argv)
{
    needs(url_of(argc, argv), HF_CAP_DETACHED);
    expect(night(argc, argv, "a lock alone", 0) == MACHINES, "each of them found it free");
    expect(night(argc, argv, "held for a minute at least", 60000) == 1, "one of them does it");
    return 0;
}
