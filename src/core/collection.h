/* SPDX-License-Identifier: MIT */
/*
 * What an inspection has found so far: names and entries in growing arrays, which an engine fills through the sink. While
 * they grow nothing has a fixed address: texts are kept as offsets. In the end they become one block, the caller's view.
 *
 * A collection is filled by one op at a time, on whatever thread finishes it, and read by the task after that.
 */
#ifndef HFI_COLLECTION_H
#define HFI_COLLECTION_H

#include "engine/engine.h"

struct hfi_array {
    char *items;
    size_t count, room;
};

struct hfi_collection {
    struct hfi_sink sink; /* for the op */
    struct hfi_array names, entries, holders, waiters, texts;
    /* The filter. */
    unsigned char pattern[HF_NAME_MAX];
    uint32_t len;
    bool glob;      /* false: it is a name */
    bool contended; /* only entries with waiters */
    bool skips;     /* the current entry is filtered out */
};

/* NULL: out of memory. */
struct hfi_collection *hfi_collection_new(void);
void hfi_collection_free(struct hfi_collection *collection); /* NULL: nothing */
/* From now on keep only entries that match the pattern (or the name). */
void hfi_collection_filter(struct hfi_collection *collection, const void *pattern, uint32_t len,
                           bool glob, bool contended);

/* The op that filled it has ended. Its entries go to `to`, and it is empty again. false: out of memory. */
bool hfi_collection_move(struct hfi_collection *to, struct hfi_collection *from);

/* Each name once, in order. */
void hfi_collection_sort_names(struct hfi_collection *collection);
/* Bytes and length of a name; valid until the next change. */
const unsigned char *hfi_collection_name(const struct hfi_collection *collection, size_t index,
                                         uint32_t *ret_len);

/* One block: the view, the entries by name, the holders, the waiters, the texts. Of several entries
 * of one name the last one counts. NULL: out of memory. */
hf_view *hfi_collection_view(struct hfi_collection *collection);

#endif
