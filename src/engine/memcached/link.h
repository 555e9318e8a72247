/* SPDX-License-Identifier: MIT */
/*
 * One connection to one memcached: commands out, replies in, in the order of the commands.
 *
 *   IDLE --open--> RESOLVING -> CONNECTING -> GREETING -> UP
 *    ^                 |            |             |        |
 *    +-----------------+------------+-------------+--------+   `down`, after which the
 *                                                              owner opens again
 *
 * A link never retries by itself: when it goes down every command in flight is answered without a
 * reply, then `down` is called, and the owner decides.
 *
 *   link.c          its life: open, close, going down, time limits
 *   link_connect.c  from a name to a connected socket
 *   link_io.c       bytes out, replies in, the greeting
 *
 * Threads: the owner has a lock, and calls everything here with it held, but for
 * memcached_link_read(), which only the one thread that drives calls, without the lock: it may sleep
 * there while others send. take, tick, close and free belong to the driver too, or come when nobody
 * drives. Callbacks come with the lock held, from take, tick or close; they may send, but must not
 * close or free a link.
 */
#ifndef MEMCACHED_LINK_H
#define MEMCACHED_LINK_H

#include "engine/engine.h"
#include "engine/memcached/conf.h"
#include "engine/memcached/proto.h"
#include "util/buffer.h"
#include "util/resolve.h"

#include <stdatomic.h>

#define MEMCACHED_SLICE_MS 20          /* the longest sleep in memcached_link_read() */
#define MEMCACHED_INPUT    (16 * 1024) /* one recv(2) */

struct memcached_link;

/* One command in flight. Embedded in the owner's own; at one address until its last answer. */
struct memcached_sent {
    struct memcached_sent *next; /* the link's */
    int64_t sent_ms;             /* hfi_now_ms() before the first byte could leave */
    uint64_t at;                 /* the link's: where it begins in all that was to be sent */
    uint64_t opaque;             /* that its reply must bring back; 0: it has none */
    bool lines;                  /* STATs or lines of a dump may come before its last reply */
    /*
     * NULL: the link went down. `maybe`: bytes of the command may have reached the server, so that
     * it may have been, or may still be, executed; else it never will be.
     */
    void (*answered)(struct memcached_sent *sent, const struct memcached_reply *reply, bool maybe);
};

struct memcached_link_owner {
    void (*up)(struct memcached_link *link);
    /* It is IDLE again. HF_UNAVAILABLE, HF_DENIED, HF_VERSION, HF_CONFIG, HF_NO_MEMORY. */
    void (*down)(struct memcached_link *link, hf_status status, const char *why);
};

enum memcached_link_state {
    MEMCACHED_LINK_IDLE,
    MEMCACHED_LINK_RESOLVING,
    MEMCACHED_LINK_CONNECTING,
    MEMCACHED_LINK_GREETING,
    MEMCACHED_LINK_UP
};

/* What the greeting learnt (version, stats). */
struct memcached_server {
    char version[32];
    uint64_t pid, start_s; /* which process it is: these two, together */
    uint64_t time_s;       /* its clock ... */
    int64_t asked_ms;      /* ... no earlier than here by ours */
};

struct memcached_link {
    const struct memcached_conf *conf;
    const struct memcached_link_owner *owner;
    void *data;
    int epoll_fd;

    enum memcached_link_state state;
    hf_status failed; /* it must go down for this, first reason first; HF_OK: it need not */
    char why[320];
    int fd;
    uint32_t events;       /* what epoll watches fd for; 0: it does not */
    int64_t open_until_ms; /* for all of connecting and greeting */

    struct hfi_lookup *lookup; /* may outlive an attempt: a slow name server is asked once */
    struct hfi_places places;
    size_t place;             /* the next to try */
    int64_t attempt_until_ms; /* this one's share of open_until_ms */

    unsigned step; /* of the greeting */
    bool saw_uptime, saw_time;
    uint64_t uptime_s;
    struct memcached_server server;

    struct hfi_buffer out;
    uint64_t queued; /* bytes that were ever put into out, since the last open */
    uint64_t gone;   /* of those, how many may have left */

    /* The driver's alone, without the lock, between read and take; read_fd is fd while there is
     * something to read from it, else -1. */
    _Atomic int read_fd;
    size_t in_len;
    int in_error;
    bool in_end;
    char *in;
    struct hfi_buffer got; /* what has come and is no whole reply yet */

    struct memcached_sent *oldest, *newest;
    size_t in_flight;
    uint64_t last_opaque;
    int64_t heard_ms;
};

/* It registers its descriptor at `epoll_fd` with itself as data.ptr. NULL: out of memory. */
struct memcached_link *memcached_link_new(const struct memcached_conf *conf, int epoll_fd,
                                          const struct memcached_link_owner *owner, void *data);
void memcached_link_free(struct memcached_link *link); /* NULL is fine */

void memcached_link_open(struct memcached_link *link, int64_t now_ms); /* IDLE only */
void memcached_link_close(struct memcached_link *link);                /* without calling `down` */
/* How long to wait before opening again after `failures` in a row: backoff with full jitter. */
int64_t memcached_link_backoff_ms(unsigned failures, uint32_t random);

/*
 * Send. UP only. room(): memory for at most `size` bytes; NULL: the link fails, and sent() answers.
 * sent(): `len` of them are one command. Nothing leaves before a flush.
 */
char *memcached_link_room(struct memcached_link *link, size_t size);
void memcached_link_sent(struct memcached_link *link, size_t len, struct memcached_sent *sent);
void memcached_link_flush(struct memcached_link *link);

void memcached_link_read(struct memcached_link *link, bool wait); /* one recv(2) */
void memcached_link_take(struct memcached_link *link, int64_t now_ms);
void memcached_link_tick(struct memcached_link *link, int64_t now_ms);
int64_t memcached_link_next_ms(const struct memcached_link *link); /* when to tick; HFI_NEVER */

/* ---- between the parts ------------------------------------------------------------------ */

/* Note why it must go down; only the first reason counts. No secrets. */
__attribute__((format(printf, 3, 4))) void memcached_link_fail(struct memcached_link *link,
                                                               hf_status status, const char *format,
                                                               ...);
void memcached_link_watch(struct memcached_link *link, uint32_t events);
void memcached_link_connect(struct memcached_link *link, int64_t now_ms);
void memcached_link_connect_take(struct memcached_link *link, int64_t now_ms);
void memcached_link_connect_tick(struct memcached_link *link, int64_t now_ms);
void memcached_link_disconnect(struct memcached_link *link);
void memcached_link_greet(struct memcached_link *link);
void memcached_link_take_input(struct memcached_link *link, int64_t now_ms);

#endif
