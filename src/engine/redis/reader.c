/* SPDX-License-Identifier: MIT */
/*
 * Parses replies (RESP2) into an arena of our own, which is reused for the next reply. After the
 * first replies nothing is allocated any more.
 *
 * Input waits in one piece of memory until an item of it is complete: a line, or a text with its
 * length. Complete items go into the arena at once, so that a list of a million items is read once,
 * however it comes in pieces. Whether bytes are refused depends on these bytes only, and not on how
 * they came in pieces.
 *
 * A server is not trusted. The length of a text and the number of items of a list are checked when
 * they are announced, before memory is allocated for them.
 */
#include "engine/redis/reply.h"

#include "util/alloc.h"

#include <string.h>

#define CHUNK_SIZE  (16 * 1024)
#define INPUT_KEPT  (64 * 1024) /* of the memory for input, while there is none */
#define INPUT_FIRST 4096
#define NUMBER_MAX  20 /* characters: -9223372036854775808 */
#define DEPTH_MAX   8  /* lists in lists */

/* A piece of the arena. The first is kept for ever, others go with the reply they were made for. */
struct chunk {
    struct chunk *next;
    size_t used, size;
    max_align_t bytes[];
};

/* A list whose items are still coming. */
struct open_list {
    struct hfi_reply *items;
    size_t count, read;
};

struct hfi_reader {
    char *input; /* what has come and is not parsed yet: `len` bytes from `start` */
    size_t start, len, room;
    struct chunk *first, *last;
    struct open_list open[DEPTH_MAX];
    size_t depth;
    struct hfi_reply *root; /* NULL: nothing of the next reply is in the arena */
    size_t items;           /* of this reply, in all its lists */
    size_t texts;           /* bytes of this reply, in all its texts */
    bool done;              /* the reply in the arena is complete, and has been handed out */
    hf_status bad;          /* not HF_OK: nothing more can be read */
};

static hf_status read_item(struct hfi_reader *reader, size_t *ret_used);
static hf_status read_text(struct hfi_reader *reader, int64_t size, size_t head, size_t *ret_used);
static hf_status read_list(struct hfi_reader *reader, int64_t count);
static hf_status add_text(struct hfi_reader *reader, enum hfi_reply_type type, const char *text,
                          size_t len);
static hf_status add_item(struct hfi_reader *reader, const struct hfi_reply *item);
static const char *line_end(const char *line, const char *stop);
static bool parse_number(const char *text, size_t len, int64_t *ret_number);
static bool make_room(struct hfi_reader *reader, size_t need);
static void empty(struct hfi_reader *reader);
static void *take(struct hfi_reader *reader, size_t size);
static struct chunk *add_chunk(struct hfi_reader *reader, size_t size);
static void begin(struct hfi_reader *reader);

struct hfi_reader *hfi_reader_new(void)
{
    struct hfi_reader *reader = hfi_calloc(1, sizeof *reader);

    if (!reader)
        return NULL;
    if (!add_chunk(reader, CHUNK_SIZE)) {
        hfi_reader_free(reader);
        return NULL;
    }
    return reader;
}

void hfi_reader_free(struct hfi_reader *reader)
{
    if (!reader)
        return;
    while (reader->first) {
        struct chunk *next = reader->first->next;

        hfi_free(reader->first);
        reader->first = next;
    }
    hfi_free(reader->input);
    hfi_free(reader);
}

bool hfi_reader_feed(struct hfi_reader *reader, const void *bytes, size_t len)
{
    size_t need = reader->len + len;

    /* A reader that has failed takes no more, and hfi_reader_next() returns the reason. */
    if (reader->bad != HF_OK || len == 0)
        return true;

    if (reader->start + need > reader->room && !make_room(reader, need)) {
        reader->bad = HF_NO_MEMORY;
        return false;
    }
    memcpy(reader->input + reader->start + reader->len, bytes, len);
    reader->len = need;
    return true;
}

hf_status hfi_reader_next(struct hfi_reader *reader, const struct hfi_reply **ret_reply)
{
    if (reader->done)
        begin(reader);

    while (reader->bad == HF_OK && reader->len > 0 && !reader->done) {
        size_t used = 0;

        reader->bad = read_item(reader, &used);
        if (used == 0)
            break;
        reader->start += used;
        reader->len -= used;
        reader->done = reader->depth == 0;
    }
    if (reader->bad != HF_OK)
        return reader->bad;

    if (reader->len == 0)
        empty(reader);
    *ret_reply = reader->done ? reader->root : NULL;
    return HF_OK;
}

/* ---- items ----------------------------------------------------------------------------------- */

/* One item, or the head of a list, from the front of the input. *ret_used stays 0 if its end has not
 * come. */
static hf_status read_item(struct hfi_reader *reader, size_t *ret_used)
{
    const char *type = reader->input + reader->start, *stop = type + reader->len;
    const char *line = type + 1, *end;
    struct hfi_reply item = { .type = HFI_REPLY_INTEGER };
    size_t most, len;
    hf_status status;

    if (!memchr("+-:$*", *type, 5))
        return HF_CORRUPT;
    most = *type == '+' || *type == '-' ? HFI_REPLY_LINE_MAX : NUMBER_MAX;
    end = line_end(line, stop);
    if (!end) /* one more than the most: it may be the CR */
        return (size_t)(stop - line) > most + 1 ? HF_CORRUPT : HF_OK;
    len = (size_t)(end - line);
    if (len > most)
        return HF_CORRUPT;

    if (*type == '+')
        status = add_text(reader, HFI_REPLY_STATE, line, len);
    else if (*type == '-')
        status = add_text(reader, HFI_REPLY_ERROR, line, len);
    else if (!parse_number(line, len, &item.integer))
        return HF_CORRUPT;
    else if (*type == ':')
        status = add_item(reader, &item);
    else if (*type == '*')
        status = read_list(reader, item.integer);
    else
        return read_text(reader, item.integer, (size_t)(end + 2 - type), ret_used);

    if (status == HF_OK)
        *ret_used = (size_t)(end + 2 - type);
    return status;
}

/* A text of `size` bytes and CRLF, behind a head of `head` bytes. -1: nil, which has neither. */
static hf_status read_text(struct hfi_reader *reader, int64_t size, size_t head, size_t *ret_used)
{
    const char *text = reader->input + reader->start + head;
    static const struct hfi_reply nil = { .type = HFI_REPLY_NIL };
    size_t used = head;
    hf_status status;

    if (size < -1 || size > (int64_t)(HFI_REPLY_TEXT_MAX - reader->texts))
        return HF_CORRUPT;

    if (size == -1) {
        status = add_item(reader, &nil);
    } else {
        used += (size_t)size + 2;
        if (reader->len < used)
            return HF_OK;
        if (memcmp(text + size, "\r\n", 2) != 0)
            return HF_CORRUPT;
        status = add_text(reader, HFI_REPLY_TEXT, text, (size_t)size);
    }
    if (status == HF_OK)
        *ret_used = used;
    return status;
}

/* The head of a list. -1: nil. */
static hf_status read_list(struct hfi_reader *reader, int64_t count)
{
    struct hfi_reply list = { .type = HFI_REPLY_LIST };
    struct hfi_reply *items;
    hf_status status;

    if (count < -1 || count > (int64_t)(HFI_REPLY_ITEMS_MAX - reader->items) ||
        reader->depth == DEPTH_MAX)
        return HF_CORRUPT;

    if (count <= 0) {
        if (count < 0)
            list.type = HFI_REPLY_NIL;
        return add_item(reader, &list);
    }
    items = take(reader, (size_t)count * sizeof *items);
    if (!items)
        return HF_NO_MEMORY;
    reader->items += (size_t)count;
    list.items = items;
    list.count = (size_t)count;
    status = add_item(reader, &list);
    if (status == HF_OK)
        reader->open[reader->depth++] = (struct open_list){ .items = items, .count = list.count };
    return status;
}

static hf_status add_text(struct hfi_reader *reader, enum hfi_reply_type type, const char *text,
                          size_t len)
{
    struct hfi_reply item = { .type = type, .len = len };
    char *copy;

    if (len > HFI_REPLY_TEXT_MAX - reader->texts)
        return HF_CORRUPT;
    reader->texts += len;

    copy = take(reader, len + 1);
    if (!copy)
        return HF_NO_MEMORY;
    memcpy(copy, text, len);
    copy[len] = 0;
    item.text = copy;
    return add_item(reader, &item);
}

/* Into the list that it belongs to, or by itself. Lists that end with it are closed, unless it is a
 * list with items of its own, which has to be opened. */
static hf_status add_item(struct hfi_reader *reader, const struct hfi_reply *item)
{
    struct open_list *list = reader->open + reader->depth;

    if (reader->depth == 0) {
        reader->root = take(reader, sizeof *reader->root);
        if (!reader->root)
            return HF_NO_MEMORY;
        *reader->root = *item;
        return HF_OK;
    }
    list[-1].items[list[-1].read++] = *item;
    while (item->count == 0 && reader->depth > 0 &&
           reader->open[reader->depth - 1].read == reader->open[reader->depth - 1].count)
        reader->depth--;
    return HF_OK;
}

/* The CRLF that ends a line; one of these two alone belongs to the line. NULL: it has not come. */
static const char *line_end(const char *line, const char *stop)
{
    for (const char *at = line; at < stop; at++) {
        at = memchr(at, '\n', (size_t)(stop - at));
        if (!at)
            return NULL;
        if (at > line && at[-1] == '\r')
            return at - 1;
    }
    return NULL;
}

/* Decimal, as a server writes it: no plus sign, no zeros in front. */
static bool parse_number(const char *text, size_t len, int64_t *ret_number)
{
    bool minus = len > 0 && *text == '-';
    uint64_t most = minus ? (uint64_t)INT64_MAX + 1 : INT64_MAX, number = 0;
    size_t at = minus ? 1 : 0;

    if (at == len || (text[at] == '0' && len > 1))
        return false;
    for (; at < len; at++) {
        uint64_t digit = (uint64_t)(unsigned char)text[at] - '0';

        if (digit > 9 || number > (most - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *ret_number = (int64_t)(minus ? 0 - number : number);
    return true;
}

/* ---- the input ------------------------------------------------------------------------------- */

/* Room for `need` bytes from the start on, those that are there included. */
static bool make_room(struct hfi_reader *reader, size_t need)
{
    size_t room = need <= INPUT_FIRST ? INPUT_FIRST : need + need / 2;
    char *larger;

    /* Moving to the front costs no more than what has been read since the last time. */
    if (need <= reader->room && reader->start >= reader->len) {
        memmove(reader->input, reader->input + reader->start, reader->len);
        reader->start = 0;
        return true;
    }
    larger = hfi_malloc(room);
    if (!larger)
        return false;
    if (reader->len > 0)
        memcpy(larger, reader->input + reader->start, reader->len);
    hfi_free(reader->input);
    reader->input = larger;
    reader->start = 0;
    reader->room = room;
    return true;
}

static void empty(struct hfi_reader *reader)
{
    reader->start = 0;
    if (reader->room <= INPUT_KEPT)
        return;
    hfi_free(reader->input);
    reader->input = NULL;
    reader->room = 0;
}

/* ---- the arena ------------------------------------------------------------------------------- */

static void *take(struct hfi_reader *reader, size_t size)
{
    struct chunk *chunk = reader->last;
    void *memory;

    size = (size + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
    if (size > chunk->size - chunk->used) {
        chunk = add_chunk(reader, size > CHUNK_SIZE ? size : CHUNK_SIZE);
        if (!chunk)
            return NULL;
    }
    memory = (char *)chunk->bytes + chunk->used;
    chunk->used += size;
    return memory;
}

static struct chunk *add_chunk(struct hfi_reader *reader, size_t size)
{
    struct chunk *chunk = hfi_malloc(sizeof *chunk + size);

    if (!chunk)
        return NULL;
    chunk->next = NULL;
    chunk->used = 0;
    chunk->size = size;
    if (reader->last)
        reader->last->next = chunk;
    else
        reader->first = chunk;
    reader->last = chunk;
    return chunk;
}

static void begin(struct hfi_reader *reader)
{
    while (reader->first->next) {
        struct chunk *next = reader->first->next;

        reader->first->next = next->next;
        hfi_free(next);
    }
    reader->last = reader->first;
    reader->first->used = 0;
    reader->root = NULL;
    reader->items = reader->texts = 0;
    reader->done = false;
}
