/* SPDX-License-Identifier: MIT */
/*
 * Both forms of the calls of scripts: while contract_pumped is set each begins its asynchronous form and pumps
 * hf_store_process() until it is done. See contract.h.
 */
#ifndef BOTH_SCRIPTS_H
#define BOTH_SCRIPTS_H

#include "contract.h"
#include "holdfast/redis.h"

#include <string.h>

static inline hf_status both_script_run(hf_store *store, const hf_script_request *script,
                                        hf_value **ret_value, hf_error *err)
{
    struct both both = { .done = false };
    hf_status status;

    if (!contract_pumped)
        return hf_script_run(store, script, ret_value, err);
    status = hf_script_run_async(store, script, both_done, &both, NULL, err);
    status = both_end(store, status, &both, err);
    if (status == HF_OK && ret_value)
        *ret_value = both.result.value;
    else
        hf_free(both.result.value);
    return status;
}

static inline hf_status both_script_exists(hf_store *store, const char *text, size_t len,
                                           bool *ret_exists, hf_error *err)
{
    struct both both = { .done = false };
    hf_status status;

    if (!contract_pumped || !ret_exists)
        return hf_script_exists(store, text, len, ret_exists, err);
    status = hf_script_exists_async(store, text, len, both_done, &both, NULL, err);
    status = both_end(store, status, &both, err);
    if (status == HF_OK)
        *ret_exists = both.result.number == 1;
    return status;
}

static inline hf_status both_script_load(hf_store *store, const char *text, size_t len,
                                         char *ret_sha1, hf_error *err)
{
    struct both both = { .done = false };
    hf_status status;
    size_t sha1_len;
    const char *bytes;

    if (!contract_pumped)
        return hf_script_load(store, text, len, ret_sha1, err);
    status = hf_script_load_async(store, text, len, both_done, &both, NULL, err);
    status = both_end(store, status, &both, err);
    bytes = hf_value_get_bytes(both.result.value, &sha1_len);
    if (status == HF_OK && ret_sha1)
        memcpy(ret_sha1, bytes, sha1_len + 1);
    hf_free(both.result.value);
    return status;
}

static inline hf_status both_script_exists_each(hf_store *store, const char *const *texts,
                                                const size_t *lens, size_t count, bool *ret_exists,
                                                hf_error *err)
{
    struct both both = { .done = false };
    hf_status status;
    int64_t found = 0;

    if (!contract_pumped || !ret_exists)
        return hf_script_exists_each(store, texts, lens, count, ret_exists, err);
    status = hf_script_exists_each_async(store, texts, lens, count, both_done, &both, NULL, err);
    status = both_end(store, status, &both, err);
    for (size_t i = 0; status == HF_OK && i < count; i++) {
        ret_exists[i] = hf_value_get_integer(hf_value_get_item(both.result.value, i)) == 1;
        found += ret_exists[i];
    }
    CHECK(found == both.result.number &&
          hf_value_get_count(both.result.value) == (status == HF_OK ? count : 0));
    hf_free(both.result.value);
    return status;
}

static inline hf_status both_script_flush(hf_store *store, hf_error *err)
{
    struct both both = { .done = false };

    if (!contract_pumped)
        return hf_script_flush(store, err);
    return both_end(store, hf_script_flush_async(store, both_done, &both, NULL, err), &both, err);
}

/* `store` hears of it, if that is not NULL. */
static inline hf_status both_script_kill(hf_store *store, const char *url, int64_t wait_ms,
                                         hf_error *err)
{
    struct both both = { .done = false };
    hf_status status;

    if (!contract_pumped || !store)
        return hf_script_kill(url, wait_ms, err);
    status = hf_script_kill_async(store, url, wait_ms, both_done, &both, NULL, err);
    return both_end(store, status, &both, err);
}

#endif
