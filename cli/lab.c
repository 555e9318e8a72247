/* SPDX-License-Identifier: MIT */
/* `holdfast lab [NAME]`: a program of its own, holdfast-lab. Without -S it starts servers: the default store is none to experiment on. */
#include "cli.h"
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRAM   "holdfast-lab"
#define ARGUMENTS 20

struct list {
    char *items[ARGUMENTS + 1];
    size_t count;
};

static void add(struct list *list, const char *option, const char *value)
{
    list->items[list->count++] = (char *)(uintptr_t)option;
    if (value)
        list->items[list->count++] = (char *)(uintptr_t)value;
}

const char *lang_of_environment(void)
{
    static const char *const variables[] = { "LC_ALL", "LC_MESSAGES", "LANG" };

    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);

        if (value && *value)
            return value;
    }
    return "";
}

/* In the language of messages, as the environment says. */
static const char *lang(const struct args *args)
{
    if (args->lang >= 0)
        return args->lang == 1 ? "zh" : "en";
    return strncmp(lang_of_environment(), "zh", 2) == 0 ? "zh" : "en";
}

/* An experiment takes seconds: what cannot be written is said before. Nothing is created yet. */
static int check_file(const char *path)
{
    struct stat file;
    char *copy;
    bool good;

    if (!path)
        return EXIT_FINE;
    if (stat(path, &file) == 0) {
        good = !S_ISDIR(file.st_mode) && access(path, W_OK) == 0;
        if (S_ISDIR(file.st_mode))
            errno = EISDIR;
    } else {
        copy = must_strdup(path);
        good = errno == ENOENT && access(dirname(copy), W_OK | X_OK) == 0;
        free(copy);
    }
    if (good)
        return EXIT_FINE;
    say_error("cannot write %s: %s", shown(path), strerror(errno));
    return EXIT_OUTPUT;
}

static int check(const struct cli *cli)
{
    const struct args *args = &cli->args;
    bool listed = !args->name && !args->gallery;
    int code;

    if (args->name && args->gallery)
        return usage_error(cli, "--all runs every experiment; it goes without a name");
    if (args->gallery && (args->svg || args->html || args->code || args->json))
        return usage_error(cli,
                           "--all writes files of its own; no --svg, --html, --code or --json");
    if (listed && (args->svg || args->html || args->code || args->repeat > 0 || args->store))
        return usage_error(cli, "no experiment: `holdfast lab` lists them");
    code = check_file(args->svg);
    return code == EXIT_FINE ? check_file(args->html) : code;
}

int verb_lab(struct cli *cli)
{
    const struct args *args = &cli->args;
    struct list list = { .count = 0 };
    char repeat[24];
    int code;

    if (cli->stdout_closed)
        return out_finish(cli);
    code = check(cli);
    if (code != EXIT_FINE)
        return code;
    if (!args->store)
        add(&list, PROGRAM, NULL); /* else program_see() does */
    add(&list, "--lang", lang(args));
    snprintf(repeat, sizeof repeat, "%" PRId64, args->repeat);
    if (args->repeat > 0)
        add(&list, "--repeat", repeat);
    if (args->svg)
        add(&list, "--svg", args->svg);
    if (args->html)
        add(&list, "--html", args->html);
    if (args->code)
        add(&list, "--code", NULL);
    if (args->json)
        add(&list, "--json", NULL);
    if (args->color != COLOR_AUTO)
        add(&list, args->color == COLOR_NEVER ? "--plain" : "--colored", NULL);
    if (args->gallery)
        add(&list, "--all", args->gallery);
    else
        add(&list, args->name ? args->name : "--list", NULL);
    if (args->store)
        return program_see(cli, PROGRAM, list.items);
    program_execute(PROGRAM, list.items);
    return program_missing(PROGRAM);
}
