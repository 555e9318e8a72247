/* SPDX-License-Identifier: MIT */
/*
 * One connection to one server: bytes out, bytes in, and the requests that are not answered yet.
 * The owner, which embeds the stream, knows what the bytes mean.
 *
 *   IDLE --open--> RESOLVING -> CONNECTING -> TLS -> GREETING --hfi_stream_up()--> UP
 *    ^                 |            |          |        |                          |
 *    +-----------------+------------+----------+--------+--------------------------+   lost(), down()
 *
 * When it goes down, every request in flight is lost, then `down` is called. It is opened again by itself, after a
 * pause that grows with each failure, if hfi_stream_keep() asked for that.
 *
 * Only the driver takes a stream down: other code notes a reason (hfi_stream_fail()), and the
 * driver acts on it.
 *
 *   stream.c          its life: open, close, going down, time limits
 *   stream_connect.c  from a name to a connected socket
 *   stream_io.c       bytes into and out of the socket
 *
 * Threads: it is a source of a reactor. Everything is called with the reactor's lock held; init, open, close and done
 * by the driver, or while nobody drives. The owner's calls come with the lock held, from the driver or from
 * hfi_stream_close(); they may send on any stream, but must not close one.
 */
#ifndef HFI_KIT_STREAM_H
#define HFI_KIT_STREAM_H

#include "engine/kit/reactor.h"
#include "engine/kit/tls.h"
#include "util/buffer.h"
#include "util/resolve.h"

#include <stdatomic.h>

#define HFI_STREAM_INPUT (16 * 1024) /* one recv(2) */

struct hfi_stream;

/* One request in flight. Embedded in the owner's own; at one address until it is answered or lost. */
struct hfi_sent {
    struct hfi_sent *next; /* the stream's */
    int64_t sent_ms;       /* hfi_now_ms() before the first byte could be sent */
    uint64_t at;           /* the stream's: where it begins, in bytes since the stream was opened */
    bool lines; /* its answer has many parts, and each of them has the time limit of an answer */
};

/* The address and the time limits. What it points to lives longer than the stream. */
struct hfi_stream_target {
    const struct hfi_address *address;
    int64_t connect_ms;                /* for one attempt: connecting, TLS and greeting */
    int64_t op_ms;                     /* for the answer to a request */
    const struct hfi_tls_context *tls; /* NULL: plain */
};

struct hfi_stream_calls {
    /* It is connected: begin the greeting, which hfi_stream_up() or hfi_stream_fail() ends. */
    void (*greet)(struct hfi_stream *stream);
    /* Bytes came. */
    void (*take)(struct hfi_stream *stream, const char *bytes, size_t len);
    /* It went down before this was answered. `maybe`: bytes of it may have reached the server, so
     * it may have been or may still be executed; otherwise it never will be. */
    void (*lost)(struct hfi_stream *stream, struct hfi_sent *sent, bool maybe);
    /* It went down: forget what was half read. Before lost(); `gone` still tells how many bytes may have left. May be
     * NULL. */
    void (*reset)(struct hfi_stream *stream);
    /* It is IDLE again. `why` holds no secrets. */
    void (*down)(struct hfi_stream *stream, hf_status status, const char *why);
};

enum hfi_stream_state {
    HFI_STREAM_IDLE,
    HFI_STREAM_RESOLVING,
    HFI_STREAM_CONNECTING,
    HFI_STREAM_TLS,
    HFI_STREAM_GREETING,
    HFI_STREAM_UP
};

struct hfi_stream {
    struct hfi_source source; /* first: they are one address */
    const struct hfi_stream_calls *calls;
    struct hfi_stream_target target;
    bool listens; /* set by the owner: bytes come without a request, and no answer is expected */

    enum hfi_stream_state state;
    hf_status failed; /* why it must go down: the first reason; HF_OK: it need not */
    hf_status ended;  /* why it went down the last time, for `lost`; HF_OK: it was closed */
    char why[480];
    hf_status unusable; /* becomes `failed` after what was read has been acted on; HF_OK: usable */

    bool was_up; /* before: then another UP is a reconnection */
    bool kept;   /* opened again when it is down ... */
    unsigned failures;
    int64_t open_ms; /* ... but not before */

    int fd;
    uint32_t events;       /* what epoll watches fd for; 0: it does not */
    int64_t open_until_ms; /* for all of connecting and greeting */

    /* Connecting. */
    struct hfi_lookup *lookup; /* may outlive an attempt: a slow name server is asked once */
    struct hfi_places places;
    size_t place;             /* the next to try */
    int64_t attempt_until_ms; /* the time limit of this address, a share of open_until_ms */

    /* Output: `out` is plain text; with TLS it is encrypted into `wire`. Counted from the last
     * open. */
    struct hfi_tls *tls;
    struct hfi_buffer out, wire;
    uint64_t queued; /* bytes that were ever put into out */
    uint64_t gone;   /* of those, how many may have left */

    /* Input. Used by the driver only, without the lock, between read and ready; read_fd is fd while
     * it may be read, else -1. */
    _Atomic int read_fd;
    size_t in_len;
    int in_error; /* errno of recv(2) */
    bool in_end;
    char *in;
    int64_t heard_ms; /* when something last came */

    struct hfi_sent *oldest, *newest; /* in flight */
    size_t in_flight;
};

/* false: out of memory. `stream` is zeroed. */
bool hfi_stream_init(struct hfi_stream *stream, struct hfi_reactor *reactor,
                     const struct hfi_stream_calls *calls, const struct hfi_stream_target *target);
void hfi_stream_done(struct hfi_stream *stream); /* closes it */

/* Begin to connect; IDLE only. Ends with hfi_stream_up() or `down`, within connect_ms. */
void hfi_stream_open(struct hfi_stream *stream, int64_t now_ms);
/* Open it whenever it is down, after a pause that grows with each failure; off: no more. */
void hfi_stream_keep(struct hfi_stream *stream, bool on);
/* The greeting has ended: the stream can be used. */
void hfi_stream_up(struct hfi_stream *stream);
/* ... and it works: earlier failures do not count any more. */
void hfi_stream_settled(struct hfi_stream *stream);
/* Go down now, without calling `down`; what is in flight is lost. Then it is IDLE. */
void hfi_stream_close(struct hfi_stream *stream);
/* Note why it must go down; only the first reason counts. No secrets; the address is put before it. */
__attribute__((format(printf, 3, 4))) void hfi_stream_fail(struct hfi_stream *stream,
                                                           hf_status status, const char *format,
                                                           ...);
/* The same for a server that answers but cannot be used: input that has arrived is acted on
 * first. */
__attribute__((format(printf, 3, 4))) void hfi_stream_unusable(struct hfi_stream *stream,
                                                               hf_status status, const char *format,
                                                               ...);
/* It has failed, is down, and its pause is over. */
bool hfi_stream_opens_again(const struct hfi_stream *stream, int64_t now_ms);
/* How long to wait after `failures` in a row: backoff with full jitter. Pure but for `random`. */
int64_t hfi_backoff_ms(unsigned failures, uint32_t random);

/* Memory for `size` bytes at the end of what is to be sent. NULL: the stream has failed. */
char *hfi_stream_reserve(struct hfi_stream *stream, size_t size);
/* `len` of them are used. They leave when the lock is dropped, unless something corks. */
void hfi_stream_commit(struct hfi_stream *stream, size_t len);
/* The bytes from `at` on (stream->queued before they were written) are a request. UP only. On a
 * stream that has failed but is not down yet the request is queued too: requests are lost in the
 * order in which they were sent. */
void hfi_stream_expect(struct hfi_stream *stream, struct hfi_sent *sent, uint64_t at);
/* An answer has come: take out the oldest request in flight. NULL: every request that was sent is
 * answered. */
struct hfi_sent *hfi_stream_answered(struct hfi_stream *stream);
/* Send the output: one send(2); what the socket does not take waits for EPOLLOUT. */
void hfi_stream_flush(struct hfi_stream *stream);
/* Is there something to read that was not read yet? */
bool hfi_stream_has_news(const struct hfi_stream *stream);

/* The calls of its source, for the reactor and for tests. */
bool hfi_stream_read(struct hfi_source *source, bool wait);
void hfi_stream_ready(struct hfi_source *source, int fd, uint32_t events, int64_t now_ms);
void hfi_stream_due(struct hfi_source *source, int64_t now_ms);
void hfi_stream_flush_source(struct hfi_source *source);
int64_t hfi_stream_next_ms(const struct hfi_stream *stream);

#endif
