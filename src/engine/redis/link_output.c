/* SPDX-License-Identifier: MIT */
/*
 * Commands into bytes, bytes into the socket. Nothing here sleeps, and nothing here takes a link
 * down: a failure is noted, and the driver acts on it.
 */
#include "engine/redis/link_parts.h"

#include "util/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static void append_sent(struct hfi_link *link, struct hfi_sent *sent, uint64_t at);
static bool can_send(const struct hfi_link *link, const struct hfi_command *command,
                     struct hfi_sent *sent);
static void queue_words(struct hfi_link *link, const char *verb, const char *word, size_t len);
static bool encrypt(struct hfi_link *link);

void hfi_link_send(struct hfi_link *link, const struct hfi_command *command, struct hfi_sent *sent)
{
    uint64_t at = link->queued;

    if (!can_send(link, command, sent))
        return;
    hfi_link_queue(link, command);
    append_sent(link, sent, at);
}

void hfi_link_send_asking(struct hfi_link *link, const struct hfi_command *command,
                          struct hfi_sent *sent)
{
    uint64_t at;

    if (!can_send(link, command, sent))
        return;

    /* ASKING is for the next command only, and its own answer of no interest: if it were refused,
     * so would be the command. */
    queue_words(link, "ASKING", NULL, 0);
    link->skip++;
    at = link->queued;
    hfi_link_queue(link, command);
    append_sent(link, sent, at);
}

void hfi_link_subscribe(struct hfi_link *link, const char *channel, size_t len,
                        struct hfi_sent *sent)
{
    uint64_t at = link->queued;

    if (!can_send(link, NULL, sent))
        return;
    queue_words(link, "SUBSCRIBE", channel, len);
    append_sent(link, sent, at);
}

void hfi_link_unsubscribe(struct hfi_link *link, const char *channel, size_t len)
{
    if (link->state != HFI_LINK_UP || link->failed != HF_OK)
        return;
    queue_words(link, "UNSUBSCRIBE", channel, len);
    link->skip++;
}

/* UP, and the command could be built? Else it is answered: none of it will ever leave. On a link
 * that has failed, but is not down yet, it stands behind those that were sent before and is answered
 * after them: answers come in the order of the commands, and so does what is sent again. */
static bool can_send(const struct hfi_link *link, const struct hfi_command *command,
                     struct hfi_sent *sent)
{
    if (link->state == HFI_LINK_UP && !(command && command->failed))
        return true;
    sent->answered(sent, NULL, false);
    return false;
}

static void append_sent(struct hfi_link *link, struct hfi_sent *sent, uint64_t at)
{
    sent->next = NULL;
    sent->sent_ms = hfi_now_ms();
    sent->at = at;
    sent->skip = link->skip;
    link->skip = 0;
    if (link->newest)
        link->newest->next = sent;
    else
        link->oldest = sent;
    link->newest = sent;
    link->in_flight++;
    if (!link->subscriber)
        link->source.awaited++;
    hfi_source_by(&link->source, hfi_after_ms(link->oldest->sent_ms, link->conf->op_ms));
}

static void queue_words(struct hfi_link *link, const char *verb, const char *word, size_t len)
{
    struct hfi_command command;

    hfi_command_init(&command);
    hfi_command_add_text(&command, verb);
    if (word)
        hfi_command_add(&command, word, len);
    hfi_link_queue(link, &command);
    hfi_command_done(&command);
}

/* A command goes into the buffer whole, or not at all and the link fails. */
void hfi_link_queue(struct hfi_link *link, const struct hfi_command *command)
{
    size_t head = hfi_command_head(command, NULL);
    char *to = command->failed ? NULL : hfi_buffer_reserve(&link->out, head + command->len);

    if (link->failed != HF_OK)
        return;
    if (!to && (command->failed || link->out.len + head + command->len <= HFI_BUFFER_MAX)) {
        hfi_link_fail(link, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
        return;
    }
    if (!to) {
        hfi_link_fail(link, HF_UNAVAILABLE, "the server does not read: %zu bytes wait to be sent",
                      link->out.len);
        return;
    }
    (void)hfi_command_head(command, to);
    memcpy(to + head, command->bytes, command->len);
    link->out.len += head + command->len;
    link->queued += head + command->len;
    hfi_source_dirty(&link->source);
}

/*
 * One send(2) for all that waits. What the socket does not take waits for EPOLLOUT, which is
 * watched for only then.
 */
void hfi_link_flush(struct hfi_link *link)
{
    struct hfi_buffer *buffer = link->tls ? &link->wire : &link->out;
    ssize_t sent;

    if (link->failed != HF_OK || link->fd < 0 || (link->tls && !encrypt(link)) || buffer->len == 0)
        return;

    do
        sent =
            send(link->fd, buffer->bytes + buffer->start, buffer->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);

    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        hfi_link_fail(link, HF_UNAVAILABLE, "send: %s", strerror(errno));
        return;
    }
    if (sent > 0) {
        /* Any byte of ciphertext may be part of all that was encrypted. */
        link->gone = link->tls ? link->queued - link->out.len : link->gone + (uint64_t)sent;
        hfi_buffer_eat(buffer, (size_t)sent);
    }
    hfi_link_watch(link, buffer->len ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void hfi_link_flush_if(struct hfi_link *link, size_t bytes)
{
    if (link->out.len >= bytes)
        hfi_link_flush(link);
}

/* Move `out` through TLS, once its handshake is over; and in any case what TLS itself has to say. */
static bool encrypt(struct hfi_link *link)
{
    if (link->out.len && link->state > HFI_LINK_TLS) {
        if (hfi_tls_write(link->tls, link->out.bytes + link->out.start, link->out.len) !=
            HFI_TLS_DONE) {
            hfi_link_fail(link, HF_UNAVAILABLE, "TLS: %s", hfi_tls_why(link->tls));
            return false;
        }
        hfi_buffer_eat(&link->out, link->out.len);
    }
    if (!hfi_tls_drain(link->tls, &link->wire)) {
        hfi_link_fail(link, HF_UNAVAILABLE, "the server does not read: %zu bytes wait to be sent",
                      link->wire.len);
        return false;
    }
    return true;
}
