/* SPDX-License-Identifier: MIT */
/*
 * Bytes that wait to be sent. Usually everything that was appended is consumed at once: then the
 * next bytes begin at the front again, and nothing is ever moved.
 */
#include "util/buffer.h"

#include "util/alloc.h"

#include <string.h>

#define ROOM_FIRST 4096
#define ROOM_KEPT  (256 * 1024) /* a larger one is given back when it is empty */

char *hfi_buffer_reserve(struct hfi_buffer *buffer, size_t more)
{
    size_t need = buffer->len + more;
    size_t room = need > ROOM_FIRST / 2 ? need * 2 : ROOM_FIRST;
    char *larger;

    if (more > HFI_BUFFER_MAX || need > HFI_BUFFER_MAX)
        return NULL;
    if (buffer->bytes && buffer->start + need <= buffer->room)
        return buffer->bytes + buffer->start + buffer->len;

    larger = hfi_malloc(room);
    if (!larger)
        return NULL;
    if (buffer->bytes) {
        memcpy(larger, buffer->bytes + buffer->start, buffer->len);
        explicit_bzero(buffer->bytes, buffer->room);
        hfi_free(buffer->bytes);
    }
    buffer->bytes = larger;
    buffer->start = 0;
    buffer->room = room;
    return larger + buffer->len;
}

void hfi_buffer_eat(struct hfi_buffer *buffer, size_t len)
{
    explicit_bzero(buffer->bytes + buffer->start, len);
    buffer->start += len;
    buffer->len -= len;
    if (buffer->len > 0)
        return;
    buffer->start = 0;
    if (buffer->room > ROOM_KEPT)
        hfi_buffer_done(buffer);
}

void hfi_buffer_done(struct hfi_buffer *buffer)
{
    if (buffer->bytes)
        explicit_bzero(buffer->bytes, buffer->room);
    hfi_free(buffer->bytes);
    *buffer = (struct hfi_buffer){ 0 };
}
