/* SPDX-License-Identifier: MIT */
/*
 * Bytes into and out of the socket, through TLS if there is one. The driver reads without the lock,
 * and acts on what was read with it. Nothing here takes a stream down: a failure is noted, and the
 * driver acts on it.
 */
#include "engine/kit/stream_parts.h"

#include "util/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static bool encrypt(struct hfi_stream *stream);
static void feed_tls(struct hfi_stream *stream);

/* ---- output ---------------------------------------------------------------------------------- */

char *hfi_stream_reserve(struct hfi_stream *stream, size_t size)
{
    char *to = stream->failed == HF_OK ? hfi_buffer_reserve(&stream->out, size) : NULL;

    if (!to && stream->out.len + size > HFI_BUFFER_MAX)
        hfi_stream_fail(stream, HF_UNAVAILABLE,
                        "the server does not read: %zu bytes wait to be sent", stream->out.len);
    else if (!to)
        hfi_stream_fail(stream, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
    return to;
}

void hfi_stream_commit(struct hfi_stream *stream, size_t len)
{
    stream->out.len += len;
    stream->queued += len;
    hfi_source_dirty(&stream->source);
}

void hfi_stream_expect(struct hfi_stream *stream, struct hfi_sent *sent, uint64_t at)
{
    sent->next = NULL;
    sent->sent_ms = hfi_now_ms();
    sent->at = at;
    if (stream->newest)
        stream->newest->next = sent;
    else
        stream->oldest = sent;
    stream->newest = sent;
    stream->in_flight++;
    if (stream->source.reactor && stream->source.reactor->host)
        hfi_host_sent(stream->source.reactor->host);
    if (!stream->listens)
        stream->source.awaited++;
    hfi_source_by(&stream->source, hfi_after_ms(sent->sent_ms, stream->target.op_ms));
}

/*
 * One send(2) for all output. What the socket does not take waits for EPOLLOUT, which is watched
 * only then.
 */
void hfi_stream_flush(struct hfi_stream *stream)
{
    struct hfi_buffer *buffer = stream->tls ? &stream->wire : &stream->out;
    ssize_t sent;

    if (stream->failed != HF_OK || stream->fd < 0 || (stream->tls && !encrypt(stream)) ||
        buffer->len == 0)
        return;

    do
        sent = send(stream->fd, buffer->bytes + buffer->start, buffer->len,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);

    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        hfi_stream_fail(stream, HF_UNAVAILABLE, "send: %s", strerror(errno));
        return;
    }
    if (sent > 0) {
        /* Any byte of ciphertext may belong to any of the encrypted bytes. */
        stream->gone =
            stream->tls ? stream->queued - stream->out.len : stream->gone + (uint64_t)sent;
        hfi_buffer_eat(buffer, (size_t)sent);
    }
    hfi_stream_watch(stream, buffer->len ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void hfi_stream_flush_source(struct hfi_source *source)
{
    hfi_stream_flush((struct hfi_stream *)source);
}

/* Encrypt `out` once the handshake is over; in any case move TLS's own records to `wire`. */
static bool encrypt(struct hfi_stream *stream)
{
    const struct hfi_tls_context *tls = stream->target.tls;

    if (stream->out.len && stream->state > HFI_STREAM_TLS) {
        if (tls->write(stream->tls, stream->out.bytes + stream->out.start, stream->out.len) !=
            HFI_TLS_DONE) {
            hfi_stream_fail(stream, HF_UNAVAILABLE, "TLS: %s", tls->why(stream->tls));
            return false;
        }
        hfi_buffer_eat(&stream->out, stream->out.len);
    }
    if (!tls->drain(stream->tls, &stream->wire)) {
        hfi_stream_fail(stream, HF_UNAVAILABLE,
                        "the server does not read: %zu bytes wait to be sent", stream->wire.len);
        return false;
    }
    return true;
}

/* ---- input ------------------------------------------------------------------------------------- */

/*
 * One recv(2). The socket is blocking with a time limit, so that a wait needs no other system call;
 * a call that must not wait passes MSG_DONTWAIT.
 */
bool hfi_stream_read(struct hfi_source *source, bool wait)
{
    struct hfi_stream *stream = (struct hfi_stream *)source;
    int fd = atomic_load_explicit(&stream->read_fd, memory_order_acquire);
    ssize_t got;

    if (fd < 0 || stream->in_len > 0)
        return stream->in_len > 0;

    got = recv(fd, stream->in, HFI_STREAM_INPUT, wait ? 0 : MSG_DONTWAIT);
    if (got > 0)
        stream->in_len = (size_t)got;
    else if (got == 0)
        stream->in_end = true;
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        stream->in_error = errno;
    return got >= 0 || stream->in_error;
}

void hfi_stream_take_input(struct hfi_stream *stream, int64_t now_ms)
{
    if (stream->in_len > 0) {
        stream->heard_ms = now_ms;
        if (stream->tls) {
            feed_tls(stream);
            hfi_source_dirty(&stream->source); /* TLS may have records of its own to send */
        } else {
            stream->calls->take(stream, stream->in, stream->in_len);
        }
        stream->in_len = 0;
    }
    if (stream->failed != HF_OK)
        return;
    if (stream->in_error)
        hfi_stream_fail(stream, HF_UNAVAILABLE, "%s", strerror(stream->in_error));
    else if (stream->in_end)
        hfi_stream_fail(stream, HF_UNAVAILABLE, "the server closed the connection%s",
                        stream->state == HFI_STREAM_GREETING ? " during the greeting"
                        : stream->state == HFI_STREAM_TLS    ? " during the TLS handshake"
                                                             : "");
}

/* Feed the ciphertext to TLS, continue the handshake, and take out the plain text. */
static void feed_tls(struct hfi_stream *stream)
{
    const struct hfi_tls_context *tls = stream->target.tls;
    char plain[HFI_STREAM_INPUT];
    enum hfi_tls_result result = HFI_TLS_DONE;
    size_t len;

    if (!tls->feed(stream->tls, stream->in, stream->in_len)) {
        hfi_stream_fail(stream, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
        return;
    }
    if (stream->state == HFI_STREAM_TLS) {
        result = tls->handshake(stream->tls);
        if (result == HFI_TLS_DONE)
            hfi_stream_greet(stream);
        hfi_stream_flush(stream); /* its next message; or the alert that says why it failed */
    }
    while (result == HFI_TLS_DONE && stream->failed == HF_OK) {
        result = tls->read(stream->tls, plain, sizeof plain, &len);
        if (result == HFI_TLS_DONE)
            stream->calls->take(stream, plain, len);
    }
    if (result == HFI_TLS_FAILED)
        hfi_stream_fail(stream, tls->refused(stream->tls) ? HF_DENIED : HF_UNAVAILABLE, "TLS: %s",
                        tls->why(stream->tls));
    if (result == HFI_TLS_ENDED)
        stream->in_end = true;
}

struct hfi_sent *hfi_stream_answered(struct hfi_stream *stream)
{
    struct hfi_sent *sent = stream->oldest;

    if (!sent || sent->at >= stream->gone) /* not even sent yet */
        return NULL;
    stream->oldest = sent->next;
    if (!sent->next)
        stream->newest = NULL;
    stream->in_flight--;
    if (!stream->listens)
        stream->source.awaited--;
    return sent;
}
