/* SPDX-License-Identifier: MIT */
/*
 * A server that plays a script instead of being etcd. It speaks HTTP/2 as far as the script lets it: a rule says what is
 * answered to a method, and how the answer is spoiled. Each connection has a thread.
 */
#ifndef TEST_ETCD_LIAR_SERVER_H
#define TEST_ETCD_LIAR_SERVER_H

#include "engine/etcd/proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum liar_way {
    LIAR_ANSWER,  /* headers, data, trailers */
    LIAR_CLOSE,   /* the connection ends */
    LIAR_RESET,   /* RST_STREAM with `error` */
    LIAR_GOAWAY,  /* GOAWAY with `error`: up to the streams before this one; then the end */
    LIAR_FRAMES,  /* `bytes` instead of an answer, as they are */
    LIAR_LASTS,   /* a stream that stays open and says what liar_more() says */
    LIAR_SILENCE, /* nothing */
    LIAR_NOT_H2,  /* `bytes` as soon as somebody connects, and the end */
};

struct liar_rule {
    const char *path; /* a part of it; "": every one; NULL: the end */
    enum liar_way way;
    const char *http;   /* NULL: "200" */
    const char *type;   /* NULL: "application/grpc" */
    const char *status; /* grpc-status; NULL: "0"; "": none */
    const char *text;   /* grpc-message; NULL: none */
    const void *bytes;  /* one message, or what `way` says */
    size_t len;
    const void *prefix; /* five bytes before the message; NULL: the right ones */
    uint32_t error;
    unsigned times; /* so often; then the next rule counts; 0: always */
};

uint16_t liar_start(void);
/* From now on; the list ends with a path NULL, and is copied. */
void liar_say(const struct liar_rule *rules);
/* Every connection ends after so many bytes (-1: does not), which leave one by one if `drip`. */
void liar_cut(long after, int drip);
/* On the stream that lasts: messages, each with its prefix. false: there is none yet. */
bool liar_more(const void *bytes, size_t len);
long liar_written(void); /* bytes that the last connection has got */
unsigned liar_requests(void);

#endif
