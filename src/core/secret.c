/* SPDX-License-Identifier: MIT */
/* Passwords from files and the environment, for every engine. Buffers that held one are wiped. */
#include "core/secret.h"

#include "util/alloc.h"
#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_MAX 4096

/* O_NONBLOCK: a fifo without a writer is opened at once, and refused. -1: errno. */
static int open_regular(struct hfi_url *url, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat found;

    if (fd < 0)
        return -1;
    if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
        if (found.st_mode & (S_IRWXG | S_IRWXO) && !url->exposed)
            url->exposed = hfi_strdup(path); /* for the doctor */
        return fd;
    }
    close(fd);
    errno = 0;
    return -1;
}

static ssize_t read_all(int fd, char *text, size_t size)
{
    size_t len = 0;
    ssize_t got = 1;

    while (got > 0 && len < size) {
        got = read(fd, text + len, size - len);
        if (got > 0)
            len += (size_t)got;
        else if (got < 0 && errno == EINTR)
            got = 1;
    }
    return got < 0 ? -1 : (ssize_t)len;
}

/* The first line of the file. */
static hf_status read_file(struct hfi_url *url, const char *key, const char *path,
                           char **ret_secret, hf_error *err)
{
    char text[SECRET_MAX + 2], why[128];
    int fd = open_regular(url, path);
    ssize_t len = fd < 0 ? -1 : read_all(fd, text, sizeof text - 1);
    hf_status status = HF_OK;

    if (len < 0 && fd < 0 && errno == 0) {
        status = hfi_url_refuse(url, key, HF_DENIED, 0,
                                "is refused: it does not name a regular file", err);
    } else if (len < 0) {
        snprintf(why, sizeof why, "cannot be read: %s", strerror(errno));
        status = hfi_url_refuse(url, key, HF_DENIED, errno, why, err);
    }
    if (fd >= 0)
        close(fd);
    text[len < 0 ? 0 : len] = 0;
    text[strcspn(text, "\r\n")] = 0;
    if (status == HF_OK && (strlen(text) > SECRET_MAX || !*text))
        status = hfi_url_refuse(url, key, HF_CONFIG, 0,
                                "names a file whose first line is no password", err);
    else if (status == HF_OK && !(*ret_secret = hfi_strdup(text)))
        status = hfi_error_memory(err);
    explicit_bzero(text, sizeof text);
    return status;
}

hf_status hfi_secret_take(struct hfi_url *url, const char *what, bool have, char **ret_secret,
                          hf_error *err)
{
    char file_key[40], env_key[40];
    const char *file, *name, *value;

    snprintf(file_key, sizeof file_key, "%s_file", what);
    snprintf(env_key, sizeof env_key, "%s_env", what);
    file = hfi_url_take(url, file_key);
    name = hfi_url_take(url, env_key);
    if (!file && !name)
        return HF_OK;
    if (have)
        return hfi_url_refuse(url, file ? file_key : env_key, HF_CONFIG, 0,
                              "names a second password: there is one in the URL", err);
    if (file && name)
        return hfi_url_refuse(url, env_key, HF_CONFIG, 0,
                              "names a second password: there is one in a file", err);
    if (file)
        return read_file(url, file_key, file, ret_secret, err);

    value = secure_getenv(name);
    if (!value || !*value)
        return hfi_url_refuse(url, env_key, HF_CONFIG, 0,
                              "names a variable that the environment does not have", err);
    *ret_secret = hfi_strdup(value);
    return *ret_secret ? HF_OK : hfi_error_memory(err);
}

void hfi_secret_wipe(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    hfi_free(secret);
}
