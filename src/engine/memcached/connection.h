/* SPDX-License-Identifier: MIT */
/*
 * One connection to memcached: a stream (kit/stream.h) of commands out and replies in, in the order of the commands.
 * Threads as there.
 */
#ifndef MEMCACHED_CONNECTION_H
#define MEMCACHED_CONNECTION_H

#include "engine/kit/stream.h"
#include "engine/memcached/conf.h"
#include "engine/memcached/proto.h"

struct memcached_connection;

/* One command in flight. Embedded in the owner's own; at one address until its last answer. */
struct memcached_sent {
    /* first. `lines`: STATs or lines of a dump may come before its last reply */
    struct hfi_sent sent;
    uint64_t opaque; /* that its reply must bring back; 0: it has none */
    bool may_refuse; /* one line, which a server may refuse: that is an answer too */
    /*
     * `reply` NULL: the connection went down. `maybe`: bytes of the command may have reached the
     * server, so it may have been or may still be executed; otherwise it never will be.
     */
    void (*answered)(struct memcached_sent *sent, const struct memcached_reply *reply, bool maybe);
};

struct memcached_connection_calls {
    void (*up)(struct memcached_connection *connection);
    /* It is IDLE again. HF_UNAVAILABLE, HF_DENIED, HF_VERSION, HF_CONFIG, HF_NO_MEMORY. */
    void (*down)(struct memcached_connection *connection, hf_status status, const char *why);
};

/* What the greeting found out (version, stats). */
struct memcached_server {
    char version[32];
    uint64_t pid, start_s; /* which process it is: these two, together */
    uint64_t time_s;       /* its clock ... */
    int64_t asked_ms;      /* ... no earlier than here by ours */
};

struct memcached_connection {
    struct hfi_stream stream; /* first: they are one address */
    const struct memcached_conf *conf;
    const struct memcached_connection_calls *calls;
    void *data;

    unsigned step; /* of the greeting */
    bool saw_uptime, saw_time;
    uint64_t uptime_s;
    struct memcached_server server;

    struct hfi_buffer got; /* what has come and is no whole reply yet */
    uint64_t last_opaque;
};

/* `connection` is zeroed. false: out of memory. hfi_stream_open() or hfi_stream_keep() opens it. */
bool memcached_connection_init(struct memcached_connection *connection, struct hfi_reactor *reactor,
                               const struct memcached_conf *conf,
                               const struct memcached_connection_calls *calls, void *data);
void memcached_connection_done(
    struct memcached_connection *connection); /* also if it was not initialized */

/* `len` bytes of what hfi_stream_reserve() gave are one command; 0: it gave none, and `sent` is answered so. */
void memcached_connection_send(struct memcached_connection *connection, size_t len,
                               struct memcached_sent *sent);

#endif
