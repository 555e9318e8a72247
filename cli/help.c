/* SPDX-License-Identifier: MIT */
/* Help, printed from the table. */
#include "table.h"
#include "wrap.h"

#include <stdlib.h>
#include <string.h>

#define MARGIN          28 /* where the texts of options begin */
#define COLUMNS_DEFAULT 80 /* without a terminal */
#define COLUMNS_MAX     100

static void print_option(FILE *to, const struct option_def *option)
{
    char left[80];
    const char *join = option->value == VALUE_CHOICE ? "=" : " ";
    char letter[] = { '-', option->letter, ',', ' ', 0 };

    snprintf(left, sizeof left, "  %s--%s%s%s", option->letter ? letter : "    ", option->name,
             option->what ? join : "", option->what ? option->what : "");
    if (strlen(left) >= MARGIN)
        fprintf(to, "%s\n%*s%s\n", left, MARGIN, "", option->help);
    else
        fprintf(to, "%-*s%s\n", MARGIN, left, option->help);
}

static void print_options(FILE *to, const char *title, const struct option_def *options,
                          size_t count)
{
    if (count == 0)
        return;
    fprintf(to, "\n%s:\n", title);
    for (size_t i = 0; i < count; i++)
        print_option(to, &options[i]);
}

static void print_global_options(FILE *to, const struct verb *verb, const char *title)
{
    fprintf(to, "\n%s:\n", title);
    for (size_t i = 0; i < global_option_count; i++)
        if (!option_hidden(verb, &global_options[i]))
            print_option(to, &global_options[i]);
}

static bool has_duration(const struct verb *verb)
{
    for (size_t i = 0; i < verb->option_count; i++)
        if (verb->options[i].value == VALUE_DURATION)
            return true;
    return false;
}

static void print_verb(FILE *to, const struct verb *verb)
{
    fprintf(to, "usage: holdfast %s%s%s\n\n%c%s.\n", verb->name, *verb->synopsis ? " " : "",
            verb->synopsis, verb->summary[0] - 'a' + 'A', verb->summary + 1);
    if (verb->about)
        fprintf(to, "\n%s", verb->about);
    print_options(to, "Options", verb->options, verb->option_count);
    if (has_duration(verb))
        fputs("\nD is a duration with its unit: 500ms, 10s, 2m, 1h, 3d. -w also takes plain "
              "seconds.\n",
              to);
    print_global_options(to, verb, "Options of every verb");
    if (verb->operand != OPERAND_RAW && verb->main != verb_help)
        fprintf(to, "\nSee holdfast-%s(1).\n", verb->name);
}

/* Every verb is in one of them; test/cli/first.bats looks for those that are not. */
static const struct group {
    const char *title;
    const char *verbs;
} groups[] = {
    { "Run a command", "run once elect join limit latch barrier" },
    { "Lock in a script", "lock renew convert unlock wait lock-sql" },
    { "Inspect", "ls show watch top serve members deadlocks" },
    { "Intervene", "ask break resize" },
    { "Building blocks", "cell counter guard script" },
    { "Stores", "init doctor engines redlock" },
    { "Learn and measure", "lab faults bench" },
    { "This command", "completion help" },
};

/* The next word of a list, copied; false: that was the last. */
static bool next_word(const char **list, char word[32])
{
    size_t len = strcspn(*list, " ");

    if (len == 0 || len >= 32)
        return false;
    memcpy(word, *list, len);
    word[len] = 0;
    *list += len + strspn(*list + len, " ");
    return true;
}

static void print_group(FILE *to, const struct group *group)
{
    const char *list = group->verbs;
    char word[32];

    fprintf(to, "\n%s:\n", group->title);
    while (next_word(&list, word)) {
        const struct verb *verb = verb_find(word);

        if (verb)
            fprintf(to, "  %-12s%s\n", verb->name, verb->summary);
    }
}

static void print_group_line(FILE *to, const struct group *group)
{
    const char *list = group->verbs;
    char word[32];

    fprintf(to, "%-18s", group->title);
    while (next_word(&list, word))
        if (verb_find(word))
            fprintf(to, " %s", word);
    fputc('\n', to);
}

void help_overview(FILE *to)
{
    fputs("holdfast: distributed locks. One holder at a time, on one machine or on many.\n\n"
          "  holdfast run backup -- ./backup.sh       run it under the lock 'backup'\n"
          "  holdfast run -n -E 0 nightly -- ./job    ... or skip it if it runs elsewhere\n"
          "  holdfast ls                              see what is held, and for how long\n\n",
          to);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        print_group_line(to, &groups[i]);
    fputs("\n`holdfast help` says what each verb does, `holdfast help VERB` describes one.\n", to);
}

static void print_help(FILE *to, const struct verb *verb)
{
    if (verb) {
        print_verb(to, verb);
        return;
    }

    fputs("usage: holdfast [OPTION...] VERB [ARG...]\n\n"
          "Distributed locks: one holder at a time, on one machine or on many.\n",
          to);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        print_group(to, &groups[i]);
    print_global_options(to, NULL, "Options");
    fputs("\nExit codes: that of COMMAND; 64 usage, 65 another kind of lock, 69 store not\n"
          "reached, 74 output not written, 75 not acquired, 76 lease lost, 77 refused, 78 "
          "configuration.\n"
          "\n`holdfast help VERB` describes a verb; holdfast(1) is the manual.\n",
          to);
}

void help_print(FILE *to, const struct verb *verb)
{
    int columns = wrap_columns();
    char *text = NULL;
    size_t size;
    FILE *all = open_memstream(&text, &size);

    if (!all) {
        print_help(to, verb);
        return;
    }
    print_help(all, verb);
    if (fclose(all) == 0)
        wrap_help(to, text,
                  columns == 0            ? COLUMNS_DEFAULT
                  : columns > COLUMNS_MAX ? COLUMNS_MAX
                                          : columns);
    free(text);
}

int verb_help(struct cli *cli)
{
    const struct verb *verb = NULL;

    if (cli->args.name) {
        const char *meaning = exit_meaning(cli->args.name);

        verb = verb_find(cli->args.name);
        if (!verb && meaning) {
            printf("exit status %s: %s (man holdfast: EXIT STATUS)\n", cli->args.name, meaning);
            return out_finish(cli);
        }
        if (!verb)
            return usage_error(cli, "no such verb: '%s'", shown(cli->args.name));
    }
    help_print(stdout, verb);
    return out_finish(cli);
}
