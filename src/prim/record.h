/* SPDX-License-Identifier: MIT */
/* What primitives write into a cell: numbers of a fixed width, and texts behind their length. Pure: no I/O. */
#ifndef HFI_RECORD_H
#define HFI_RECORD_H

#include "util/buffer.h"

#include <stdint.h>

#define HFI_DIGITS 16 /* 2^53 has so many */

/* Append to the buffer. false: out of memory. */
bool hfi_put_bytes(struct hfi_buffer *to, const void *bytes, size_t len);
bool hfi_put_number(struct hfi_buffer *to, uint64_t number); /* HFI_DIGITS digits */
bool hfi_put_text(struct hfi_buffer *to, const char *text);  /* its length, and the text */

/* What is left to be read of a record. Each says false if it is not there, for good. */
struct hfi_reader {
    const unsigned char *at;
    size_t left;
};
bool hfi_get_bytes(struct hfi_reader *from, size_t len, const unsigned char **ret_bytes);
bool hfi_get_number(struct hfi_reader *from, uint64_t *ret_number);
bool hfi_get_text(struct hfi_reader *from, char *ret_text, size_t size); /* no NUL inside */

#endif
