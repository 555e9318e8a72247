/* SPDX-License-Identifier: MIT */
/*
 * Protocol buffers, as far as etcd's API needs them: requests are written field by field into a growing text, replies
 * are checked against a form once and then read in place. Pure: no I/O, no clock; memory only for what is written.
 *
 * A reply is hostile until etcd_message_fits() has seen all of it, nested messages included. After that the reading
 * functions cannot fail: a field that is not there is 0, empty or absent, as protocol buffers say.
 */
#ifndef HFI_ETCD_PROTO_H
#define HFI_ETCD_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- writing ------------------------------------------------------------------------------- */

/* Bytes that grow at their end. Once it has failed it stays failed, and is refused when it is sent. */
struct etcd_text {
    char *bytes;
    size_t len, room;
    bool failed; /* out of memory */
};

/* Reserve room for this many more bytes; false: out of memory. */
bool etcd_reserve(struct etcd_text *text, size_t more);
void etcd_add_bytes(struct etcd_text *text, const void *bytes, size_t len);
void etcd_text_done(struct etcd_text *text); /* wiped: it may have been a password */

void etcd_put_number(struct etcd_text *text, unsigned field, int64_t number);
void etcd_put_bytes(struct etcd_text *text, unsigned field, const void *bytes, size_t len);
/* A nested message: all that is put between the two. The parts nest. */
size_t etcd_put_begin(struct etcd_text *text, unsigned field);
void etcd_put_end(struct etcd_text *text, size_t begun);

/* ---- reading ------------------------------------------------------------------------------- */

/* A message, or the bytes of a field, in memory of others. `at` NULL: absent. */
struct etcd_message {
    const unsigned char *at;
    size_t len;
};

enum etcd_field_kind {
    ETCD_NUMBER = 1,
    ETCD_BYTES,    /* at most one counts: the last */
    ETCD_MESSAGE,  /* a message at most once */
    ETCD_MESSAGES, /* any number of messages */
};

/* What a message may hold. Fields that are not listed are skipped. */
struct etcd_form {
    struct etcd_form_field {
        unsigned number; /* 0: the end */
        enum etcd_field_kind kind;
        const struct etcd_form *form; /* of a message */
    } fields[10];
};

/* Is it well-formed to its end, each listed field of its kind, and so are the messages in it? */
bool etcd_message_fits(struct etcd_message message, const struct etcd_form *form);

int64_t etcd_number(struct etcd_message message, unsigned field); /* 0: absent */
/* Field `field`: the bytes, or the one message. */
struct etcd_message etcd_part(struct etcd_message message, unsigned field);
size_t etcd_count(struct etcd_message message, unsigned field);
/* All of a repeated field, in order: struct etcd_message at = reply; while (etcd_next(&at, field, &one)) ... */
bool etcd_next(struct etcd_message *at, unsigned field, struct etcd_message *ret_part);

#endif
