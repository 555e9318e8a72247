/* SPDX-License-Identifier: MIT */
/* The encoding of what primitives write into a cell: numbers of a fixed width, and texts after
 * their length. Pure: no I/O. */
#ifndef HFI_RECORD_H
#define HFI_RECORD_H

#include "util/buffer.h"

#include <stdint.h>
#include <string.h>

#define HFI_DIGITS 16 /* digits of 2^53 */

/* The cells of callers begin with it (cell.c, commit.c). */
#define HFI_CELL_HEAD     "C1"
#define HFI_CELL_HEAD_LEN 2

static inline bool hfi_is_callers_cell(const unsigned char *bytes, size_t len)
{
    return len >= HFI_CELL_HEAD_LEN && memcmp(bytes, HFI_CELL_HEAD, HFI_CELL_HEAD_LEN) == 0;
}

/* Append to the buffer. false: out of memory. */
bool hfi_put_bytes(struct hfi_buffer *to, const void *bytes, size_t len);
bool hfi_put_number(struct hfi_buffer *to, uint64_t number); /* HFI_DIGITS digits */
bool hfi_put_text(struct hfi_buffer *to, const char *text);  /* its length, and the text */

/* The rest of a record that is being read. Each function returns false if the field is not there;
 * then all later ones do too. */
struct hfi_reader {
    const unsigned char *at;
    size_t left;
};
bool hfi_get_bytes(struct hfi_reader *from, size_t len, const unsigned char **ret_bytes);
bool hfi_get_number(struct hfi_reader *from, uint64_t *ret_number);
bool hfi_get_text(struct hfi_reader *from, char *ret_text, size_t size); /* no NUL inside */

#endif
