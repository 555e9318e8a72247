/* SPDX-License-Identifier: MIT */
/*
 * Replies (RESP2), parsed into an arena that is reused for the next reply: a reply is valid only
 * during the callback that gets it. Lengths, nesting and sizes that no valid reply can have are
 * refused (HFI_REPLY_*_MAX) before memory is spent on them.
 */
#ifndef HFI_REDIS_REPLY_H
#define HFI_REDIS_REPLY_H

#include "holdfast/holdfast.h"

#include <stdbool.h>

#define HFI_REPLY_ITEMS_MAX (1u << 20)  /* in all lists of one reply */
#define HFI_REPLY_TEXT_MAX  (64u << 20) /* bytes in all texts of one reply */
#define HFI_REPLY_LINE_MAX  (64u << 10) /* of an error or a simple string */

enum hfi_reply_type {
    HFI_REPLY_NIL,
    HFI_REPLY_INTEGER,
    HFI_REPLY_TEXT,  /* bulk: any bytes, NUL-terminated beyond len */
    HFI_REPLY_STATE, /* simple string: OK, QUEUED, PONG */
    HFI_REPLY_ERROR, /* "NOSCRIPT No matching..." */
    HFI_REPLY_LIST
};

struct hfi_reply {
    enum hfi_reply_type type;
    int64_t integer;
    const char *text;
    size_t len;
    const struct hfi_reply *items;
    size_t count;
};

/* Item `index` of a list, if it has the type; else NULL. Also for reply == NULL. */
const struct hfi_reply *hfi_reply_at(const struct hfi_reply *reply, size_t index,
                                     enum hfi_reply_type type);
/* The number at `index` of a list; -1: there is none. */
static inline int64_t hfi_reply_int_at(const struct hfi_reply *reply, size_t index)
{
    const struct hfi_reply *item = hfi_reply_at(reply, index, HFI_REPLY_INTEGER);

    return item ? item->integer : -1;
}
/* `count` numbers of a list, from `index` on, each from 0 to most[i]. false: it has others. */
bool hfi_reply_numbers(const struct hfi_reply *reply, size_t index, size_t count,
                       const int64_t *most, int64_t *ret_numbers);
/* The letter with which a scripted reply begins; 0: it is not one of ours. */
char hfi_reply_letter(const struct hfi_reply *reply);
bool hfi_reply_is_error(const struct hfi_reply *reply, const char *code); /* "READONLY" */
/* The server does not have the script. Only the server's own text counts: a script that returns
 * such an error has run. */
bool hfi_reply_is_noscript(const struct hfi_reply *reply);

/*
 * What an error reply means for the caller:
 *   NOSCRIPT, MOVED, ASK, TRYAGAIN   handled before anybody asks this
 *   NOAUTH WRONGPASS NOPERM          HF_DENIED
 *   READONLY MASTERDOWN CLUSTERDOWN LOADING MISCONF BUSY UNKILLABLE NOREPLICAS  HF_UNAVAILABLE
 *   OOM                              HF_FULL
 *   WRONGTYPE                        HF_MISMATCH (a key of another kind has this name)
 *   unknown command, wrong arity     HF_VERSION
 *   by another version of Holdfast   HF_VERSION (a script of ours, of a name's state)
 *   INCRBY: overflow, not a number   HF_OVERFLOW, HF_MISMATCH
 *   else                             HF_CORRUPT
 * `ret_outcome_known`: the server certainly did not do it (all but a script that failed half way).
 * The text is the server's, cut and cleaned of control characters, prefixed by its code.
 */
hf_status hfi_reply_status(const struct hfi_reply *reply, hf_error *err);

struct hfi_reader;
struct hfi_reader *hfi_reader_new(void);
void hfi_reader_free(struct hfi_reader *reader);
/* false: out of memory. */
bool hfi_reader_feed(struct hfi_reader *reader, const void *bytes, size_t len);
/* HF_OK and *ret_reply (NULL: more bytes are needed); HF_CORRUPT: not RESP, or beyond a bound;
 * HF_NO_MEMORY. After anything but HF_OK the connection cannot be used any more. */
hf_status hfi_reader_next(struct hfi_reader *reader, const struct hfi_reply **ret_reply);

#endif
