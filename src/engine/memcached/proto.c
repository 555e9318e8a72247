/* SPDX-License-Identifier: MIT */
/* memcached's text protocol, read. Pure; see proto.h. */
#include "engine/memcached/proto.h"

#include <string.h>

struct word {
    const char *text;
    size_t len;
};

/* The first words of a line. `flags`: words of a letter and a value may follow; `rest`: any text
 * may follow; otherwise nothing may. */
static const struct form {
    const char *word;
    enum memcached_kind kind;
    bool flags, rest;
} forms[] = {
    { "HD", MEMCACHED_HD, true, false },
    { "VA", MEMCACHED_VA, true, false },
    { "EN", MEMCACHED_EN, true, false },
    { "NS", MEMCACHED_NS, true, false },
    { "EX", MEMCACHED_EX, true, false },
    { "NF", MEMCACHED_NF, true, false },
    { "MN", MEMCACHED_MN, false, false },
    { "SERVER_ERROR", MEMCACHED_ERROR, false, true },
    { "CLIENT_ERROR", MEMCACHED_REFUSED, false, true },
    { "ERROR", MEMCACHED_REFUSED, false, true },
    { "STORED", MEMCACHED_STORED, false, false },
    { "VERSION", MEMCACHED_VERSION, false, true },
    { "STAT", MEMCACHED_STAT, false, true },
    { "END", MEMCACHED_END, false, false },
    { "BUSY", MEMCACHED_BUSY, false, true },
};
#define FORM_COUNT (sizeof forms / sizeof *forms)

static const struct form *find_form(struct word word);
static struct word next_word(const char **at, const char *end);
static bool take_flags(const char *at, const char *end, struct memcached_reply *reply);
static enum memcached_result take_value(const char *bytes, size_t len, const char *at,
                                        const char *end, struct memcached_reply *reply,
                                        size_t *ret_used);

enum memcached_result memcached_parse(const char *bytes, size_t len,
                                      struct memcached_reply *ret_reply, size_t *ret_used)
{
    const char *newline = memchr(bytes, '\n', len < MEMCACHED_LINE_MAX ? len : MEMCACHED_LINE_MAX);
    const char *end, *at = bytes;
    const struct form *form;

    if (!newline)
        return len < MEMCACHED_LINE_MAX ? MEMCACHED_MORE : MEMCACHED_BAD;
    *ret_reply = (struct memcached_reply){ .kind = MEMCACHED_DUMPED };
    *ret_used = (size_t)(newline - bytes) + 1;

    /* The lines of a dump are the only ones that end without a carriage return. */
    if (newline - bytes > 4 && memcmp(bytes, "key=", 4) == 0) {
        ret_reply->text = bytes;
        ret_reply->len = (size_t)(newline - bytes) - (newline[-1] == '\r');
        return MEMCACHED_DONE;
    }
    if (newline == bytes || newline[-1] != '\r')
        return MEMCACHED_BAD;
    end = newline - 1;
    form = find_form(next_word(&at, end));
    if (!form)
        return MEMCACHED_BAD;
    ret_reply->kind = form->kind;
    if (form->kind == MEMCACHED_VA)
        return take_value(bytes, len, at, end, ret_reply, ret_used);
    if (form->flags)
        return take_flags(at, end, ret_reply) ? MEMCACHED_DONE : MEMCACHED_BAD;
    if (at < end && !form->rest)
        return MEMCACHED_BAD;
    if (at < end)
        at++; /* the space */
    ret_reply->text = at;
    ret_reply->len = (size_t)(end - at);
    return MEMCACHED_DONE;
}

static const struct form *find_form(struct word word)
{
    for (size_t i = 0; i < FORM_COUNT; i++)
        if (strlen(forms[i].word) == word.len && memcmp(forms[i].word, word.text, word.len) == 0)
            return &forms[i];
    return NULL;
}

/* The word at *at, up to a space; *at is then at that space, or at the end. */
static struct word next_word(const char **at, const char *end)
{
    const char *from = *at;
    const char *space = from < end ? memchr(from, ' ', (size_t)(end - from)) : NULL;

    *at = space ? space : end;
    return (struct word){ .text = from, .len = (size_t)(*at - from) };
}

bool memcached_number(const char *text, size_t len, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (len == 0 || len > 20)
        return false;
    for (size_t i = 0; i < len; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');

        if (text[i] < '0' || text[i] > '9' || value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret_value = value;
    return true;
}

/* Read one flag that we may have asked for. Others are ignored. */
static bool take_flag(struct word word, struct memcached_reply *reply)
{
    uint64_t ttl_s = 0, flags = 0;

    switch (word.text[0]) {
    case 'c':
        reply->has_cas = true;
        return memcached_number(word.text + 1, word.len - 1, UINT64_MAX, &reply->cas);
    case 't':
        reply->has_ttl = true;
        reply->ttl_s = -1;
        if (word.len == 3 && memcmp(word.text, "t-1", 3) == 0)
            return true;
        if (!memcached_number(word.text + 1, word.len - 1, INT32_MAX, &ttl_s))
            return false;
        reply->ttl_s = (int64_t)ttl_s;
        return true;
    case 'O':
        reply->has_opaque = true;
        return memcached_number(word.text + 1, word.len - 1, UINT64_MAX, &reply->opaque);
    case 'f':
        if (!memcached_number(word.text + 1, word.len - 1, UINT32_MAX, &flags))
            return false;
        reply->flags = (uint32_t)flags;
        return true;
    case 'X':
        reply->stale = true;
        return word.len == 1;
    default:
        return (word.text[0] >= 'a' && word.text[0] <= 'z') ||
               (word.text[0] >= 'A' && word.text[0] <= 'Z');
    }
}

static bool take_flags(const char *at, const char *end, struct memcached_reply *reply)
{
    while (at < end) {
        struct word word;

        at++; /* the space */
        word = next_word(&at, end);
        if (word.len == 0 && at == end)
            return true; /* "HD \r\n": a space before nothing is harmless, and has been seen */
        if (word.len == 0 || !take_flag(word, reply))
            return false;
    }
    return true;
}

/* "VA <size> <flags>\r\n<bytes>\r\n" */
static enum memcached_result take_value(const char *bytes, size_t len, const char *at,
                                        const char *end, struct memcached_reply *reply,
                                        size_t *ret_used)
{
    size_t line = *ret_used;
    struct word word;
    uint64_t size;

    if (at == end)
        return MEMCACHED_BAD;
    at++;
    word = next_word(&at, end);
    if (!memcached_number(word.text, word.len, MEMCACHED_VALUE_MAX, &size) ||
        !take_flags(at, end, reply))
        return MEMCACHED_BAD;
    if (len - line < size + 2)
        return MEMCACHED_MORE;
    if (memcmp(bytes + line + size, "\r\n", 2) != 0)
        return MEMCACHED_BAD;
    reply->text = bytes + line;
    reply->len = (size_t)size;
    *ret_used = line + (size_t)size + 2;
    return MEMCACHED_DONE;
}
