/* SPDX-License-Identifier: MIT */
/* `holdfast serve`: a program of its own, holdfast-serve. */
#include "cli.h"
#include "table.h"

#include <inttypes.h>
#include <stdlib.h>

struct list {
    char **items;
    size_t count;
};

static void add(struct list *list, const char *option, const char *value)
{
    list->items[list->count++] = must_strdup(option);
    if (value)
        list->items[list->count++] = must_strdup(value);
}

static void add_text(struct list *list, const char *option, const char *value)
{
    if (value)
        add(list, option, value);
}

static void add_number(struct list *list, const char *option, int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, value);
    if (value >= 0)
        add(list, option, text);
}

int verb_serve(struct cli *cli)
{
    const struct args *args = &cli->args;
    struct list list = { .count = 0 };
    int code;

    list.items = must_alloc((20 + 2 * args->hosts.count) * sizeof *list.items);
    add_text(&list, "--listen", args->listen);
    add_text(&list, "--tokens", args->tokens);
    add_text(&list, "--cert", args->cert);
    add_text(&list, "--key", args->key);
    for (size_t i = 0; i < args->hosts.count; i++)
        add(&list, "--host", args->hosts.items[i]);
    if (args->allow_insecure)
        add(&list, "--allow-insecure", NULL);
    add_number(&list, "--connections", args->connections);
    add_number(&list, "--leases", args->leases);
    add_number(&list, "--metrics-names", args->metrics_names);
    list.items[list.count] = NULL;
    code = program_see(cli, "holdfast-serve", list.items);
    for (size_t i = 0; i < list.count; i++)
        free(list.items[i]);
    free(list.items);
    return code;
}
