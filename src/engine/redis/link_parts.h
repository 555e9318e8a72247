/* SPDX-License-Identifier: MIT */
/*
 * The inside of a link, shared by its parts:
 *
 *   link.c        commands into the stream, replies and messages out of it, pings
 *   link_greet.c the greeting: authentication and the server's facts
 */
#ifndef HFI_REDIS_LINK_PARTS_H
#define HFI_REDIS_LINK_PARTS_H

#include "engine/redis/link.h"

#define HFI_GREETING_MAX 8 /* commands */

struct hfi_link {
    struct hfi_stream stream; /* first: they are one address */
    const struct hfi_redis_conf *conf;
    const struct hfi_address *address;
    const struct hfi_link_owner *owner;
    void *data;
    bool subscriber, sentinel, brief;

    /* Greeting: the replies that are to come, as steps of link_greet.c. */
    unsigned char steps[HFI_GREETING_MAX];
    unsigned step, step_count;
    struct hfi_server server;

    struct hfi_reader *reader;
    uint32_t skip; /* replies of no interest that come after that of the newest command */

    /* A subscriber's pings. */
    struct hfi_source pinger;
    int64_t pinged_ms;
    unsigned missed;
};

/* link.c: a command goes into the buffer whole, or not at all and the link fails. */
void hfi_link_queue(struct hfi_link *link, const struct hfi_command *command);
/* The greeting is over. */
void hfi_link_up(struct hfi_link *link);

/* link_greet.c: begin the greeting; take one reply to it. When all have come, the link is UP or has
 * failed. */
void hfi_link_greet(struct hfi_link *link);
void hfi_link_greeted(struct hfi_link *link, const struct hfi_reply *reply);

#endif
