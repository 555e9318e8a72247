/* SPDX-License-Identifier: MIT */
/* What util/url_text.h does, for a command that ends if memory is out. */
#include "secret.h"

#include "cli.h"

#include <stdlib.h>
#include <string.h>

static char *must(char *text)
{
    if (!text) {
        say_error("out of memory");
        exit(EXIT_INTERNAL);
    }
    return text;
}

char *url_without_secrets(const char *url)
{
    return must(hfi_url_bare(url));
}

char *url_with_its_password(const char *url)
{
    char *name = hfi_url_value(url, "password_env");
    const char *password = name ? secure_getenv(name) : NULL, *wrong;
    char *bare, *whole = NULL;

    if (password) {
        bare = must(hfi_url_without(url, "password_env"));
        whole = hfi_url_with_password(bare, password, &wrong);
        secret_free(bare);
    }
    free(name);
    return whole ? whole : must_strdup(url);
}

void secret_free(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void env_wipe(const char *name)
{
    char *value = name && !strchr(name, '=') ? getenv(name) : NULL;

    if (value)
        memset(value, '*', strlen(value));
}
