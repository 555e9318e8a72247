/* SPDX-License-Identifier: MIT */
/*
 * Store URLs, taken apart. scheme:rest?key=value&key=value. `rest` is the engine's
 * to understand (a path, an authority); %XX is decoded in values and by
 * hfi_url_decode() on demand. A URL is printed only through hfi_url_redacted().
 */
#ifndef HFI_URL_H
#define HFI_URL_H

#include "engine/conf.h"

#define HFI_URL_PARAMS_MAX 32
#define HFI_URL_NEAR_MAX   32

struct hfi_url_param {
    char *key, *value; /* decoded, NUL-terminated */
    size_t at;         /* byte in the URL where the key begins */
    bool taken;
    char near
        [HFI_URL_NEAR_MAX]; /* the closest of the keys that were asked for; empty: none is close */
    size_t distance;
};

struct hfi_url {
    char *text;    /* the whole, as given: may hold a secret */
    char *scheme;  /* lower case */
    char *rest;    /* between "scheme:" and "?", not decoded */
    char *exposed; /* core/secret.c: a file with a password that others may read; NULL: none */
    size_t param_count;
    struct hfi_url_param params[HFI_URL_PARAMS_MAX];
};

/* Take apart. HF_CONFIG names the byte. On success hfi_url_done() frees (and wipes). */
hf_status hfi_url_parse(const char *text, struct hfi_url *ret_url, hf_error *err);
void hfi_url_done(struct hfi_url *url);

/* The value of `key`, marked as taken, or NULL. Lives as long as the url. */
const char *hfi_url_take(struct hfi_url *url, const char *key);
/* HF_CONFIG names the first parameter that nobody took, its byte, and the closest key that was asked for. */
hf_status hfi_url_all_taken(const struct hfi_url *url, hf_error *err);
/* "store URL: parameter '<key>' at byte N <why>"; `why` is never a value. Returns `status`. */
hf_status hfi_url_refuse(const struct hfi_url *url, const char *key, hf_status status, int native,
                         const char *why, hf_error *err);
/* Decode %XX of `text` in place. false: malformed, or a NUL byte would result. */
bool hfi_url_decode(char *text);
/* The URL without user-info and without values of secret parameters, for people.
 * NULL: out of memory; else free with hfi_free(). */
char *hfi_url_redacted(const struct hfi_url *url);

#endif
