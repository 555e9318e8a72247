/* SPDX-License-Identifier: MIT */
/*
 * The config file of the command. Its parser is inside config.c and keeps what it has read for the life of the
 * command, so it is compiled in here, and what it keeps is freed.
 */
#include "fuzz.h"

#include "../../cli/config.c"

#include <sys/mman.h>

static void forget(struct config *config)
{
    for (size_t i = 0; i < config->count; i++) {
        free(config->entries[i].name);
        free(config->entries[i].url);
        free(config->entries[i].password_file);
        free(config->entries[i].password_env);
    }
    free(config->fallback);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct config config;
    static int fd = -1, null_fd, error_fd;
    static char path[64];
    int code;

    if (fd < 0) {
        fd = memfd_create("config", 0);
        MUST(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        null_fd = open("/dev/null", O_WRONLY);
        error_fd = dup(STDERR_FILENO);
        MUST(null_fd >= 0 && error_fd >= 0);
    }
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, len, 0) == (ssize_t)len);
    memset(&config, 0, sizeof config);
    MUST(dup2(null_fd, STDERR_FILENO) >= 0); /* every error is said, and there are millions */
    code = read_file(&config, path, true);
    MUST(dup2(error_fd, STDERR_FILENO) >= 0);
    if (code == EXIT_FINE)
        for (size_t i = 0; i < config.count; i++) {
            struct profile profile = { 0 };

            MUST(config.entries[i].name && *config.entries[i].name && config.entries[i].url);
            if (config.entries[i].password_file)
                continue; /* it would be opened */
            if (complete(&config.entries[i], &profile) == EXIT_FINE)
                free(profile.url);
        }
    forget(&config);
    return 0;
}
