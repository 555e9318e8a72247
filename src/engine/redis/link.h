/* SPDX-License-Identifier: MIT */
/*
 * One connection to one Redis server: commands out, replies and messages in.
 *
 *   IDLE --open--> RESOLVING -> CONNECTING -> TLS -> GREETING -> UP
 *    ^                 |            |          |        |         |
 *    +-----------------+------------+----------+--------+---------+   `down`, after which
 *                                                                     the owner opens again
 *
 * A link never retries by itself: when it goes down every call in flight is
 * answered without a reply, then `down` is called, and the owner decides (when to
 * open it again: hfi_link_backoff_ms()).
 *
 * Threads: everything here is called with the reactor's lock held, but for
 * hfi_link_read(), which only the driver calls, without the lock: it may sleep
 * there while others send. new, take, tick, close and free belong to the driver
 * too, or come while nobody drives. All callbacks are called with the lock held,
 * from hfi_link_take(), hfi_link_tick() or hfi_link_close(); they may send on any
 * link, but must not close one.
 */
#ifndef HFI_REDIS_LINK_H
#define HFI_REDIS_LINK_H

#include "engine/kit/reactor.h"
#include "engine/redis/command.h"
#include "engine/redis/conf.h"
#include "engine/redis/reply.h"

struct hfi_link;

/* One command in flight. Embedded in the owner's own; at one address until `answered`. */
struct hfi_sent {
    struct hfi_sent *next; /* the link's */
    int64_t sent_ms;       /* hfi_now_ms() before the first byte could leave */
    uint64_t at;           /* the link's: where it begins in all that was to be sent */
    uint32_t skip;         /* the link's: replies of no interest that come before its own */
    /*
     * Exactly once. NULL: the link went down. `maybe`: bytes of the command may have reached
     * the server, so that it may have been, or may still be, executed; else it never will be.
     */
    void (*answered)(struct hfi_sent *sent, const struct hfi_reply *reply, bool maybe);
};

struct hfi_link_owner {
    /* Greeted: it can be used. The server's facts are in hfi_link_server(). */
    void (*up)(struct hfi_link *link);
    /* It is IDLE again. `status` and `why` (no secrets): HF_UNAVAILABLE, HF_DENIED, HF_VERSION,
     * HF_CONFIG (no such database), HF_NO_MEMORY. */
    void (*down)(struct hfi_link *link, hf_status status, const char *why);
    /* A pub/sub message: the payload of `channel`. */
    void (*message)(struct hfi_link *link, const char *channel, size_t channel_len,
                    const char *payload, size_t len);
};

enum hfi_link_state {
    HFI_LINK_IDLE,
    HFI_LINK_RESOLVING,
    HFI_LINK_CONNECTING,
    HFI_LINK_TLS,
    HFI_LINK_GREETING,
    HFI_LINK_UP
};

/* What the greeting learnt (HELLO, INFO server, replication and persistence). */
struct hfi_server {
    char run_id[48];
    char replid[48];       /* master_replid */
    char version[32];      /* its own: of Valkey Valkey's */
    unsigned major, minor; /* of the Redis that it is, or is compatible with */
    bool is_valkey, is_replica, is_cluster, loading;
    uint64_t client_id; /* CLIENT ID; 0: not allowed to know */
};

/*
 * A link to `address` (host and port, or a path) with the user, password, database and TLS of
 * `conf`, which lives longer than the link. It is a source of `reactor`, which drives it. By the
 * driver. `subscriber`: it carries SUBSCRIBE only. NULL: out of memory.
 */
struct hfi_link *hfi_link_new(const struct hfi_redis_conf *conf, const struct hfi_address *address,
                              bool subscriber, struct hfi_reactor *reactor,
                              const struct hfi_link_owner *owner, void *data);
void hfi_link_free(struct hfi_link *link); /* closed or IDLE; NULL is fine */
/* Before the first open: it leads to a sentinel. Greeted with conf's sentinel_user and
 * sentinel_password, without a database; its server has no replid and no role. */
void hfi_link_to_sentinel(struct hfi_link *link);
/* Before the first open: it is greeted with no more than a server answers that is busy with a script (AUTH,
 * HELLO); its server is not known. */
void hfi_link_be_brief(struct hfi_link *link);
/* Answers on it come soon: while no other link awaits any, the driver sleeps in hfi_link_read(). */
void hfi_link_sleep_here(struct hfi_link *link);
void *hfi_link_data(const struct hfi_link *link);
enum hfi_link_state hfi_link_state(const struct hfi_link *link);
const struct hfi_server *hfi_link_server(const struct hfi_link *link); /* of the last greeting */
const struct hfi_address *hfi_link_address(const struct hfi_link *link);
int hfi_link_fd(const struct hfi_link *link); /* -1: none */

/* Begin to connect; IDLE only. Ends with `up` or `down`, within conf->connect_ms. */
void hfi_link_open(struct hfi_link *link, int64_t now_ms);
/* Go down now, without calling `down`; calls in flight are answered. Then it is IDLE. */
void hfi_link_close(struct hfi_link *link);
/* How long to wait before opening again after `failures` in a row: backoff with full jitter. Pure
 * but for `random`. */
int64_t hfi_link_backoff_ms(unsigned failures, uint32_t random);

/*
 * Send: UP only, else answered at once with (NULL, maybe = false) -- from within this call.
 * The command's bytes are copied. They leave when the lock is dropped, unless something corks.
 */
void hfi_link_send(struct hfi_link *link, const struct hfi_command *command, struct hfi_sent *sent);
/* As send, before anything else: what must follow an ASK redirection (ASKING + command). */
void hfi_link_send_asking(struct hfi_link *link, const struct hfi_command *command,
                          struct hfi_sent *sent);
/* Subscriber links. Confirmed subscriptions survive nothing: subscribe again after `up`. */
void hfi_link_subscribe(struct hfi_link *link, const char *channel, size_t len,
                        struct hfi_sent *sent);
void hfi_link_unsubscribe(struct hfi_link *link, const char *channel, size_t len);
/* Write what is there: one send(2) if the socket takes it. true: all is written, or the rest
 * waits for EPOLLOUT. A failed write is noticed by the next take. */
void hfi_link_flush(struct hfi_link *link);
void hfi_link_flush_if(struct hfi_link *link, size_t bytes); /* if at least so many wait */
size_t hfi_link_in_flight(const struct hfi_link *link);      /* calls not yet answered */

/* The reactor calls the rest, and tests do.
 * Without the lock, by the driver: read what has come, one recv(2). `wait`: sleep for it at most
 * HFI_REACTOR_SLICE_MS. Errors and the end are noticed by take. */
void hfi_link_read(struct hfi_link *link, bool wait);
/* Act on what was read, and on EPOLLOUT or errors: parse, call `answered` and `message`. */
void hfi_link_take(struct hfi_link *link, int64_t now_ms);

/* Time limits: connecting, and conf->op_ms for the oldest call in flight; a subscriber pings
 * once in conf->ping_ms and goes down if nothing comes. */
void hfi_link_tick(struct hfi_link *link, int64_t now_ms);
int64_t hfi_link_next_ms(const struct hfi_link *link); /* when to tick; HFI_NEVER */

#endif
