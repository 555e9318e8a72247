/* SPDX-License-Identifier: MIT */
/* Profiles: stores that have names in the config file. Also compiled into the command. */
#ifndef HFI_PROFILES_H
#define HFI_PROFILES_H

#include "holdfast/holdfast.h"

struct hfi_profile {
    char *name;
    char *url; /* complete, a password in it; NULL: there is none */
    bool has_password;
    char *password_env; /* NULL: none */
    char from[240];     /* "profile NAME in FILE" */
};

/*
 * Look up a profile, or with NULL the default one, whose url is NULL if there is none. HF_CONFIG:
 * the config cannot be read or is wrong, there is no such profile, or its password is not there.
 * The text names file and line. In a program with more rights than its caller (set-user-ID) the
 * environment is not used.
 */
hf_status hfi_profile_find(const char *name, struct hfi_profile *ret_profile, hf_error *err);
void hfi_profile_done(struct hfi_profile *profile); /* wipes it; one that is zero is fine */
/* The name of every profile. */
hf_status hfi_profiles_list(void (*call)(const char *name), hf_error *err);

#endif
