/* SPDX-License-Identifier: MIT */
/* Passwords that do not stand in a store URL, where lists of processes and shell histories would show them. */
#ifndef HFI_SECRET_H
#define HFI_SECRET_H

#include "core/url.h"

/*
 * Take WHAT_file= and WHAT_env= ("password", "sentinel_password"): the first line of a file, or a variable of the
 * environment. *secret is the one of the URL itself, or NULL: two are an error, and with none it stays as it is.
 * Else it is to be wiped and freed (hfi_secret_wipe). HF_CONFIG, HF_DENIED: the text names the parameter and its byte.
 *
 * Only a regular file is read: a fifo or a device would keep us for ever. In a program that has more rights than its
 * caller (setuid) the environment has no variable.
 */
hf_status hfi_secret_take(struct hfi_url *url, const char *what, char **secret, hf_error *err);
void hfi_secret_wipe(char *secret); /* and free it; NULL is fine */

#endif
