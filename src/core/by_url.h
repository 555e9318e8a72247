/* SPDX-License-Identifier: MIT */
/*
 * A store that is not opened, because that may be impossible: its URL, the parsed parameters, and
 * the calls that only this kind of engine has (struct hfi_extension).
 */
#ifndef HFI_BY_URL_H
#define HFI_BY_URL_H

#include "core/task.h"
#include "core/url.h"
#include "engine/engine.h"

struct hfi_by_url {
    struct hfi_url url;
    struct hfi_conf *conf;
    const void *extension; /* the struct of the kind that was asked for */
};

/* Read `url`, a URL or a profile, whose engine must have the extension `kind`, a struct of `size` bytes: else HF_UNSUPPORTED, or HF_VERSION. After
 * HF_OK hfi_by_url_close() is due. */
hf_status hfi_by_url_open(struct hfi_by_url *at, const char *url, const char *kind, size_t size,
                          hf_error *err);
/* `status` is what the call returned, with its text in *err: add which store it was. Returns status. */
hf_status hfi_by_url_close(struct hfi_by_url *at, hf_status status, hf_error *err);

/* The asynchronous form of such a call. It stands first in a struct of hfi_malloc(). Its store says where `done` is called, and
 * is used for nothing else. */
struct hfi_by_url_task {
    struct hfi_task core;
    struct hfi_by_url at;
};

/* Enter the store. Not HF_OK: the struct is still the caller's. */
hf_status hfi_by_url_enter(struct hfi_by_url_task *task, hf_store *handle, hfi_step_fn *step,
                           hf_error *err);
/* `status` is what hfi_by_url_open() returned, or a check of the arguments before it. HF_OK: the last step() closes `at`. Else
 * nothing began, the store is left, and the struct is freed. */
hf_status hfi_by_url_begin(struct hfi_by_url_task *task, hf_status status, hf_done_fn *done,
                           void *arg, hf_op **ret_op, hf_error *err);

#endif
