/* SPDX-License-Identifier: MIT */
/* Maps a status of the library to an exit code. */
#include "cli.h"

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
