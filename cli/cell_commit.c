/* SPDX-License-Identifier: MIT */
/*
 * `holdfast cell commit ITEM...`: several cells in one step. An item is a few words:
 *
 *     put NAME VERSION VALUE      rm NAME VERSION      check NAME VERSION
 *
 * Words and no separators: a name and a value may be any bytes that a shell can pass.
 */
#include "cell.h"
#include "holdfast/primitives.h"
#include "json.h"
#include "util/text.h"
#include "value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct kind {
    const char *word;
    hf_cell_action action;
    size_t words; /* with the first */
} kinds[] = {
    { "put", HF_CELL_ACTION_WRITE, 4 },
    { "rm", HF_CELL_ACTION_DELETE, 3 },
    { "check", HF_CELL_ACTION_LEAVE, 3 },
};

/* The items, and the values that they point to. */
struct list {
    hf_cell_item items[HF_CELLS_MAX];
    struct content values[HF_CELLS_MAX];
    size_t count;
    bool stdin_read;
};

static const struct kind *find_kind(const char *word)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].word, word) == 0)
            return &kinds[i];
    return NULL;
}

static int parse_version(const struct cli *cli, const char *name, const char *text,
                         uint64_t *ret_version)
{
    const char *wrong;

    *ret_version = HF_CELL_ANY;
    if (strcmp(text, "any") == 0)
        return EXIT_FINE;
    wrong = hfi_parse_u64(text, 0, HF_CELL_ANY - 1, ret_version);
    return wrong ? usage_error(cli, "version '%s' of '%s' %s, and is not \"any\"", shown(text),
                               shown(name), wrong)
                 : EXIT_FINE;
}

static int parse_value(const struct cli *cli, struct list *list, const char *text)
{
    hf_cell_item *item = &list->items[list->count];
    struct content *value = &list->values[list->count];
    int code;

    if (strcmp(text, "-") == 0 && list->stdin_read)
        return usage_error(cli, "standard input is the value of one item only");
    list->stdin_read = list->stdin_read || strcmp(text, "-") == 0;
    code = value_read(text, HF_CELL_MAX, value);
    if (code != EXIT_FINE) {
        value->bytes = NULL;
        return code;
    }
    item->bytes = value->bytes;
    item->len = value->len;
    item->ttl_ms = cli->args.ttl_ms;
    return EXIT_FINE;
}

/* One item; `left` words are there. */
static int parse_item(const struct cli *cli, const char **words, size_t left, struct list *list,
                      size_t *ret_words)
{
    const struct kind *kind = find_kind(words[0]);
    hf_cell_item *item = &list->items[list->count];
    int code;

    if (!kind)
        return usage_error(cli, "'%s': an item begins with put, rm or check", shown(words[0]));
    if (left < kind->words)
        return usage_error(cli, "%s needs a name, a version%s", kind->word,
                           kind->action == HF_CELL_ACTION_WRITE ? " and a value" : "");
    if (list->count == HF_CELLS_MAX)
        return usage_error(cli, "at most %d items", HF_CELLS_MAX);
    *item = (hf_cell_item)HF_CELL_ITEM_INIT;
    item->name = words[1];
    item->name_len = strlen(words[1]);
    item->action = kind->action;
    code = parse_version(cli, words[1], words[2], &item->version);
    if (code == EXIT_FINE && kind->action == HF_CELL_ACTION_WRITE)
        code = parse_value(cli, list, words[3]);
    list->count += code == EXIT_FINE;
    *ret_words = kind->words;
    return code;
}

static int parse_list(const struct cli *cli, struct list *list)
{
    const struct texts *words = &cli->args.words;
    int code = EXIT_FINE;

    if (words->count == 0)
        return usage_error(
            cli, "no item: give put NAME VERSION VALUE, rm NAME VERSION, check NAME VERSION");
    for (size_t at = 0, used = 0; at < words->count && code == EXIT_FINE; at += used)
        code = parse_item(cli, words->items + at, words->count - at, list, &used);
    return code;
}

/* In the order of the items: the name, a tab and the version that it has now; "-": there is none. */
static int print_versions(const struct cli *cli, const struct list *list, const uint64_t *versions)
{
    json_t *cells = json_array(), *object;

    for (size_t i = 0; i < list->count; i++) {
        const hf_cell_item *item = &list->items[i];

        object = json_object();
        json_set_name(object, item->name, item->name_len);
        json_object_set_new(object, "version", versions[i] ? json_u64(versions[i]) : json_null());
        json_array_append_new(cells, object);
        if (cli->args.json || cli->args.quiet)
            continue;
        out_safe(item->name, item->name_len);
        if (versions[i])
            printf("\t%" PRIu64 "\n", versions[i]);
        else
            puts("\t-");
    }
    object = json_object();
    json_object_set_new(object, "cells", cells);
    if (cli->args.json)
        json_print(object, true);
    else
        json_decref(object);
    return out_finish(cli);
}

int cell_commit(struct cli *cli, struct cli_store *store)
{
    struct list list = { .count = 0 };
    uint64_t versions[HF_CELLS_MAX];
    hf_status status;
    hf_error err;
    int code = parse_list(cli, &list);

    if (code == EXIT_FINE) {
        status = hf_cells_commit(store->store, list.items, list.count, versions, NULL, &err);
        code = status == HF_OK ? print_versions(cli, &list, versions) : say_failure(&err);
    }
    for (size_t i = 0; i < HF_CELLS_MAX; i++)
        free(list.values[i].bytes);
    return code;
}
