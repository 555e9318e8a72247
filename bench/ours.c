/* SPDX-License-Identifier: MIT */
/* See ours.h. */
#include "ours.h"

#include "bench.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

hf_store *ours_open(const char *dir, const char *name)
{
    char url[PATH_MAX];

    snprintf(url, sizeof url, "file:%s/%s", dir, name);
    if (mkdir(url + strlen("file:"), 0700) != 0 && errno != EEXIST)
        bench_die("mkdir %s: %s", url + strlen("file:"), strerror(errno));
    return ours_open_url(url);
}

hf_store *ours_open_url(const char *url)
{
    hf_store *store;
    hf_error err;

    if (hf_open(url, NULL, &store, &err) != HF_OK)
        bench_die("hf_open: %s", err.text);
    return store;
}

void ours_close(hf_store *store)
{
    hf_status status = hf_close(store, HF_CLOSE_FLAG_RELEASE);

    if (status != HF_OK)
        bench_die("hf_close: %s", hf_status_text(status));
}

hf_acquire_request ours_request(const char *name, uint64_t flags)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = name;
    request.name_len = strlen(name);
    request.wait_ms = HF_FOREVER;
    request.flags = flags;
    return request;
}

hf_lease *ours_acquire(hf_store *store, const hf_acquire_request *request)
{
    hf_lease *lease;
    hf_error err;

    if (hf_acquire(store, request, &lease, &err) != HF_OK)
        bench_die("hf_acquire: %s", err.text);
    return lease;
}

void ours_release(hf_lease *lease)
{
    hf_error err;

    if (hf_release(lease, &err) != HF_OK)
        bench_die("hf_release: %s", err.text);
}
