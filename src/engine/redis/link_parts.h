/* SPDX-License-Identifier: MIT */
/*
 * The inside of a link, shared by its parts:
 *
 *   link.c          its life: open, close, going down, time limits, what is in flight
 *   link_connect.c  from a name to a connected socket
 *   link_greet.c    from a connected socket to a server we know and that knows us
 *   link_output.c   commands into bytes, bytes into the socket
 *   link_input.c    bytes out of the socket, replies to who waits for them
 *
 * Nothing but hfi_link_take(), _tick() and _close() takes a link down: whoever finds a reason notes
 * it (hfi_link_fail()), and the next of those acts on it.
 */
#ifndef HFI_REDIS_LINK_PARTS_H
#define HFI_REDIS_LINK_PARTS_H

#include "engine/redis/link.h"
#include "engine/redis/tls.h"
#include "util/buffer.h"
#include "util/resolve.h"

#include <stdatomic.h>

#define HFI_LINK_INPUT   (16 * 1024) /* one recv(2) */
#define HFI_GREETING_MAX 8           /* commands */

struct hfi_link {
    struct hfi_source source; /* first: they are one address */
    const struct hfi_redis_conf *conf;
    const struct hfi_address *address;
    const struct hfi_link_owner *owner;
    void *data;
    bool subscriber, sentinel, brief;

    enum hfi_link_state state;
    hf_status failed; /* it must go down for this, first reason first; HF_OK: it need not */
    char why[320];

    int fd;
    uint32_t events;       /* what epoll watches fd for; 0: it does not */
    int64_t open_until_ms; /* for all of connecting and greeting */

    /* Connecting. */
    struct hfi_lookup *lookup; /* may outlive an attempt: a slow name server is asked once */
    struct hfi_places places;
    size_t place;             /* the next to try */
    int64_t attempt_until_ms; /* this one's share of open_until_ms */

    /* Greeting: the replies that are to come, as steps of link_greet.c. */
    unsigned char steps[HFI_GREETING_MAX];
    unsigned step, step_count;
    struct hfi_server server;

    /* Output: `out` is what we say; with TLS it becomes `wire`. Counted from the last open. */
    struct hfi_tls *tls;
    struct hfi_buffer out, wire;
    uint64_t queued; /* bytes that were ever put into out */
    uint64_t gone;   /* of those, how many may have left */

    /* Input. The driver's alone, without the lock, between read and take; read_fd is fd while there
     * is something to read from it, else -1. */
    _Atomic int read_fd;
    size_t in_len;
    int in_error; /* errno of recv(2) */
    bool in_end;
    char *in;
    struct hfi_reader *reader;

    /* In flight, oldest first; `skip` replies of no interest come after the newest. */
    struct hfi_sent *oldest, *newest;
    size_t in_flight;
    uint32_t skip;

    /* A subscriber's pings. */
    int64_t heard_ms, pinged_ms;
    unsigned missed;
};

/* Note why it must go down; only the first reason counts. The text must hold no secret; the
 * address is put before it. */
__attribute__((format(printf, 3, 4))) void hfi_link_fail(struct hfi_link *link, hf_status status,
                                                         const char *format, ...);
/* Tell the reactor when to tick, after something that may make it earlier. */
void hfi_link_set_time(struct hfi_link *link);
/* What epoll is to watch the descriptor for. */
void hfi_link_watch(struct hfi_link *link, uint32_t events);

/* link_connect.c: begin; go on after something happened; go on because of the time. */
void hfi_link_connect(struct hfi_link *link, int64_t now_ms);
void hfi_link_connect_take(struct hfi_link *link, int64_t now_ms);
void hfi_link_connect_tick(struct hfi_link *link, int64_t now_ms);
void hfi_link_disconnect(struct hfi_link *link); /* also when half connected, or not at all */

/* link_greet.c: say hello; one reply to it. When all have come, the link is UP or has failed. */
void hfi_link_greet(struct hfi_link *link);
void hfi_link_greeted(struct hfi_link *link, const struct hfi_reply *reply);

/* link_output.c */
void hfi_link_queue(struct hfi_link *link, const struct hfi_command *command);

/* link_input.c: what has been read. */
void hfi_link_take_input(struct hfi_link *link, int64_t now_ms);

#endif
