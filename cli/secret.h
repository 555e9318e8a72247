/* SPDX-License-Identifier: MIT */
/*
 * Secrets in store URLs, judged as the library judges them for its own texts: user-info up to the
 * last '@', and parameters whose key sounds like a secret, but for those that say where one is
 * (password_file=).
 */
#ifndef CLI_SECRET_H
#define CLI_SECRET_H

#include <stdbool.h>

/* Could this URL hold a secret? */
bool url_has_secret(const char *url);
/* Overwrite what may be secret, in place: for argv, which `ps` shows to everybody. */
void url_wipe(char *url);
/* A copy without passwords, for the environment of a child. The caller frees it. */
char *url_without_secrets(const char *url);
/* A copy with `password` in its user-info, escaped. NULL: *ret_wrong says what is wrong with the
 * URL. The caller wipes and frees it. */
char *url_with_password(const char *url, const char *password, const char **ret_wrong);

/* The value of a parameter, its name and its value decoded as the library does (%70assword_env); NULL: none. The caller
 * frees it. */
char *url_param(const char *url, const char *key);
/* Overwrite the value of a variable of our environment, where /proc shows it. NULL is fine. */
void env_wipe(const char *name);

#endif
