/* SPDX-License-Identifier: MIT */
/*
 * A server that plays a script, on a thread of its own: for each connection the same steps, one
 * connection after the other. It understands nothing but where a command ends.
 */
#ifndef WIRE_FAKE_H
#define WIRE_FAKE_H

#include <stddef.h>
#include <stdint.h>

enum fake_kind {
    FAKE_END,   /* of the steps: wait until the client closes */
    FAKE_HEAR,  /* `number` whole commands */
    FAKE_SAY,   /* `text` */
    FAKE_DRIP,  /* `text`, each byte in a segment of its own */
    FAKE_GREET, /* hear the greeting of a client without password and database, answer it well */
    FAKE_PAUSE, /* `number` ms */
    FAKE_CLOSE, /* in good order; no further steps */
    FAKE_RESET, /* with an RST; no further steps */
    FAKE_FILL,  /* `number` bytes 'x' */
    FAKE_IGNORE /* read nothing until fake_stop() */
};

struct fake_step {
    enum fake_kind kind;
    const char *text;
    size_t len; /* 0: strlen */
    long number;
};

#define HEAR(n)                          \
    {                                    \
        .kind = FAKE_HEAR, .number = (n) \
    }
#define SAY(s)                                              \
    {                                                       \
        .kind = FAKE_SAY, .text = (s), .len = sizeof(s) - 1 \
    }
#define DRIP(s)                                              \
    {                                                        \
        .kind = FAKE_DRIP, .text = (s), .len = sizeof(s) - 1 \
    }
#define GREET              \
    {                      \
        .kind = FAKE_GREET \
    }
#define CLOSE              \
    {                      \
        .kind = FAKE_CLOSE \
    }
#define RESET              \
    {                      \
        .kind = FAKE_RESET \
    }
#define IGNORE              \
    {                       \
        .kind = FAKE_IGNORE \
    }
#define FILL(n)                          \
    {                                    \
        .kind = FAKE_FILL, .number = (n) \
    }
#define END              \
    {                    \
        .kind = FAKE_END \
    }

/* What a server of today answers to the greeting: HELLO, CLIENT SETNAME, INFO three times. */
#define GREETING_COMMANDS 5
extern const char greeting_replies[];
/* An INFO server with that version. Static, good until the next call. */
const char *info_server(const char *version, const char *more);

/* A list, with texts and a number in it. */
#define REPLY "*3\r\n$1\r\nG\r\n:12345\r\n$5\r\nhello\r\n"

struct fake;

/* On 127.0.0.1, or ::1 if `six`, or a path. The steps must stay. */
struct fake *fake_start(const struct fake_step *steps);
struct fake *fake_start_at(const struct fake_step *steps, int family, const char *path);
uint16_t fake_port(const struct fake *fake);
unsigned fake_connections(const struct fake *fake);
/* What it heard so far, as it came, of all connections; cut at a bound. */
const char *fake_heard(struct fake *fake);
void fake_stop(struct fake *fake);

#endif
