/* SPDX-License-Identifier: MIT */
/* Exit codes: that of each status of the library, and what they mean. */
#include "cli.h"

#include <string.h>

int exit_of(hf_status status)
{
    switch (status) {
    case HF_OK:
    case HF_YIELDED:
    case HF_DONE: /* by another process: `once` prints that */
        return EXIT_FINE;

    case HF_BUSY:
    case HF_TIMEOUT:
    case HF_CANCELLED:
    case HF_TOO_SHORT:
    case HF_DEADLOCK:
    case HF_CHANGED:   /* another client was first */
    case HF_NOT_FOUND: /* nothing was done; verbs that know better say EXIT_LOST */
        return EXIT_BUSY;

    case HF_MISMATCH:
    case HF_OVERFLOW:
        return EXIT_MISMATCH;

    case HF_LOST:
    case HF_FENCED: /* a later holder has used the resource */
    case HF_BROKEN: /* a participant died */
        return EXIT_LOST;

    case HF_INVALID:
        return EXIT_USAGE;

    case HF_CONFIG:
    case HF_VERSION:
    case HF_UNSUPPORTED: /* this store cannot do what was asked: choose another one */
        return EXIT_CONFIG;

    case HF_UNAVAILABLE:
    case HF_UNKNOWN:
    case HF_CORRUPT:
    case HF_FULL:
        return EXIT_NO_STORE;

    case HF_DENIED:
        return EXIT_DENIED;

    case HF_NO_MEMORY:
    case HF_FORKED:
    case HF_IN_USE:
    case HF_INTERNAL:
        break;
    }
    return EXIT_INTERNAL;
}

const char *exit_meaning(const char *number)
{
    static const struct {
        const char *number, *meaning;
    } codes[] = {
        { "0", "done" },
        { "64", "wrong usage; nothing was acquired" },
        { "65", "the name is in use as another kind of lock, or a number leaves its range" },
        { "66", "standard input, or a file, could not be read" },
        { "69", "the store was not reached, is full or damaged, or the outcome is unknown" },
        { "70", "an internal error" },
        { "74", "standard output could not be written" },
        { "75", "not acquired: busy, or timed out" },
        { "76", "the lock was lost; run has ended the command" },
        { "77", "the store refused this user" },
        { "78", "the configuration or the URL is wrong, or the store cannot do this" },
        { "126", "the command cannot be executed" },
        { "127", "the command was not found" },
    };

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(codes[i].number, number) == 0)
            return codes[i].meaning;
    return NULL;
}
