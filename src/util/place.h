/* SPDX-License-Identifier: MIT */
/*
 * Which store is meant? What the caller names, else HOLDFAST_STORE, else the config file's default,
 * else the embedded default. What contains a ':' is a URL, anything else the name of a profile. The
 * config file is read only if it is needed: a URL must work, and fast, whatever state the config
 * file is in. Also compiled into the command, so that both mean the same store.
 */
#ifndef HFI_PLACE_H
#define HFI_PLACE_H

#include "util/profiles.h"

#define HFI_BUILT_IN     "the built-in default"
#define HFI_PLACE_URL    "file:" /* of the built-in default */
#define HFI_SOURCE_MAX   240
#define HFI_PLACE_CALLER "the caller"

struct hfi_place {
    char *url;                   /* complete: may hold a secret */
    char *instead;               /* what means the same without a secret: the profile, or
                                    HOLDFAST_STORE of an outer `run` as it is; NULL: neither */
    char *password_env;          /* of the profile; NULL: none */
    bool has_password;           /* it was not in the URL, but a profile or an outer `run` has it */
    bool stripped;               /* an outer `run` took the password out, and does not hand it on */
    char source[HFI_SOURCE_MAX]; /* for people: what chose it */
};

/*
 * `spec`: a URL or a profile, from `giver` ("the command line"); NULL: nothing is named. HF_CONFIG:
 * it is empty, or what hfi_profile_find() says. In a program with more rights than its caller
 * (set-user-ID) the environment is not used.
 */
hf_status hfi_place_find(const char *spec, const char *giver, struct hfi_place *ret_place,
                         hf_error *err);
/* The store could not be opened: if the password is missing because of an outer `run`, say so. */
hf_status hfi_place_explain(const struct hfi_place *place, hf_status status, hf_error *err);
void hfi_place_done(struct hfi_place *place); /* wipes it; one that is zero is fine */

#endif
