/* SPDX-License-Identifier: MIT */
/* What ls, show and watch have in common: reading views of a store, and texts for them. */
#ifndef CLI_LOOK_H
#define CLI_LOOK_H

#include "json.h"
#include "store.h"

#define CELL_MAX 64

/* Open the store and check that it can be inspected. No store is created: store_look(). */
int look_open(const struct cli *cli, struct cli_store *ret_store);
/* Read the view of one name, or with `glob` of all names that match it (NULL: all). EXIT_FINE with
 * *ret_view NULL: there is no store yet, and a message said so. */
int look_view(const struct cli_store *store, const char *name, bool glob, hf_view **ret_view);
/* Does anybody hold the one name of this view, or does a lock delay keep it closed? */
bool look_is_held(const hf_view *view);
/* Nobody holds it or waits for it, and it is not closed. A semaphore whose size was set may have an entry all the same. */
bool look_is_free(const hf_view *view);

/* Waiting for changes: begin before the first view, so that a change during that view wakes us. */
struct look_changes {
    struct cli_store *store;
    bool told; /* the engine reports changes; otherwise we look again at intervals */
    uint64_t seq;
};
void look_changes_begin(struct cli_store *store, struct look_changes *ret_changes);
/* Until something in the store has changed, or it is time to look at this view's name again, but at most limit_ms. */
void look_changes_wait(struct look_changes *changes, const hf_view *view, int64_t limit_ms);

/* There is no store yet: say where it would be. EXIT_FINE. */
int look_absent(const struct cli_store *store);

/* "1/1", "3/5", "writer", "2 readers" */
char *taken_words(const hf_entry *entry, char buf[CELL_MAX]);
/* A duration, "-" if negative. */
char *duration_words(int64_t ms, char buf[CELL_MAX]);
char *token_words(uint64_t token, char buf[CELL_MAX]);
/* Safe for a terminal; a ring of static buffers big enough for names and labels. */
const char *safe(const void *bytes, size_t len);
const char *safe_label(const char *label);

#endif
