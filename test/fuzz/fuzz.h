/* SPDX-License-Identifier: MIT */
/*
 * What every fuzz target shares. A target is one file with LLVMFuzzerTestOneInput(): it gives the bytes to a
 * decoder and checks with MUST() what must hold whatever they are. It links with libFuzzer (make fuzz), or with
 * main.c, which replays files and changes them at random (label fuzz of make test).
 */
#ifndef HOLDFAST_FUZZ_H
#define HOLDFAST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* An assert that is always on. */
#define MUST(condition)                                                                     \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: this must hold: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                        \
        }                                                                                   \
    } while (0)

/* A copy of exactly `len` bytes, so that AddressSanitizer sees a read past its end. free() it. */
static inline void *fuzz_exact(const void *bytes, size_t len)
{
    void *copy = calloc(1, len ? len : 1);

    MUST(copy);
    memcpy(copy, len ? bytes : "", len);
    return copy;
}

/* Likewise as text. free() it. */
static inline char *fuzz_text(const void *bytes, size_t len)
{
    char *text = malloc(len + 1);

    MUST(text);
    memcpy(text, len ? bytes : "", len);
    text[len] = 0;
    return text;
}

/* Input that is taken from the front. Past its end all is 0. */
struct fuzz_input {
    const uint8_t *at;
    size_t len;
};

static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
    if (in->len == 0)
        return 0;
    in->len--;
    return *in->at++;
}

static inline uint64_t fuzz_number(struct fuzz_input *in, unsigned bytes)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < bytes; i++)
        number |= (uint64_t)fuzz_byte(in) << (8 * i);
    return number;
}

/* A piece of at most `max` bytes, whose length comes first. */
static inline struct fuzz_input fuzz_piece(struct fuzz_input *in, size_t max)
{
    size_t len = max > UINT8_MAX ? (size_t)fuzz_number(in, 2) : fuzz_byte(in);
    struct fuzz_input piece = { in->at, len };

    if (piece.len > max)
        piece.len = max;
    if (piece.len > in->len)
        piece.len = in->len;
    in->at += piece.len;
    in->len -= piece.len;
    return piece;
}

#endif
