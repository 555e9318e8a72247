/* SPDX-License-Identifier: MIT */
/*
 * The other end of the connections of an engine (kit/stream.h), with the fuzzer in it: connect(2), send(2) and recv(2) of this program. Each
 * request is answered by the next piece of the input, which may be no answer, or the end of the connection; and where nothing happens another
 * piece comes. A protocol that asks for something which only the request says has a hook. One thread, in the time of fake_time.h.
 */
#ifndef HOLDFAST_FUZZ_FAKE_WIRE_H
#define HOLDFAST_FUZZ_FAKE_WIRE_H

#include "fuzz.h"

#define FAKE_WIRE_ROOM 65536

/* A connection: what the hooks remember of it. */
struct fake_wire {
    int fd, peer; /* the client's descriptor, and ours; -1: none */
    uint32_t asked[64];
    uint32_t first, last; /* of `asked`: which requests wait for an answer */
};

struct fake_wire_calls {
    /* The client has sent this. */
    void (*sent)(struct fake_wire *wire, const char *bytes, size_t len);
    /* What the server says for a piece of the input; `to` has FAKE_WIRE_ROOM. Returns the length. */
    size_t (*say)(struct fake_wire *wire, struct fuzz_input piece, char *to);
};

void fake_wire_begin(const struct fake_wire_calls *calls, struct fuzz_input in);
void fake_wire_end(void);

static inline void fake_wire_asked(struct fake_wire *wire, uint32_t what)
{
    wire->asked[wire->last++ % 64] = what;
}

/* The oldest one; 0: none. */
static inline uint32_t fake_wire_next(struct fake_wire *wire)
{
    return wire->first == wire->last ? 0 : wire->asked[wire->first++ % 64];
}

#endif
