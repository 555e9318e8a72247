/* SPDX-License-Identifier: MIT */
/*
 * The config file. Its parser is inside profiles.c, so that is compiled in here.
 */
#include "fuzz.h"

#include "../../src/util/profiles.c"

#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static int fd = -1;
    static char path[64];
    struct config *config = calloc(1, sizeof *config);
    hf_error err;

    if (fd < 0) {
        fd = memfd_create("config", 0);
        MUST(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    MUST(config);
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, len, 0) == (ssize_t)len);
    if (read_file(config, path, true, &err) == HF_OK)
        for (size_t i = 0; i < config->count; i++) {
            struct hfi_profile profile = { 0 };

            MUST(config->entries[i].name && *config->entries[i].name && config->entries[i].url);
            if (config->entries[i].password_file)
                continue; /* it would be opened */
            if (complete(&config->entries[i], &profile, &err) == HF_OK)
                hfi_profile_done(&profile);
        }
    else
        MUST(err.status == HF_CONFIG && *err.text);
    forget(config);
    return 0;
}
