/* SPDX-License-Identifier: MIT */
/*
 * Store URLs, read by the tables of an engine (engine/conf.h):
 *
 *   conf.c        the whole: users, passwords, TLS; its texts
 *   conf_params.c parameters, by the rows of an engine's table
 *   conf_place.c the part before the '?': users, hosts, ports, sockets
 *
 * Errors name the part and its byte in the URL as it was given, and quote nothing of it: text in
 * the wrong place may be half of a password. The same mistake has the same words on every engine
 * (test/unit/conf.c). Pure but for memory, password files and the environment. Any thread.
 */
#ifndef HFI_CONF_H
#define HFI_CONF_H

#include "core/url.h"
#include "engine/conf.h"

/*
 * Read `url`, whose parameters that core has taken itself are left alone. HF_CONFIG: the URL is not
 * valid; HF_DENIED: a file cannot be read. `url` must stay until open() has returned; then
 * hfi_conf_opened(), and at the end hfi_conf_free(), which wipes.
 */
hf_status hfi_conf_read(struct hfi_url *url, const struct hfi_conf_type *type,
                        struct hfi_conf **ret_conf, hf_error *err);
void hfi_conf_opened(struct hfi_conf *conf);
void hfi_conf_free(void *conf); /* a struct that begins with a struct hfi_conf; NULL is fine */

/* Read some parameters only, into the struct that the rows describe: numbers, durations, switches,
 * choices. */
hf_status hfi_conf_read_params(struct hfi_url *url, const struct hfi_param *params, void *ret,
                               hf_error *err);

/* ---- between the files ------------------------------------------------------------------------- */

/* conf.c: a copy of a text that lives as long as the conf; the secret of NAME_file= or NAME_env=, if one is given;
 * `have`: there is one already. */
hf_status hfi_conf_copy(struct hfi_conf *conf, const char *text, const char **ret_text,
                        hf_error *err);
hf_status hfi_conf_secret(struct hfi_conf *conf, const char *name, const char *have,
                          const char **ret_secret, hf_error *err);
/* conf_place.c: user, secret, hosts, path and location of conf->form. */
hf_status hfi_conf_place(struct hfi_conf *conf, hf_error *err);
/* conf_params.c: the parameters that rows name, into `target`; one that is on or off; and at the end the rest, which one row
 * may take, or which is refused. */
hf_status hfi_conf_params(struct hfi_conf *conf, const struct hfi_param *params, void *target,
                          hf_error *err);
hf_status hfi_conf_switch(struct hfi_conf *conf, const char *key, bool *value, hf_error *err);
hf_status hfi_conf_rest(struct hfi_conf *conf, const struct hfi_param *params, hf_error *err);

#endif
