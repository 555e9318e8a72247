/* SPDX-License-Identifier: MIT */
/* Protocol buffers: see proto.h. A varint has at most ten bytes; a length is never believed beyond the end of its
 * message. */
#include "engine/etcd/proto.h"

#include "util/alloc.h"

#include <string.h>

#define TEXT_FIRST 512
#define TEXT_MAX   (64u << 20)
#define DEPTH_MAX  8 /* of messages in messages */
#define VARINT_MAX 10

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* ---- writing ------------------------------------------------------------------------------- */

bool etcd_reserve(struct etcd_text *text, size_t more)
{
    size_t room = text->room ? text->room : TEXT_FIRST;
    char *bytes;

    if (text->failed)
        return false;
    if (text->room - text->len >= more && text->bytes)
        return true;
    while (room - text->len < more && room <= TEXT_MAX)
        room *= 2;
    bytes = room <= TEXT_MAX ? hfi_realloc(text->bytes, room) : NULL;
    if (!bytes) {
        text->failed = true;
        return false;
    }
    text->bytes = bytes;
    text->room = room;
    return true;
}

void etcd_add_bytes(struct etcd_text *text, const void *bytes, size_t len)
{
    if (len == 0 || !etcd_reserve(text, len))
        return;
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
}

void etcd_text_done(struct etcd_text *text)
{
    if (text->bytes)
        explicit_bzero(text->bytes, text->len);
    hfi_free(text->bytes);
    *text = (struct etcd_text){ 0 };
}

static size_t write_varint(char to[VARINT_MAX], uint64_t number)
{
    size_t len = 0;

    for (; number > 0x7f; number >>= 7)
        to[len++] = (char)(0x80 | (number & 0x7f));
    to[len++] = (char)number;
    return len;
}

static void add_varint(struct etcd_text *text, uint64_t number)
{
    char bytes[VARINT_MAX];
    size_t len = write_varint(bytes, number);

    etcd_add_bytes(text, bytes, len);
}

static void add_tag(struct etcd_text *text, unsigned field, unsigned wire)
{
    add_varint(text, (uint64_t)field << 3 | wire);
}

void etcd_put_number(struct etcd_text *text, unsigned field, int64_t number)
{
    add_tag(text, field, WIRE_VARINT);
    add_varint(text, (uint64_t)number);
}

void etcd_put_bytes(struct etcd_text *text, unsigned field, const void *bytes, size_t len)
{
    add_tag(text, field, WIRE_BYTES);
    add_varint(text, len);
    etcd_add_bytes(text, bytes, len);
}

size_t etcd_put_begin(struct etcd_text *text, unsigned field)
{
    add_tag(text, field, WIRE_BYTES);
    etcd_add_bytes(text, "", 1); /* room for a short length */
    return text->len;
}

void etcd_put_end(struct etcd_text *text, size_t begun)
{
    char bytes[VARINT_MAX];
    size_t len, more;

    if (text->failed)
        return;
    len = text->len - begun;
    more = write_varint(bytes, len) - 1;
    if (more > 0) { /* messages around it begin before it, so only its own bytes move */
        if (!etcd_reserve(text, more))
            return;
        memmove(text->bytes + begun + more, text->bytes + begun, len);
        text->len += more;
    }
    memcpy(text->bytes + begun - 1, bytes, more + 1);
}

/* ---- reading ------------------------------------------------------------------------------- */

struct field {
    unsigned number, wire;
    uint64_t value;            /* WIRE_VARINT */
    struct etcd_message bytes; /* WIRE_BYTES */
};

static bool take_varint(struct etcd_message *at, uint64_t *ret_number)
{
    uint64_t number = 0;

    for (unsigned shift = 0; at->len > 0 && shift < 64; shift += 7) {
        unsigned char byte = *at->at++;

        at->len--;
        if (shift == 63 && byte > 1)
            return false;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_number = number;
            return true;
        }
    }
    return false;
}

static bool take_bytes(struct etcd_message *at, uint64_t len, struct etcd_message *ret_bytes)
{
    if (len > at->len)
        return false;
    *ret_bytes = (struct etcd_message){ at->at, (size_t)len };
    at->at += len;
    at->len -= (size_t)len;
    return true;
}

/* The next field; false: it is not well-formed. Not at the end. */
static bool take_field(struct etcd_message *at, struct field *ret_field)
{
    uint64_t tag, len;

    if (!take_varint(at, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return false;
    ret_field->number = (unsigned)(tag >> 3);
    ret_field->wire = (unsigned)(tag & 7);
    switch (ret_field->wire) {
    case WIRE_VARINT:
        return take_varint(at, &ret_field->value);
    case WIRE_BYTES:
        return take_varint(at, &len) && take_bytes(at, len, &ret_field->bytes);
    case WIRE_FIXED64:
        return take_bytes(at, 8, &ret_field->bytes);
    case WIRE_FIXED32:
        return take_bytes(at, 4, &ret_field->bytes);
    default:
        return false;
    }
}

static bool fits(struct etcd_message message, const struct etcd_form *form, unsigned depth)
{
    const struct etcd_form_field *known;
    struct field field;
    unsigned seen = 0; /* messages that may be there once */

    if (depth == 0)
        return false;
    while (message.len > 0) {
        if (!take_field(&message, &field))
            return false;
        for (known = form->fields; known->number && known->number != field.number;)
            known++;
        if (!known->number)
            continue;
        if (field.wire != (known->kind == ETCD_NUMBER ? WIRE_VARINT : WIRE_BYTES))
            return false;
        if (known->kind == ETCD_MESSAGE) {
            if (seen & 1u << (known - form->fields))
                return false;
            seen |= 1u << (known - form->fields);
        }
        if (known->form && !fits(field.bytes, known->form, depth - 1))
            return false;
    }
    return true;
}

bool etcd_message_fits(struct etcd_message message, const struct etcd_form *form)
{
    return message.at && fits(message, form, DEPTH_MAX);
}

int64_t etcd_number(struct etcd_message message, unsigned number)
{
    struct field field;
    uint64_t value = 0;

    while (message.len > 0 && take_field(&message, &field))
        if (field.number == number && field.wire == WIRE_VARINT)
            value = field.value;
    return (int64_t)value;
}

bool etcd_next(struct etcd_message *at, unsigned number, struct etcd_message *ret_part)
{
    struct field field;

    while (at->len > 0 && take_field(at, &field))
        if (field.number == number && field.wire == WIRE_BYTES) {
            *ret_part = field.bytes;
            return true;
        }
    at->len = 0;
    return false;
}

struct etcd_message etcd_part(struct etcd_message message, unsigned field)
{
    struct etcd_message part = { NULL, 0 }, next;

    while (etcd_next(&message, field, &next))
        part = next;
    return part;
}

size_t etcd_count(struct etcd_message message, unsigned field)
{
    struct etcd_message part;
    size_t count = 0;

    while (etcd_next(&message, field, &part))
        count++;
    return count;
}
