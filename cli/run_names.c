/* SPDX-License-Identifier: MIT */
/* The names in options of `run`: those of --any, and the cells of --cell. Main thread. */
#include "holdfast/primitives.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

int run_read_any(struct cli *cli)
{
    struct args *args = &cli->args;
    struct texts *any = &args->any, names = { NULL, 0 };

    if (any->count == 0)
        return EXIT_FINE;
    if (args->name)
        return usage_error(cli, "--any stands instead of NAME: '%s'", shown(args->name));
    if (args->also.count > 0)
        return usage_error(cli, "--any and --also exclude each other");
    names.items = must_alloc(HF_ACQUIRE_ALL_MAX * sizeof *names.items);
    for (size_t i = 0; i < any->count; i++) {
        char *rest = must_strdup(any->items[i]), *name;

        while ((name = strsep(&rest, ","))) {
            if (!name[0] || strlen(name) > HF_NAME_MAX)
                return usage_error(cli, "--any: a name has 1 to %d bytes", HF_NAME_MAX);
            for (size_t k = 0; k < names.count; k++)
                if (strcmp(name, names.items[k]) == 0)
                    return usage_error(cli, "--any: '%s' is named twice", shown(name));
            if (names.count == HF_ACQUIRE_ALL_MAX)
                return usage_error(cli, "--any: at most %d names", HF_ACQUIRE_ALL_MAX);
            names.items[names.count++] = name;
        }
    }
    free(any->items);
    *any = names;
    args->name = names.items[0];
    return EXIT_FINE;
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
