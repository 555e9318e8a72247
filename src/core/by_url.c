/* SPDX-License-Identifier: MIT */
/* The URL of a store that is not opened, and the extension of its engine: see by_url.h. On the calling thread. */
#include "core/by_url.h"

#include "core/conf.h"
#include "core/registry.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/place.h"

#include <string.h>

static hf_status find_extension(struct hfi_by_url *at, const struct hfi_engine *engine,
                                const char *kind, size_t size, hf_error *err)
{
    const struct hfi_extension *extension = engine->admin ? engine->admin->extension : NULL;

    if (!extension || strcmp(extension->name, kind) != 0)
        return hfi_error_set(err, HF_UNSUPPORTED, 0, "%s: this engine has nothing to administer",
                             engine->promises->name);
    if (extension->size != size)
        return hfi_error_set(
            err, HF_VERSION, 0,
            "engine '%s' is of another build: %zu bytes of calls, this library needs %zu",
            engine->promises->name, extension->size, size);
    at->extension = extension;
    return HF_OK;
}

hf_status hfi_by_url_open(struct hfi_by_url *at, const char *url, const char *kind, size_t size,
                          hf_error *err)
{
    const struct hfi_engine *engine;
    struct hfi_place place;
    hf_status status;

    if (!url || !*url)
        return hfi_error_set(err, HF_INVALID, 0, "url: NULL or empty");
    hfi_alloc_seal();
    hfi_error_clear(err);
    at->conf = NULL;
    status = hfi_place_find(url, HFI_PLACE_CALLER, &place, err);
    if (status != HF_OK)
        return status;
    status = hfi_url_parse(place.url, &at->url, err);
    hfi_place_done(&place);
    if (status != HF_OK)
        return status;
    status = hfi_registry_find(at->url.scheme, &engine, err);
    if (status == HF_OK)
        status = find_extension(at, engine, kind, size, err);
    if (status != HF_OK) {
        hfi_url_done(&at->url);
        return status;
    }
    status = hfi_conf_read(&at->url, engine->conf, &at->conf, err);
    return status == HF_OK ? HF_OK : hfi_by_url_close(at, status, err);
}

hf_status hfi_by_url_close(struct hfi_by_url *at, hf_status status, hf_error *err)
{
    char *shown;

    hfi_conf_free(at->conf);
    if (status != HF_OK && status != HF_INVALID) {
        shown = hfi_url_redacted(&at->url);
        hfi_error_wrap(err, "%s", shown ? shown : at->url.scheme);
        hfi_free(shown);
    }
    hfi_url_done(&at->url);
    return status;
}

hf_status hfi_by_url_enter(struct hfi_by_url_task *task, hf_store *handle, hfi_step_fn *step,
                           hf_error *err)
{
    struct hfi_store *store;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    hfi_task_init(&task->core, store, step);
    task->core.free = hfi_task_free_entered;
    return HF_OK;
}

hf_status hfi_by_url_begin(struct hfi_by_url_task *task, hf_status status, hf_done_fn *done,
                           void *arg, hf_op **ret_op, hf_error *err)
{
    if (status == HF_OK) {
        status = hfi_task_begin(&task->core, done, arg, ret_op, err);
        if (status != HF_OK)
            (void)hfi_by_url_close(&task->at, status, NULL);
    }
    if (status != HF_OK)
        hfi_task_free_entered(&task->core);
    return status;
}
