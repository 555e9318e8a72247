/* SPDX-License-Identifier: MIT */
/*
 * Lingering: what a slot keeps about its claim in order to stay with the process after a release. A part of struct hfi_lease;
 * idle.h has the steps. Under the lock of the slot's shard.
 */
#ifndef HFI_LINGER_H
#define HFI_LINGER_H

#include <stdbool.h>
#include <stdint.h>

#define HFI_BLOCK_FIRST 256 /* tokens that a lingering claim is asked for with ... */
#define HFI_BLOCK_MAX \
    32768 /* ... and a refill at most; each asks for twice as many as the one before */

struct hfi_linger {
    int64_t ms; /* how long the lease may be idle; 0: the present holder gives it back at once */
    int64_t since_ms; /* IDLE: since when */
    int64_t look_ms; /* the timer is set for this time or an earlier one; HFI_NEVER: not for this */
    int64_t from_ns; /* when the store was asked for the claim; then: when it was granted */
    int64_t waited_ns; /* between these */
    uint64_t last;     /* the last token of the block in use */
    uint64_t next;     /* the first token of the block behind it ... */
    uint32_t more;     /* ... and how many it has; 0: there is none */
    uint32_t size;     /* of the block in use */
    uint32_t block;    /* how many tokens the next refill asks for */
    uint32_t takes;    /* how many have held the claim */
    bool refill;       /* the next renewal, which is due at once, asks for tokens */
    bool noted;        /* the store has been told that it is idle */
};

#endif
