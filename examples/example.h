/* SPDX-License-Identifier: MIT */
/*
 * What every example needs and none is about: open the store that is named on
 * the command line, and stop with the library's own words when a call fails that
 * should not.
 */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <holdfast/holdfast.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void must(hf_status status, const hf_error *err)
{
    if (status == HF_OK)
        return;
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", hf_status_name(status), err->text);
    exit(1);
}

/* Stop unless what the example shows is really so: each of them is a test, too. */
static inline void expect(int so, const char *what)
{
    if (so)
        return;
    fflush(stdout);
    fprintf(stderr, "not as expected: %s\n", what);
    exit(1);
}

/* Without an argument: the default store. */
static inline hf_store *open_store(int argc, char **argv)
{
    hf_store *store;
    hf_error err;

    setvbuf(stdout, NULL, _IOLBF, 0);
    must(hf_open(argc > 1 ? argv[1] : NULL, NULL, &store, &err), &err);
    return store;
}

static inline void close_store(hf_store *store)
{
    hf_status status = hf_close(store, 0);

    expect(status == HF_OK, "hf_close() with nothing left to end");
}

#endif
