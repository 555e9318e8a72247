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
static inline const char *url_of(int argc, char **argv)
{
    return argc > 1 ? argv[1] : NULL;
}

/* The exit status of an example that the store's engine cannot show. */
#define EXAMPLE_CANNOT 77

/*
 * Ask what the engine can do before anything is tried: all of HF_CAP_*, or the example ends here and says what is
 * missing. To be called first, before a fork; the store is closed again.
 */
static inline void needs(const char *url, uint64_t caps)
{
    static const struct {
        uint64_t cap;
        const char *what;
    } words[] = {
        { HF_CAP_SHARED, "let several readers share a name" },
        { HF_CAP_CONVERT, "change the kind of a lease" },
        { HF_CAP_SEMAPHORE, "let several hold a name at once" },
        { HF_CAP_TTL, "let a lease end after a time" },
        { HF_CAP_DETACHED, "keep a lease that no process stands behind" },
        { HF_CAP_TOKEN, "give fencing tokens" },
        { HF_CAP_INSPECT, "list holders" },
        { HF_CAP_WAITERS, "list waiters" },
        { HF_CAP_BREAK, "break a lease" },
        { HF_CAP_CELLS, "keep cells" },
        { HF_CAP_COMMIT, "change several cells in one step" },
        { HF_CAP_CLOCK, "tell a time that all clients share" },
        { HF_CAP_SCRIPTS, "run scripts" },
    };
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_store *store;
    hf_error err;
    uint64_t missing;

    must(hf_open(url, NULL, &store, &err), &err);
    if (hf_store_get(store, &info) != HF_OK)
        exit(1);
    missing = caps & ~info.caps;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (missing & words[i].cap)
            fprintf(stderr, "this engine, %s, cannot %s\n", info.engine, words[i].what);
    (void)hf_close(store, 0);
    if (missing)
        exit(EXAMPLE_CANNOT);
}

static inline hf_store *open_store(int argc, char **argv)
{
    hf_store *store;
    hf_error err;

    setvbuf(stdout, NULL, _IOLBF, 0);
    must(hf_open(url_of(argc, argv), NULL, &store, &err), &err);
    return store;
}

static inline void close_store(hf_store *store)
{
    hf_status status = hf_close(store, 0);

    expect(status == HF_OK, "hf_close() with nothing left to end");
}

#endif
