/* SPDX-License-Identifier: MIT */
/* Passwords outside the store URL, which process lists and shell histories would show. */
#ifndef HFI_SECRET_H
#define HFI_SECRET_H

#include "core/url.h"

/*
 * Take WHAT_file= and WHAT_env= ("password", "sentinel_password"): the first line of a file, or a variable of the
 * environment. `have`: there is one in the URL itself, and two are an error. With none *ret_secret stays as it is;
 * else it is to be wiped and freed (hfi_secret_wipe). HF_CONFIG, HF_DENIED: the text names the parameter and its byte.
 *
 * Only a regular file is read: a fifo or a device could block for ever. In a program with more
 * rights than its caller (setuid) the environment is not used.
 */
hf_status hfi_secret_take(struct hfi_url *url, const char *what, bool have, char **ret_secret,
                          hf_error *err);
void hfi_secret_wipe(char *secret); /* and free it; NULL is fine */

#endif
