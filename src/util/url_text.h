/* SPDX-License-Identifier: MIT */
/*
 * Secrets in the text of a store URL, for the library and for the command: user-info up to the last
 * '@', and parameters whose key sounds like a secret, but for those that say where one is
 * (password_file=). A URL that cannot be parsed is judged too.
 */
#ifndef HFI_URL_TEXT_H
#define HFI_URL_TEXT_H

#include <stdbool.h>

/* Could this URL hold a secret? */
bool hfi_url_has_secret(const char *url);
/* Overwrite what may be secret, in place: for argv, which `ps` shows to everybody. */
void hfi_url_wipe(char *url);

/* The rest return a copy to hfi_free(), and NULL if memory is out. */

/* Without secrets. */
char *hfi_url_bare(const char *url);
/* With `password` in its user-info, escaped. NULL: *ret_wrong says what is wrong with the URL. The
 * caller wipes it. */
char *hfi_url_with_password(const char *url, const char *password, const char **ret_wrong);
/* The value of a parameter, its name and its value decoded as hfi_url_parse() does
 * (%70assword_env). Also NULL: there is none. */
char *hfi_url_value(const char *url, const char *key);
/* Without that parameter. */
char *hfi_url_without(const char *url, const char *key);

#endif
