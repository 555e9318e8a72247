/* SPDX-License-Identifier: MIT */
/*
 * Bytes out of the socket, replies to who waits for them. Reading is the driver's, without the
 * lock; acting on what was read is with it.
 */
#include "engine/redis/link_parts.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static void feed(struct hfi_link *link);
static void feed_tls(struct hfi_link *link);
static void take_replies(struct hfi_link *link);
static void dispatch(struct hfi_link *link, const struct hfi_reply *reply);
static void dispatch_pushed(struct hfi_link *link, const struct hfi_reply *reply);
static void answer(struct hfi_link *link, const struct hfi_reply *reply);
static bool first_is(const struct hfi_reply *list, const char *word);

/*
 * One recv(2). The socket is a blocking one with a time limit, so that a wait needs no other system
 * call; whoever must not wait says so each time.
 */
void hfi_link_read(struct hfi_link *link, bool wait)
{
    int fd = atomic_load_explicit(&link->read_fd, memory_order_acquire);
    ssize_t got;

    if (fd < 0 || link->in_len > 0)
        return;

    got = recv(fd, link->in, HFI_LINK_INPUT, wait ? 0 : MSG_DONTWAIT);
    if (got > 0)
        link->in_len = (size_t)got;
    else if (got == 0)
        link->in_end = true;
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        link->in_error = errno;
}

void hfi_link_take_input(struct hfi_link *link, int64_t now_ms)
{
    if (link->in_len > 0) {
        link->heard_ms = now_ms;
        link->missed = 0;
        if (link->tls) {
            feed_tls(link);
            hfi_source_dirty(&link->source); /* TLS may have something to say itself */
        } else {
            feed(link);
        }
        link->in_len = 0;
    }
    if (link->failed != HF_OK)
        return;
    if (link->in_error)
        hfi_link_fail(link, HF_UNAVAILABLE, "%s", strerror(link->in_error));
    else if (link->in_end)
        hfi_link_fail(link, HF_UNAVAILABLE, "the server closed the connection%s",
                      link->state == HFI_LINK_GREETING ? " during the greeting"
                      : link->state == HFI_LINK_TLS    ? " during the TLS handshake"
                                                       : "");
}

static void feed(struct hfi_link *link)
{
    if (!hfi_reader_feed(link->reader, link->in, link->in_len))
        hfi_link_fail(link, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
    else
        take_replies(link);
}

/* Ciphertext in, handshake, plain text out, as far as it goes. */
static void feed_tls(struct hfi_link *link)
{
    char plain[HFI_LINK_INPUT];
    enum hfi_tls_result result = HFI_TLS_DONE;
    size_t len;

    if (!hfi_tls_feed(link->tls, link->in, link->in_len)) {
        hfi_link_fail(link, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
        return;
    }
    if (link->state == HFI_LINK_TLS) {
        result = hfi_tls_handshake(link->tls);
        if (result == HFI_TLS_DONE)
            hfi_link_greet(link);
        hfi_link_flush(link); /* its next message; or the alert that says why it failed */
    }
    while (result == HFI_TLS_DONE && link->failed == HF_OK) {
        result = hfi_tls_read(link->tls, plain, sizeof plain, &len);
        if (result != HFI_TLS_DONE)
            break;
        if (!hfi_reader_feed(link->reader, plain, len))
            hfi_link_fail(link, HF_NO_MEMORY, "%s", hf_status_text(HF_NO_MEMORY));
        else
            take_replies(link);
    }
    if (result == HFI_TLS_FAILED)
        hfi_link_fail(link, hfi_tls_refused(link->tls) ? HF_DENIED : HF_UNAVAILABLE, "TLS: %s",
                      hfi_tls_why(link->tls));
    if (result == HFI_TLS_ENDED)
        link->in_end = true;
}

static void take_replies(struct hfi_link *link)
{
    while (link->failed == HF_OK) {
        const struct hfi_reply *reply = NULL;
        hf_status status = hfi_reader_next(link->reader, &reply);

        if (status == HF_NO_MEMORY)
            hfi_link_fail(link, status, "%s", hf_status_text(status));
        else if (status != HF_OK)
            hfi_link_fail(link, HF_UNAVAILABLE, "what came is not a reply of Redis");
        if (status != HF_OK || !reply)
            return;
        dispatch(link, reply);
    }
}

static void dispatch(struct hfi_link *link, const struct hfi_reply *reply)
{
    if (link->state == HFI_LINK_GREETING)
        hfi_link_greeted(link, reply);
    else if (link->subscriber)
        dispatch_pushed(link, reply);
    else
        answer(link, reply);
}

/*
 * A subscriber gets messages at any time, and in between, in the order of what we sent: one
 * "subscribe", "unsubscribe" or "pong" for each, or an error instead.
 */
static void dispatch_pushed(struct hfi_link *link, const struct hfi_reply *reply)
{
    const struct hfi_reply *channel = hfi_reply_at(reply, 1, HFI_REPLY_TEXT);
    const struct hfi_reply *payload = hfi_reply_at(reply, 2, HFI_REPLY_TEXT);
    bool mine = link->oldest && link->oldest->skip == 0;

    if (first_is(reply, "message") && channel && payload && reply->count == 3)
        link->owner->message(link, channel->text, channel->len, payload->text, payload->len);
    else if (reply->type == HFI_REPLY_ERROR || mine == first_is(reply, "subscribe"))
        answer(link, reply);
    else
        hfi_link_fail(link, HF_UNAVAILABLE, "a reply that nobody asked for");
}

/* Replies come in the order of the commands. */
static void answer(struct hfi_link *link, const struct hfi_reply *reply)
{
    struct hfi_sent *sent = link->oldest;
    uint32_t *skip = sent ? &sent->skip : &link->skip;

    if (*skip > 0) {
        --*skip;
        return;
    }
    if (!sent || sent->at >= link->gone) { /* or not yet: we have not even sent it */
        hfi_link_fail(link, HF_UNAVAILABLE, "a reply that nobody asked for");
        return;
    }
    link->oldest = sent->next;
    if (!sent->next)
        link->newest = NULL;
    link->in_flight--;
    if (!link->subscriber)
        link->source.awaited--;
    sent->answered(sent, reply, true);
}

static bool first_is(const struct hfi_reply *list, const char *word)
{
    const struct hfi_reply *first = hfi_reply_at(list, 0, HFI_REPLY_TEXT);

    return first && first->len == strlen(word) && memcmp(first->text, word, first->len) == 0;
}
