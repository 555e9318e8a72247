/* SPDX-License-Identifier: MIT */
/* What the parts of a stream need of each other. */
#ifndef HFI_KIT_STREAM_PARTS_H
#define HFI_KIT_STREAM_PARTS_H

#include "engine/kit/stream.h"

/* stream.c: what epoll is to watch the descriptor for; it is connected, or TLS is over. */
void hfi_stream_watch(struct hfi_stream *stream, uint32_t events);
void hfi_stream_greet(struct hfi_stream *stream);

/* stream_connect.c: begin; go on after something happened; go on because of the time. */
void hfi_stream_connect(struct hfi_stream *stream, int64_t now_ms);
void hfi_stream_connect_ready(struct hfi_stream *stream, int64_t now_ms);
void hfi_stream_connect_due(struct hfi_stream *stream, int64_t now_ms);
void hfi_stream_disconnect(struct hfi_stream *stream); /* also when half connected, or not at all */

/* stream_io.c: what has been read. */
void hfi_stream_take_input(struct hfi_stream *stream, int64_t now_ms);

#endif
