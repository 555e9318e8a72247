/* SPDX-License-Identifier: MIT */
/* A password that does not stand in the URL: password_file=, password_env=. What held it is wiped. */
#include "engine/mariadb/ma.h"

#include "core/url.h"
#include "util/alloc.h"
#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRET_MAX 1024

/* The first line of a file. */
static hf_status read_line(const char *path, char **ret_secret, hf_error *err)
{
    char text[SECRET_MAX + 2];
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
    if (got < 0)
        status = hfi_error_set(err, HF_DENIED, errno,
                               "store URL: the file of 'password_file' cannot be read: %s",
                               strerror(errno));
    if (fd >= 0)
        close(fd);
    text[len] = 0;
    text[strcspn(text, "\r\n")] = 0;
    if (status == HF_OK && (strlen(text) > SECRET_MAX || !*text))
        status = hfi_error_set(err, HF_CONFIG, 0,
                               "store URL: 'password_file' names a file whose first line is no "
                               "password");
    else if (status == HF_OK && !(*ret_secret = hfi_strdup(text)))
        status = hfi_error_memory(err);
    explicit_bzero(text, sizeof text);
    return status;
}

hf_status hfi_ma_take_secret(struct hfi_url *url, char **password, hf_error *err)
{
    const char *file = hfi_url_take(url, "password_file");
    const char *name = hfi_url_take(url, "password_env");
    const char *value = name ? secure_getenv(name) : NULL;

    if (!file && !name)
        return HF_OK;
    if (*password || (file && name))
        return hfi_error_set(err, HF_CONFIG, 0, "store URL: two passwords: one is enough");
    if (file)
        return read_line(file, password, err);
    if (!value || !*value)
        return hfi_error_set(err, HF_CONFIG, 0,
                             "store URL: 'password_env' names a variable that the environment does "
                             "not have");
    *password = hfi_strdup(value);
    return *password ? HF_OK : hfi_error_memory(err);
}
