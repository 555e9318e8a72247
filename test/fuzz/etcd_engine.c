/* SPDX-License-Identifier: MIT */
/*
 * The etcd engine with the fuzzer as its server: first the ops, then what the server says. Its first byte is the form: an answer to the oldest
 * request that has none, the beginning of one that goes on, more of the last one, any frame, or bytes as they are. The rest is the message
 * (a protocol buffer) in the frames of HTTP/2 and gRPC.
 */
#include "fake_wire.h"
#include "ops.h"

const struct hfi_engine *hfi_engine_entry(void);

#define FRAME       9 /* bytes before the payload of a frame */
#define DATA        0
#define HEADERS     1
#define SETTINGS    4
#define END_STREAM  1
#define END_HEADERS 4
#define PREFACE_LEN 24
#define STREAM_LAST \
    63 /* asked[STREAM_LAST] is never reached by the requests of one input: the stream of the last answer */
#define BEGUN        62 /* ... and whether SETTINGS were sent */
#define REQUESTS_MAX 60

static void put_frame(char **at, size_t len, unsigned type, unsigned flags, uint32_t stream,
                      const void *payload)
{
    const unsigned char head[FRAME] = {
        (unsigned char)(len >> 16),    (unsigned char)(len >> 8),    (unsigned char)len,
        (unsigned char)type,           (unsigned char)flags,         (unsigned char)(stream >> 24),
        (unsigned char)(stream >> 16), (unsigned char)(stream >> 8), (unsigned char)stream
    };

    memcpy(*at, head, sizeof head);
    memcpy(*at + sizeof head, len ? payload : "", len);
    *at += sizeof head + len;
}

static void put_message(char **at, uint32_t stream, struct fuzz_input message)
{
    unsigned char bytes[5 + 256] = { 0, 0, 0, 0, (unsigned char)message.len };

    memcpy(bytes + 5, message.at, message.len);
    put_frame(at, 5 + message.len, DATA, 0, stream, bytes);
}

/* The engine sends whole frames. */
static void sent(struct fake_wire *wire, const char *bytes, size_t len)
{
    const unsigned char *at = (const unsigned char *)bytes, *end = at + len;

    if (len >= PREFACE_LEN && memcmp(bytes, "PRI ", 4) == 0)
        at += PREFACE_LEN;
    while (end - at >= FRAME) {
        size_t payload = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];

        if (at[3] == HEADERS && wire->last < REQUESTS_MAX)
            fake_wire_asked(wire, (uint32_t)(at[5] & 0x7f) << 24 | (uint32_t)at[6] << 16 |
                                      (uint32_t)at[7] << 8 | at[8]);
        if ((size_t)(end - at) < FRAME + payload)
            return;
        at += FRAME + payload;
    }
}

static size_t say(struct fake_wire *wire, struct fuzz_input piece, char *to)
{
    static const char headers[] = "\x88\x0f\x10\x10"
                                  "application/grpc";
    char trailers[] = "\x00\x0bgrpc-status\x01"
                      "0";
    uint8_t form = fuzz_byte(&piece);
    uint32_t stream = form % 8 < 6 ? fake_wire_next(wire) : wire->asked[STREAM_LAST];
    char *at = to;

    if (!wire->asked[BEGUN]) {
        put_frame(&at, 0, SETTINGS, 0, 0, NULL);
        wire->asked[BEGUN] = 1;
    }
    if (form % 8 == 7) {
        uint8_t type = fuzz_byte(&piece), flags = fuzz_byte(&piece);

        if (form >= 0xf0) {
            memcpy(at, piece.at, piece.len);
            return (size_t)(at - to) + piece.len;
        }
        put_frame(&at, piece.len, type % 10, flags, type & 0x80 ? stream : 0, piece.at);
        return (size_t)(at - to);
    }
    if (stream == 0)
        return (size_t)(at - to);
    if (form % 8 < 6)
        put_frame(&at, sizeof headers - 1, HEADERS, END_HEADERS, stream, headers);
    wire->asked[STREAM_LAST] = stream;
    put_message(&at, stream, piece);
    if (form % 8 < 5) {
        if (form >= 0x80) /* the call has failed */
            trailers[sizeof trailers - 2] = (char)('0' + form / 8 % 10);
        put_frame(&at, sizeof trailers - 1, HEADERS, END_HEADERS | END_STREAM, stream, trailers);
    }
    return (size_t)(at - to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct fake_wire_calls calls = { sent, say };
    struct fuzz_input in = { data, len };
    struct fuzz_input ops = fuzz_piece(&in, 16);

    fake_wire_begin(&calls, in);
    fuzz_ops(hfi_engine_entry(), "etcd://127.0.0.1:1", true, ops);
    fake_wire_end();
    return 0;
}
