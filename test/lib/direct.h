/* SPDX-License-Identifier: MIT */
/* An engine without core between: its store is opened by a URL, and its table is called by the test. */
#ifndef TEST_DIRECT_H
#define TEST_DIRECT_H

#include "core/conf.h"
#include "core/registry.h"
#include "util/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define DIRECT_MAX 8

static struct direct {
    void *store;
    struct hfi_conf *conf; /* which lives as long */
} direct[DIRECT_MAX];

/* host->open_deadline_ms is set. Aborts with what went wrong. */
static inline void *direct_open(const char *text, struct hfi_host *host,
                                const struct hfi_engine **ret_engine)
{
    struct direct *one = direct;
    struct hfi_url url;
    hf_error err = { .text = "" };
    hf_status status = hfi_url_parse(text, &url, &err);

    while (one->store)
        assert(++one < direct + DIRECT_MAX);
    if (status == HF_OK)
        status = hfi_registry_find(url.scheme, ret_engine, &err);
    if (status == HF_OK)
        status = hfi_conf_read(&url, (*ret_engine)->conf, &one->conf, &err);
    if (status == HF_OK) {
        one->store = hfi_calloc(1, (*ret_engine)->store_size);
        assert(one->store);
        status = (*ret_engine)->open(one->store, one->conf, host, &err);
    }
    if (status != HF_OK) {
        fprintf(stderr, "%s: %s\n", text, err.text);
        abort();
    }
    hfi_conf_opened(one->conf);
    hfi_url_done(&url);
    return one->store;
}

static inline void direct_close(const struct hfi_engine *engine, void *opened)
{
    struct direct *one = direct;

    while (one->store != opened)
        assert(++one < direct + DIRECT_MAX);
    engine->close(opened);
    hfi_free(opened);
    hfi_conf_free(one->conf);
    *one = (struct direct){ NULL, NULL };
}

#endif
