/* SPDX-License-Identifier: MIT */
/*
 * A separate connection for one command at a time, for the doctor: it may block, and must not use
 * the store's links, which belong to the thread that drives the store. One thread, no lock.
 */
#ifndef HFI_REDIS_ASK_H
#define HFI_REDIS_ASK_H

#include "engine/redis/link.h"

struct hfi_ask;

/* Connect and greet. `conf` and `address` live longer than it. On failure *ret_ask stays as it is. */
hf_status hfi_ask_open(const struct hfi_redis_conf *conf, const struct hfi_address *address,
                       bool sentinel, struct hfi_ask **ret_ask, hf_error *err);
/* Likewise, where the server may be busy with a script: hfi_link_be_brief(). */
hf_status hfi_ask_open_brief(const struct hfi_redis_conf *conf, const struct hfi_address *address,
                             struct hfi_ask **ret_ask, hf_error *err);
void hfi_ask_close(struct hfi_ask *ask); /* NULL is fine */
const struct hfi_server *hfi_ask_server(const struct hfi_ask *ask);

/*
 * The answer as text: a list's texts and numbers one a line, a nested list's members likewise.
 * The caller frees it with hfi_free(). NULL: `err` has the server's error, or why there is no
 * answer (HF_UNAVAILABLE).
 */
char *hfi_ask(struct hfi_ask *ask, const char *const *words, hf_error *err);
/* The same for a command that is built already. */
char *hfi_ask_command(struct hfi_ask *ask, const struct hfi_command *command, hf_error *err);
/* The same, but `take` gets the reply itself, during the call. false: as NULL above. */
typedef void hfi_ask_take_fn(const struct hfi_reply *reply, void *arg);
bool hfi_ask_reply(struct hfi_ask *ask, const struct hfi_command *command, hfi_ask_take_fn *take,
                   void *arg, hf_error *err);

/* The value of a parameter, by CONFIG GET. false: "", and err->status says why; HF_OK: there is no
 * such parameter. */
bool hfi_ask_setting(struct hfi_ask *ask, const char *name, char *ret_value, size_t size,
                     hf_error *err);
/* How far the server's clock is ahead of ours, by TIME: the best of `tries`, with an error of at
 * most *ret_error_us. */
hf_status hfi_ask_clock(struct hfi_ask *ask, int tries, int64_t *ret_ahead_us,
                        int64_t *ret_error_us, hf_error *err);

/* The value of "key:value" in what INFO said, "" if there is none. */
const char *hfi_info(const char *info, const char *key, char *value, size_t size);

#endif
