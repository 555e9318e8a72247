/* SPDX-License-Identifier: MIT */
/* `holdfast ls [GLOB]`: one line for every name that is held or waited for. */
#include "grid.h"
#include "look.h"
#include "table.h"

#include <inttypes.h>
#include <string.h>

static void print_json(const struct cli_store *store, const hf_view *view)
{
    json_t *object = json_object();
    json_t *names = json_array();

    for (size_t i = 0; view && i < hf_view_count(view); i++)
        json_array_append_new(names,
                              json_entry(hf_view_entry(view, i), hf_view_waiters_tracked(view)));
    json_object_set_new(object, "store",
                        json_text(store->info.location, strlen(store->info.location)));
    json_object_set_new(object, "engine", json_string(store->info.engine));
    json_object_set_new(object, "waiters_tracked",
                        json_boolean(view && hf_view_waiters_tracked(view)));
    json_object_set_new(object, "names", names);
    json_print(object, true);
}

static void print_names(const hf_view *view)
{
    for (size_t i = 0; i < hf_view_count(view); i++)
        puts(safe(hf_view_entry(view, i)->name, hf_view_entry(view, i)->name_len));
}

/* For programs. A name with a NUL in it is left out: no command line could give it back to us. */
static void print_raw_names(const hf_view *view)
{
    for (size_t i = 0; i < hf_view_count(view); i++)
        if (!memchr(hf_view_entry(view, i)->name, 0, hf_view_entry(view, i)->name_len)) {
            fwrite(hf_view_entry(view, i)->name, 1, hf_view_entry(view, i)->name_len, stdout);
            putchar(0);
        }
}

static void add_entry(struct grid *grid, const hf_entry *entry, bool tracked)
{
    const hf_holder *oldest = NULL;
    char taken[CELL_MAX], waiters[CELL_MAX], age[CELL_MAX], ttl[CELL_MAX], token[CELL_MAX];
    char holder[600];

    for (size_t i = 0; i < entry->holder_count; i++)
        if (!oldest || hf_entry_holder(entry, i)->age_ms > oldest->age_ms)
            oldest = hf_entry_holder(entry, i);

    if (tracked)
        snprintf(waiters, sizeof waiters, "%zu", entry->waiter_count);
    else
        strcpy(waiters, "?");
    if (!oldest)
        snprintf(holder, sizeof holder, "%s",
                 entry->closed_ms > 0 ? "(closed by a lock delay)" : "-");
    else if (entry->holder_count == 1)
        snprintf(holder, sizeof holder, "%s", safe_label(oldest->label));
    else
        snprintf(holder, sizeof holder, "%s (and %zu more)", safe_label(oldest->label),
                 entry->holder_count - 1);

    taken_words(entry, taken);
    if (entry->resized)
        strcat(taken, " (set)");
    grid_row(grid, safe(entry->name, entry->name_len), kind_word(entry->kind), taken, waiters,
             duration_words(oldest ? oldest->age_ms : -1, age),
             duration_words(oldest ? oldest->ttl_ms : -1, ttl),
             token_words(oldest ? oldest->token : 0, token), holder);
}

static void print_table(const struct cli *cli, const hf_view *view)
{
    struct grid grid;

    grid_begin(&grid, "NAME", "KIND", "TAKEN", "WAITERS", "AGE", "TTL", "TOKEN", "HOLDER", NULL);
    for (size_t i = 0; i < hf_view_count(view); i++)
        add_entry(&grid, hf_view_entry(view, i), hf_view_waiters_tracked(view));
    grid_end(&grid, cli);
    if (!hf_view_waiters_tracked(view))
        say_more(cli, "this engine does not track waiters");
}

int verb_ls(struct cli *cli)
{
    struct cli_store store;
    hf_view *view = NULL;
    int code = look_open(cli, &store);

    if (code != EXIT_FINE)
        return code;

    code = look_view(&store, cli->args.name, true, &view);
    if (code == EXIT_FINE) {
        if (cli->args.json)
            print_json(&store, view);
        else if (view && cli->args.names_raw)
            print_raw_names(view);
        else if (view && cli->args.names_only)
            print_names(view);
        else if (view)
            print_table(cli, view);
        hf_free(view);
        code = out_finish(cli);
    }
    store_close(&store);
    return code;
}
