/* SPDX-License-Identifier: MIT */
/*
 * Parses replies: hiredis finds where each item begins and ends, and we build the items in an arena
 * of our own, which is reused for the next reply. After the first replies nothing is allocated any
 * more.
 *
 * hiredis 0.14 trusts a server more than we do, so we check: the number of items of a reply (before
 * memory is allocated: CVE-2021-32765), the length of a text (when it is known, before the text has
 * arrived), that a text ends in CRLF, and the length of a line. hiredis itself limits nesting to 7.
 */
#include "engine/redis/reply.h"

#include "util/alloc.h"

#include <hiredis/read.h>

#include <string.h>

#define CHUNK_SIZE  (16 * 1024)
#define BUFFER_KEPT (64 * 1024) /* of hiredis' own input buffer, when it is empty */
#define DIGITS_MAX  20

/* A piece of the arena. The first is kept for ever, others go with the reply they were made for. */
struct chunk {
    struct chunk *next;
    size_t used, size;
    max_align_t bytes[];
};

struct hfi_reader {
    redisReader *parser;
    struct chunk *first, *last;
    bool done;     /* the reply in the arena is complete, and has been handed out */
    size_t items;  /* of this reply, in all its lists */
    size_t texts;  /* bytes of this reply, in all its texts */
    hf_status bad; /* why a create function returned NULL; HF_OK: it did not */
};

static void *make_text(const redisReadTask *task, char *bytes, size_t len);
static void *make_list(const redisReadTask *task, int count);
static void *make_integer(const redisReadTask *task, long long integer);
static void *make_nil(const redisReadTask *task);
static void forget(void *object);
static struct hfi_reply *place(struct hfi_reader *reader, const redisReadTask *task);
static void *refuse(struct hfi_reader *reader, hf_status why);
static bool beyond_bounds(const redisReader *parser);
static void *take(struct hfi_reader *reader, size_t size);
static struct chunk *add_chunk(struct hfi_reader *reader, size_t size);
static void begin(struct hfi_reader *reader);

static redisReplyObjectFunctions makers = { make_text, make_list, make_integer, make_nil, forget };

struct hfi_reader *hfi_reader_new(void)
{
    struct hfi_reader *reader = hfi_calloc(1, sizeof *reader);

    if (!reader)
        return NULL;

    reader->parser = redisReaderCreateWithFunctions(&makers);
    if (!reader->parser || !add_chunk(reader, CHUNK_SIZE)) {
        hfi_reader_free(reader);
        return NULL;
    }
    reader->parser->privdata = reader;
    reader->parser->maxbuf = BUFFER_KEPT;
    return reader;
}

void hfi_reader_free(struct hfi_reader *reader)
{
    if (!reader)
        return;
    if (reader->parser)
        redisReaderFree(reader->parser);
    while (reader->first) {
        struct chunk *next = reader->first->next;

        hfi_free(reader->first);
        reader->first = next;
    }
    hfi_free(reader);
}

bool hfi_reader_feed(struct hfi_reader *reader, const void *bytes, size_t len)
{
    /* A reader that has failed takes no more, and hfi_reader_next() returns the reason. */
    return redisReaderFeed(reader->parser, bytes, len) == REDIS_OK ||
           reader->parser->err != REDIS_ERR_OOM;
}

hf_status hfi_reader_next(struct hfi_reader *reader, const struct hfi_reply **ret_reply)
{
    void *reply = NULL;

    if (reader->done)
        begin(reader);

    if (redisReaderGetReply(reader->parser, &reply) != REDIS_OK) {
        if (reader->bad != HF_OK)
            return reader->bad;
        return reader->parser->err == REDIS_ERR_OOM ? HF_NO_MEMORY : HF_CORRUPT;
    }
    if (!reply && beyond_bounds(reader->parser))
        return HF_CORRUPT;

    reader->done = reply != NULL;
    *ret_reply = reply;
    return HF_OK;
}

/*
 * The parser holds an incomplete item whose type has been read (hiredis takes that byte by itself).
 * Is it too long? A text announces its length; anything else is one line, and lines are short.
 */
static bool beyond_bounds(const redisReader *parser)
{
    const char *item = parser->buf + parser->pos;
    size_t len = parser->len - parser->pos, size = 0;

    if (parser->ridx < 0 || parser->rstack[parser->ridx].type != REDIS_REPLY_STRING)
        return len > HFI_REPLY_LINE_MAX;

    for (size_t i = 0; i < len && item[i] >= '0' && item[i] <= '9'; i++) {
        size = size * 10 + (size_t)(item[i] - '0');
        if (i >= DIGITS_MAX || size > HFI_REPLY_TEXT_MAX)
            return true;
    }
    return len > size + DIGITS_MAX + 4;
}

/* ---- what hiredis calls ---------------------------------------------------------------------- */

static void *make_text(const redisReadTask *task, char *bytes, size_t len)
{
    struct hfi_reader *reader = task->privdata;
    struct hfi_reply *reply;
    char *copy;

    /* hiredis has checked that these two bytes exist, but for texts not their values. */
    if (memcmp(bytes + len, "\r\n", 2) != 0)
        return refuse(reader, HF_CORRUPT);
    if (len > HFI_REPLY_TEXT_MAX - reader->texts)
        return refuse(reader, HF_CORRUPT);
    reader->texts += len;

    reply = place(reader, task);
    copy = take(reader, len + 1);
    if (!reply || !copy)
        return refuse(reader, HF_NO_MEMORY);

    memcpy(copy, bytes, len);
    copy[len] = 0;
    reply->type = task->type == REDIS_REPLY_STATUS  ? HFI_REPLY_STATE
                  : task->type == REDIS_REPLY_ERROR ? HFI_REPLY_ERROR
                                                    : HFI_REPLY_TEXT;
    reply->text = copy;
    reply->len = len;
    return reply;
}

static void *make_list(const redisReadTask *task, int count)
{
    struct hfi_reader *reader = task->privdata;
    struct hfi_reply *reply, *items;

    if (count < 0 || (size_t)count > HFI_REPLY_ITEMS_MAX - reader->items)
        return refuse(reader, HF_CORRUPT);
    reader->items += (size_t)count;

    reply = place(reader, task);
    items = take(reader, (size_t)count * sizeof *items);
    if (!reply || !items)
        return refuse(reader, HF_NO_MEMORY);

    reply->type = HFI_REPLY_LIST;
    reply->items = items;
    reply->count = (size_t)count;
    return reply;
}

static void *make_integer(const redisReadTask *task, long long integer)
{
    struct hfi_reply *reply = place(task->privdata, task);

    if (!reply)
        return refuse(task->privdata, HF_NO_MEMORY);
    reply->type = HFI_REPLY_INTEGER;
    reply->integer = integer;
    return reply;
}

static void *make_nil(const redisReadTask *task)
{
    struct hfi_reply *reply = place(task->privdata, task);

    return reply ? reply : refuse(task->privdata, HF_NO_MEMORY);
}

/* Nothing to do: the arena is freed as a whole. */
static void forget(void *object)
{
    (void)object;
}

/* Memory for this item: in its list, or by itself. NULL: out of memory. */
static struct hfi_reply *place(struct hfi_reader *reader, const redisReadTask *task)
{
    struct hfi_reply *reply;

    if (task->parent) {
        const struct hfi_reply *list = task->parent->obj;

        reply = (struct hfi_reply *)&list->items[task->idx];
    } else {
        reply = take(reader, sizeof *reply);
    }
    if (reply)
        *reply = (struct hfi_reply){ .type = HFI_REPLY_NIL };
    return reply;
}

static void *refuse(struct hfi_reader *reader, hf_status why)
{
    reader->bad = why;
    return NULL;
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
    reader->items = reader->texts = 0;
    reader->done = false;
}
