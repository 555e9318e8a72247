/* SPDX-License-Identifier: MIT */
/*
 * Passwords that are not in the URL, where they would be seen in lists of processes and in shell
 * histories: the first line of a file, or a variable of the environment. What held one is wiped.
 */
#include "engine/redis/conf_parts.h"

#include "util/alloc.h"
#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRET_MAX 4096

static hf_status read_secret(const struct hfi_url *url, const char *key, const char *path,
                             char **ret_secret, hf_error *err);

hf_status hfi_conf_secret(struct hfi_url *url, const char *what, char **secret, hf_error *err)
{
    char file_key[40], env_key[40];
    const char *file, *name, *value;

    snprintf(file_key, sizeof file_key, "%s_file", what);
    snprintf(env_key, sizeof env_key, "%s_env", what);
    file = hfi_url_take(url, file_key);
    name = hfi_url_take(url, env_key);

    if ((file || name) && *secret)
        return hfi_conf_wrong_param(url, file ? file_key : env_key, HF_CONFIG,
                                    "names a second password: there is one in the URL", err);
    if (file && name)
        return hfi_conf_wrong_param(url, env_key, HF_CONFIG,
                                    "names a second password: there is one in a file", err);
    if (file)
        return read_secret(url, file_key, file, secret, err);
    if (!name)
        return HF_OK;

    value = secure_getenv(name);
    if (!value || !*value)
        return hfi_conf_wrong_param(url, env_key, HF_CONFIG,
                                    "names a variable that the environment does not have", err);
    *secret = hfi_strdup(value);
    return *secret ? HF_OK : hfi_error_memory(err);
}

static hf_status read_secret(const struct hfi_url *url, const char *key, const char *path,
                             char **ret_secret, hf_error *err)
{
    char text[SECRET_MAX + 2];
    char wrong[128];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t got = fd < 0 ? -1 : 1;
    hf_status status = HF_OK;

    while (got > 0 && len < sizeof text - 1) {
        got = read(fd, text + len, sizeof text - 1 - len);
        if (got > 0)
            len += (size_t)got;
        else if (got < 0 && errno == EINTR)
            got = 1;
    }
    if (got < 0) {
        snprintf(wrong, sizeof wrong, "cannot be read: %s", strerror(errno));
        status = hfi_conf_wrong_param(url, key, HF_DENIED, wrong, err);
    }
    if (fd >= 0)
        close(fd);
    if (status != HF_OK) {
        explicit_bzero(text, sizeof text);
        return status;
    }

    text[len] = 0;
    text[strcspn(text, "\r\n")] = 0;
    if (strlen(text) > SECRET_MAX || !*text)
        status = hfi_conf_wrong_param(url, key, HF_CONFIG,
                                      "names a file whose first line is no password", err);
    else if (!(*ret_secret = hfi_strdup(text)))
        status = hfi_error_memory(err);
    explicit_bzero(text, sizeof text);
    return status;
}

void hfi_conf_wipe(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    hfi_free(secret);
}
