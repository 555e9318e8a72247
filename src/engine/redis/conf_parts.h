/* SPDX-License-Identifier: MIT */
/*
 * The reading of a redis store's URL, in parts:
 *
 *   conf.c        the whole, its parameters, what goes with what
 *   conf_place.c  what stands before the '?': user, hosts, master, database, path
 *
 * Errors name the part and its byte in the URL as it was given, and quote nothing of it: what
 * stands in the wrong place may be half of a password.
 */
#ifndef HFI_REDIS_CONF_PARTS_H
#define HFI_REDIS_CONF_PARTS_H

#include "core/url.h"
#include "engine/redis/conf.h"

/* HF_CONFIG: "store URL: <what> at byte N <wrong>"; `at` points into url->rest. */
hf_status hfi_conf_wrong(const struct hfi_url *url, const char *at, const char *what,
                         const char *wrong, hf_error *err);
/* HF_CONFIG, or `status`: "store URL: parameter '<key>' at byte N <wrong>". */
hf_status hfi_conf_wrong_param(const struct hfi_url *url, const char *key, hf_status status,
                               const char *wrong, hf_error *err);

/* The place: everything in url->rest. Sets user, password, addresses, master, db. */
hf_status hfi_conf_place(struct hfi_redis_conf *conf, const struct hfi_url *url, hf_error *err);

#endif
