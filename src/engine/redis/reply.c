/* SPDX-License-Identifier: MIT */
/*
 * What replies mean. Pure: no connection, no clock, no heap.
 */
#include "engine/redis/reply.h"

#include "util/error.h"

#include <string.h>

#define SHOWN_MAX 200 /* of a server's own words */

/* The error codes that we interpret. All others are "ERR", or unexpected. */
static const struct {
    const char *code;
    hf_status status;
} codes[] = {
    { "NOAUTH", HF_DENIED },
    { "WRONGPASS", HF_DENIED },
    { "NOPERM", HF_DENIED },
    { "DENIED", HF_DENIED }, /* protected mode */
    { "READONLY", HF_UNAVAILABLE },
    { "MASTERDOWN", HF_UNAVAILABLE },
    { "CLUSTERDOWN", HF_UNAVAILABLE },
    { "LOADING", HF_UNAVAILABLE },
    { "MISCONF", HF_UNAVAILABLE },
    { "BUSY", HF_UNAVAILABLE },
    { "UNKILLABLE", HF_UNAVAILABLE },
    { "NOREPLICAS", HF_UNAVAILABLE },
    { "UNBLOCKED", HF_UNAVAILABLE }, /* it has just become a replica */
    { "NOSCRIPT", HF_UNAVAILABLE },
    { "MOVED", HF_UNAVAILABLE },
    { "ASK", HF_UNAVAILABLE },
    { "TRYAGAIN", HF_UNAVAILABLE },
    { "OOM", HF_FULL },
    { "WRONGTYPE", HF_MISMATCH },
};

/* A piece of a server's text. */
struct words {
    const char *text;
    size_t len;
};

/* Errors with the plain code "ERR", by the text that follows. */
static const struct {
    const char *words;
    hf_status status;
} plain[] = {
    { "unknown command", HF_VERSION },
    { "unknown subcommand", HF_VERSION },
    { "Unknown subcommand", HF_VERSION },
    { "wrong number of arguments", HF_VERSION },
    { "Unknown Redis command", HF_VERSION },          /* the same, when a script calls */
    { "by another version of Holdfast", HF_VERSION }, /* our scripts: said before they write */
    { "Wrong number of args", HF_VERSION },
    { "The user executing the script can't", HF_DENIED }, /* NOPERM, likewise */
    { "max number of clients", HF_UNAVAILABLE },
    { "Error writing to the AOF", HF_UNAVAILABLE },
    { "increment or decrement would overflow", HF_OVERFLOW },
    { "value is not an integer or out of range", HF_MISMATCH }, /* what INCRBY is to count up */
};

static hf_status plain_status(struct words words);
static struct words innermost(const struct hfi_reply *reply);
static void clean(struct words words, char *ret_text, size_t size);
static bool has_code(struct words words, const char *code);

const struct hfi_reply *hfi_reply_at(const struct hfi_reply *reply, size_t index,
                                     enum hfi_reply_type type)
{
    if (!reply || reply->type != HFI_REPLY_LIST || index >= reply->count ||
        reply->items[index].type != type)
        return NULL;
    return &reply->items[index];
}

bool hfi_reply_numbers(const struct hfi_reply *reply, size_t index, size_t count,
                       const int64_t *most, int64_t *ret_numbers)
{
    for (size_t i = 0; i < count; i++) {
        const struct hfi_reply *item = hfi_reply_at(reply, index + i, HFI_REPLY_INTEGER);

        if (!item || item->integer < 0 || item->integer > most[i])
            return false;
        ret_numbers[i] = item->integer;
    }
    return true;
}

char hfi_reply_letter(const struct hfi_reply *reply)
{
    const struct hfi_reply *first = hfi_reply_at(reply, 0, HFI_REPLY_TEXT);

    return first && first->len == 1 ? first->text[0] : 0;
}

bool hfi_reply_is_noscript(const struct hfi_reply *reply)
{
    static const char words[] = "NOSCRIPT No matching script";

    return reply->type == HFI_REPLY_ERROR && reply->len >= sizeof words - 1 &&
           memcmp(reply->text, words, sizeof words - 1) == 0;
}

bool hfi_reply_is_error(const struct hfi_reply *reply, const char *code)
{
    return reply && reply->type == HFI_REPLY_ERROR &&
           has_code((struct words){ reply->text, reply->len }, code);
}

hf_status hfi_reply_status(const struct hfi_reply *reply, hf_error *err)
{
    char shown[SHOWN_MAX];
    struct words words;
    hf_status status;

    if (!reply || reply->type != HFI_REPLY_ERROR)
        return hfi_error_set(err, HF_CORRUPT, 0, "a reply of an unexpected form");

    words = innermost(reply);
    status = plain_status(words);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (has_code(words, codes[i].code))
            status = codes[i].status;

    clean(words, shown, sizeof shown);
    return hfi_error_set(err, status, 0, "%s", shown);
}

static bool has_code(struct words words, const char *code)
{
    size_t len = strlen(code);

    return words.len >= len && memcmp(words.text, code, len) == 0 &&
           (words.len == len || words.text[len] == ' ');
}

static hf_status plain_status(struct words words)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (memmem(words.text, words.len, plain[i].words, strlen(plain[i].words)))
            return plain[i].status;
    return HF_CORRUPT;
}

/*
 * Redis 7 answers a script whose command failed with that command's error. Redis 6.2 wraps it:
 * "ERR Error running script (call to f_6b1b...): @user_script:12: OOM command not allowed...".
 * The last position in a script that is named is directly before the text that we want.
 */
static struct words innermost(const struct hfi_reply *reply)
{
    static const char wrapped[] = "ERR Error running script", place[] = "@user_script:";
    struct words words = { reply->text, reply->len };
    const char *at;

    if (words.len < sizeof wrapped || memcmp(words.text, wrapped, sizeof wrapped - 1) != 0)
        return words;
    while ((at = memmem(words.text, words.len, place, sizeof place - 1))) {
        at += sizeof place - 1;
        while (at < reply->text + reply->len && strchr("0123456789: -", *at))
            at++;
        words = (struct words){ at, reply->len - (size_t)(at - reply->text) };
    }
    return words;
}

/*
 * The server's text for people: one line of limited length. "unknown command" quotes the arguments,
 * which may be names or passwords: that part is cut off.
 */
static void clean(struct words words, char *ret_text, size_t size)
{
    static const char quoted[] = ", with args beginning with:";
    const char *args = memmem(words.text, words.len, quoted, sizeof quoted - 1);
    size_t len = args ? (size_t)(args - words.text) : words.len;
    bool cut = len > size - 1;

    if (cut)
        len = size - sizeof "...";
    while (cut && len > 0 && ((unsigned char)words.text[len] & 0xc0) == 0x80)
        len--; /* not half a character */
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)words.text[i];

        ret_text[i] = (char)(c < 0x20 || c == 0x7f ? ' ' : c);
    }
    ret_text[len] = 0;
    if (cut)
        memcpy(ret_text + len, "...", sizeof "...");
}
