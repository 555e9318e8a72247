/* SPDX-License-Identifier: MIT */
/* A password from a file or from the environment: password_file=, password_env=. */
#include "engine/sql/sq.h"

#include "core/url.h"
#include "util/alloc.h"
#include "util/error.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRET_MAX 1000

static hf_status wrong(const struct hfi_url *url, const char *key, hf_status status,
                       const char *why, hf_error *err)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].key, key) == 0)
            return hfi_error_set(err, status, 0, "store URL: parameter '%s' at byte %zu %s", key,
                                 url->params[i].at, why);
    return hfi_error_set(err, status, 0, "store URL: parameter '%s' %s", key, why);
}

/* The first line of a file. */
static hf_status read_file(const struct hfi_url *url, const char *path, char **ret_secret,
                           hf_error *err)
{
    char text[SECRET_MAX + 2] = { 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    if (got < 0)
        return wrong(url, "password_file", HF_DENIED, "names a file that cannot be read", err);
    text[strcspn(text, "\r\n")] = 0;
    *ret_secret = hfi_strdup(text);
    explicit_bzero(text, sizeof text);
    return *ret_secret ? HF_OK : hfi_error_memory(err);
}

hf_status hfi_sq_secret(struct hfi_url *url, bool has_one, char **ret_secret, hf_error *err)
{
    const char *file = hfi_url_take(url, "password_file");
    const char *name = hfi_url_take(url, "password_env"), *value;
    const char *key = file ? "password_file" : "password_env";

    *ret_secret = NULL;
    if (!file && !name)
        return HF_OK;
    if ((file && name) || has_one)
        return wrong(url, key, HF_CONFIG, "names a second password", err);
    if (file)
        return read_file(url, file, ret_secret, err);
    value = secure_getenv(name);
    if (!value || !*value)
        return wrong(url, key, HF_CONFIG, "names a variable that is not set", err);
    *ret_secret = hfi_strdup(value);
    return *ret_secret ? HF_OK : hfi_error_memory(err);
}
