/* SPDX-License-Identifier: MIT */
/*
 * A link under test and its driver: one thread, as in an engine. The calls of the link are logged,
 * for the test to check.
 */
#ifndef WIRE_BED_H
#define WIRE_BED_H

#include "../unit/unit.h"

#include "engine/redis/link.h"

#include <stdbool.h>

#define BED_LIMIT_MS 60000 /* what has not happened by then never will */

struct bed {
    struct hfi_reactor reactor; /* first: it drives the link */
    struct hfi_redis_conf *conf;
    struct hfi_link *link;
    unsigned ups, downs, messages;
    /* by bed_until_down(): the next is another one, that may have been already */
    unsigned downs_seen;
    hf_status status; /* of the last down */
    char why[400];
    char channel[64], payload[64]; /* of the last message */
};

/* A call and its answer. */
struct call {
    struct redis_sent sent;
    unsigned answers;
    bool none, maybe; /* answered without a reply */
    enum hfi_reply_type type;
    int64_t integer;
    size_t count; /* of a list */
    char text[256];
};

/* A bed for the first host of `url`; the link is not open yet. */
void bed_init(struct bed *bed, const char *url, bool subscriber);
void bed_done(struct bed *bed);

struct fake;
/* The same for a fake on 127.0.0.1, with `rest` ("&ping=1s") behind the URL's parameters; it is up. */
void bed_open_to(struct bed *bed, const struct fake *fake, bool subscriber, const char *rest);

void bed_open(struct bed *bed);
/* Open, and drive until it is up, or down. */
void bed_open_up(struct bed *bed);
void bed_open_down(struct bed *bed, hf_status status, const char *why_has);
/* Drive once: sleep at most `ms`. */
void bed_drive(struct bed *bed, int ms);
void bed_until_down(struct bed *bed);
void bed_until_answered(struct bed *bed, const struct call *call);
/* Drive without sleeping for some rounds: nothing that is here already stays unread. */
void bed_settle(struct bed *bed);

/* Send words, NULL at the end, and flush. */
void call_send(struct bed *bed, struct call *call, const char *const *words);
#define CALL(bed, call, ...) call_send(bed, call, (const char *const[]){ __VA_ARGS__, NULL })
void call_subscribe(struct bed *bed, struct call *call, const char *channel);
void call_note(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);

struct hfi_redis_conf *parse_conf(const char *url);

#endif
