/* SPDX-License-Identifier: MIT */
/*
 * Both forms of the calls of scripts: while contract_pumped is set each begins its asynchronous form and pumps
 * hf_store_process() until it is done. See contract.h.
 */
#ifndef BOTH_SCRIPTS_H
#define BOTH_SCRIPTS_H

#include "contract.h"
#include "holdfast/redis.h"

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
