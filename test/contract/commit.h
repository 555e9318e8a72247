/* SPDX-License-Identifier: MIT */
/* Lists of cells, for the group `commit`: its rules are in commit.c, what clients do to each other in commit_crowd.c. */
#ifndef CONTRACT_COMMIT_H
#define CONTRACT_COMMIT_H

#include "both.h"

#include "calls.h"

#include <string.h>

static inline hf_cell_item item(const char *name, uint64_t version, hf_cell_action action,
                                const char *text)
{
    hf_cell_item made = HF_CELL_ITEM_INIT;

    made.name = name;
    made.name_len = HF_CSTRING;
    made.version = version;
    made.action = action;
    made.bytes = text;
    made.len = text ? strlen(text) : 0;
    return made;
}

#define WRITE(name, version, text) item(name, version, HF_CELL_ACTION_WRITE, text)
#define ASSERT(name, version)      item(name, version, HF_CELL_ACTION_LEAVE, NULL)
#define REMOVE(name, version)      item(name, version, HF_CELL_ACTION_DELETE, NULL)

#define COMMIT(store, versions, index, ...)                                               \
    hf_cells_commit(store, (const hf_cell_item[]){ __VA_ARGS__ },                         \
                    sizeof((const hf_cell_item[]){ __VA_ARGS__ }) / sizeof(hf_cell_item), \
                    versions, index, &contract_error)

/* What is there; returns its version. NULL: nothing may be. */
static inline uint64_t expect_text(hf_store *store, const char *name, const char *text)
{
    hf_cell cell = HF_CELL_INIT;

    EXPECT(text ? HF_OK : HF_NOT_FOUND,
           hf_cell_get(store, name, HF_CSTRING, &cell, &contract_error));
    if (!text)
        return 0;
    CHECK(cell.len == strlen(text) && strcmp(cell.bytes, text) == 0);
    hf_free(cell.bytes);
    return cell.version;
}

/* commit_crowd.c */
void the_sum_is_never_broken(void **state);
void no_write_of_a_long_list_is_lost(void **state);
void one_of_two_is_on(void **state);
void any_version_is_one_step_too(void **state);

#endif
