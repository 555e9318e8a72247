/* SPDX-License-Identifier: MIT */
/*
 * Bytes that wait to be sent: one piece of memory that grows at its end, up to a bound, and is
 * consumed from its front. Memory that is consumed or left behind is wiped: it may have been a
 * password.
 */
#ifndef HFI_BUFFER_H
#define HFI_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#define HFI_BUFFER_MAX (64u << 20)

struct hfi_buffer {
    char *bytes;
    size_t start, len, room; /* what waits: len bytes from start */
};

/* Room for `more` bytes at the end, to be counted into len once written. NULL: out of memory, or
 * beyond HFI_BUFFER_MAX. */
char *hfi_buffer_reserve(struct hfi_buffer *buffer, size_t more);
void hfi_buffer_eat(struct hfi_buffer *buffer, size_t len);
void hfi_buffer_done(struct hfi_buffer *buffer); /* empty, and without memory */

#endif
