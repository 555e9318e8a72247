/* SPDX-License-Identifier: MIT */
/* The names in options of `run`: those of --any, and the cells of --cell. Main thread. */
#include "holdfast/primitives.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* The names of a list "a,b,c" behind those that are there, one more than may be at most. */
static void add_names(struct texts *names, const char *list)
{
    char *rest = must_strdup(list), *name;

    while (names->count <= HF_ACQUIRE_ALL_MAX && (name = strsep(&rest, ",")))
        names->items[names->count++] = name;
}

static int check_any(struct cli *cli, const struct texts *names)
{
    if (names->count > HF_ACQUIRE_ALL_MAX)
        return usage_error(cli, "--any: at most %d names", HF_ACQUIRE_ALL_MAX);
    for (size_t i = 0; i < names->count; i++) {
        if (!names->items[i][0] || strlen(names->items[i]) > HF_NAME_MAX)
            return usage_error(cli, "--any: a name has 1 to %d bytes", HF_NAME_MAX);
        for (size_t k = 0; k < i; k++)
            if (strcmp(names->items[i], names->items[k]) == 0)
                return usage_error(cli, "--any: '%s' is named twice", shown(names->items[i]));
    }
    return EXIT_FINE;
}

int run_read_any(struct cli *cli)
{
    struct args *args = &cli->args;
    struct texts given = args->any;

    if (given.count == 0)
        return EXIT_FINE;
    if (args->name)
        return usage_error(cli, "--any stands instead of NAME: '%s'", shown(args->name));
    if (args->also.count > 0)
        return usage_error(cli, "--any and --also exclude each other");
    args->any.items = must_alloc((HF_ACQUIRE_ALL_MAX + 1) * sizeof *args->any.items);
    args->any.count = 0;
    for (size_t i = 0; i < given.count && args->any.count <= HF_ACQUIRE_ALL_MAX; i++)
        add_names(&args->any, given.items[i]);
    free(given.items);
    args->name = args->any.items[0];
    return check_any(cli, &args->any);
}

bool run_bind_cells(const struct run *run, int *ret_code)
{
    const struct texts *cells = &run->cli->args.cells;
    hf_error err;

    for (size_t i = 0; run->lease && i < cells->count; i++) {
        const char *value = strchr(cells->items[i], '=') + 1;

        if (hf_lease_cell_set(run->lease, cells->items[i], (size_t)(value - 1 - cells->items[i]),
                              value, strlen(value), &err) != HF_OK) {
            *ret_code = say_failure(&err);
            return false;
        }
    }
    return true;
}
