/* SPDX-License-Identifier: MIT */
/*
 * One connection to one Redis server (kit/stream.h has its states and its threads): commands out, replies and messages
 * in.
 *
 * A command whose connection broke is never sent again by the link: it is answered without a reply, and its owner
 * decides. The owner's calls may send on any link, but must not close one.
 */
#ifndef HFI_REDIS_LINK_H
#define HFI_REDIS_LINK_H

#include "engine/kit/stream.h"
#include "engine/redis/command.h"
#include "engine/redis/conf.h"
#include "engine/redis/reply.h"

struct hfi_link;

/* One command in flight. Embedded in the owner's own; at one address until `answered`. */
struct redis_sent {
    struct hfi_sent base; /* first: they are one address */
    uint32_t skip;        /* the link's: replies of no interest that come before its own */
    /*
     * Exactly once. NULL: the link went down. `maybe`: bytes of the command may have reached
     * the server, so it may have been or may still be executed; otherwise it never will be.
     */
    void (*answered)(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
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

/* What the greeting found out (HELLO, INFO server, replication and persistence). */
struct hfi_server {
    char run_id[48];
    char replid[48];       /* master_replid */
    char version[32];      /* its own: for Valkey, Valkey's version */
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
/* Before the first open: greet only with commands that a server answers while it is busy with a
 * script (AUTH, HELLO); its facts are not known. */
void hfi_link_be_brief(struct hfi_link *link);
/* Answers on this link come soon: if no other link expects any, the driver sleeps in its read. */
void hfi_link_sleep_here(struct hfi_link *link);
void *hfi_link_data(const struct hfi_link *link);
enum hfi_stream_state hfi_link_state(const struct hfi_link *link);
const struct hfi_server *hfi_link_server(const struct hfi_link *link); /* of the last greeting */
const struct hfi_address *hfi_link_address(const struct hfi_link *link);
size_t hfi_link_in_flight(const struct hfi_link *link); /* commands not yet answered */

/* Begin to connect; IDLE only. Ends with `up` or `down`, within conf->connect_ms. */
void hfi_link_open(struct hfi_link *link, int64_t now_ms);
/* Open it whenever it is down, after a pause that grows with each failure; off: no more. */
void hfi_link_keep(struct hfi_link *link, bool on);
/* After `up`: the server can be used, and earlier failures do not count any more. */
void hfi_link_settled(struct hfi_link *link);
/* The server cannot be used (a replica): go down after the input that has arrived is acted on. */
__attribute__((format(printf, 3, 4))) void hfi_link_unusable(struct hfi_link *link,
                                                             hf_status status, const char *format,
                                                             ...);
bool hfi_link_usable(const struct hfi_link *link); /* UP, and not unusable */
/* How often it went down since hfi_link_settled(). */
unsigned hfi_link_failures(const struct hfi_link *link);
/* Why it went down the last time; HF_OK: it was closed. */
hf_status hfi_link_ended(const struct hfi_link *link);
/* It has failed, is down, and its pause is over. */
bool hfi_link_opens_again(const struct hfi_link *link, int64_t now_ms);
/* Go down now, without calling `down`; calls in flight are answered. Then it is IDLE. */
void hfi_link_close(struct hfi_link *link);

/*
 * Send: UP only, else answered at once with (NULL, maybe = false) -- from within this call.
 * The command's bytes are copied. They leave when the lock is dropped, unless something corks.
 */
void hfi_link_send(struct hfi_link *link, const struct hfi_command *command,
                   struct redis_sent *sent);
/* As send, after an ASK redirection: ASKING and the command, before anything else. */
void hfi_link_send_asking(struct hfi_link *link, const struct hfi_command *command,
                          struct redis_sent *sent);
/* Subscriber links. Subscriptions end with the connection: subscribe again after `up`. */
void hfi_link_subscribe(struct hfi_link *link, const char *channel, size_t len,
                        struct redis_sent *sent);
void hfi_link_unsubscribe(struct hfi_link *link, const char *channel, size_t len);
void hfi_link_flush(struct hfi_link *link);                  /* send the output now */
void hfi_link_flush_if(struct hfi_link *link, size_t bytes); /* if at least this many bytes wait */

struct hfi_stream *hfi_link_stream(struct hfi_link *link); /* for tests */

#endif
