/* SPDX-License-Identifier: MIT */
/*
 * Answers that go on: server-sent events, and leases that end with their connection. A stream has one
 * piece at a time. It asks for the next one only when the client has taken this one, so a slow client
 * has nothing queued for it, and gets the newest state when it is ready. A client that takes nothing
 * for IDLE_S is cut off (http.c). While there is nothing to send, the connection is suspended.
 */
#include "serve.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 32768

struct stream {
    struct server *server;
    struct request *request; /* until it has ended; the stream ends then */
    stream_fill *fill;
    void (*done)(void *arg);
    void *arg;
    struct piece *piece;
    size_t sent; /* of the piece */
    bool ended;
};

struct piece *piece_new(void)
{
    struct piece *piece = calloc(1, sizeof *piece);

    if (piece)
        piece->refs = 1;
    return piece;
}

struct piece *piece_keep(struct piece *piece)
{
    piece->refs++;
    return piece;
}

void piece_drop(struct piece *piece)
{
    if (!piece || --piece->refs > 0)
        return;
    out_done(&piece->text);
    free(piece);
}

static ssize_t read_on(void *arg, uint64_t pos, char *buffer, size_t max)
{
    struct stream *stream = arg;
    size_t len;

    (void)pos;
    /* Not END_WITH_ERROR: libmicrohttpd 0.9.75 then leaves the connection as it is until its time is over. Writing the end of the
     * stream fails, or reading does next. */
    if (stream->request->hung_up)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (stream->piece && stream->sent == stream->piece->text.len) {
        piece_drop(stream->piece);
        stream->piece = NULL;
    }
    if (!stream->piece) {
        stream->piece = stream->fill(stream->arg);
        stream->sent = 0;
    }
    if (!stream->piece) {
        if (stream->ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        request_wait(stream->request);
        return 0;
    }
    if (stream->piece->text.failed)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    len = stream->piece->text.len - stream->sent;
    len = len < max ? len : max;
    memcpy(buffer, stream->piece->text.at + stream->sent, len);
    stream->sent += len;
    return (ssize_t)len;
}

static void free_stream(void *arg)
{
    struct stream *stream = arg;

    stream->server->streams--;
    stream->done(stream->arg);
    piece_drop(stream->piece);
    free(stream);
}

struct stream *stream_answer(struct request *request, const char *type, stream_fill *fill,
                             void (*done)(void *arg), void *arg)
{
    struct stream *stream = calloc(1, sizeof *stream);
    struct MHD_Response *response;

    if (!stream)
        return NULL;
    *stream = (struct stream){
        .server = request->server, .request = request, .fill = fill, .done = done, .arg = arg
    };
    response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_on, stream, free_stream);
    if (!response) {
        free(stream);
        return NULL;
    }
    request->server->streams++;
    MHD_add_response_header(response, "Content-Type", type);
    answer(request, MHD_HTTP_OK, response);
    return stream;
}

void stream_wake(struct stream *stream)
{
    request_wake(stream->request);
}

void stream_end(struct stream *stream)
{
    stream->ended = true;
    request_wake(stream->request);
}
