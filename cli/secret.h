/* SPDX-License-Identifier: MIT */
/* Secrets in store URLs: util/url_text.h, and what only the command does with them. */
#ifndef CLI_SECRET_H
#define CLI_SECRET_H

#include "util/url_text.h"

/* A copy without passwords, for the environment of a child. The caller frees it. */
char *url_without_secrets(const char *url);
/* A copy that needs no environment: the value of the variable that password_env= names is in its
 * user-info. The caller gives it to secret_free(). */
char *url_with_its_password(const char *url);
/* Wipe and free; NULL is fine. */
void secret_free(char *text);
/* Overwrite the value of a variable of our environment, where /proc shows it. NULL is fine. */
void env_wipe(const char *name);

#endif
