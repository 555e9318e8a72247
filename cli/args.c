/* SPDX-License-Identifier: MIT */
/*
 * Parses the command line by the table. Options may be anywhere before "--", the global ones before
 * the verb too; "-w 5s", "-w5s", "--wait 5s" and "--wait=5s" are the same; flags bundle ("-nq").
 * Nothing is abbreviated: what works in a script today must not become ambiguous with a later
 * version.
 */
#include "cli.h"
#include "secret.h"
#include "table.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

#define WATCH_INSTEAD "holdfast watch"

struct parser {
    struct cli *cli;
    char **next; /* the argument that comes next */
};

static int parse_verb(struct parser *parser, char *word);
static int parse_operand(struct parser *parser, char *word);
static bool is_script_run(const struct cli *cli);
static bool takes_words(const struct cli *cli);
static int parse_long(struct parser *parser, char *word);
static int parse_letters(struct parser *parser, char *word);
static int take(struct parser *parser, const struct option_def *option, char *value,
                const char *as);
static int set(struct cli *cli, const struct option_def *option, char *value, const char *as);
static void add_text(struct texts *texts, const char *value);

static int parse_words(struct cli *cli, char **words);
static int use_shell(struct cli *cli);

int args_parse(struct cli *cli, int argc, char **argv)
{
    int code;

    cli->args.busy_exit = -1;
    cli->args.slots = cli->args.permits = cli->args.status_fd = -1;
    cli->args.for_pid = cli->args.token = cli->args.burst = -1;
    cli->args.parties = cli->args.count = -1;
    cli->args.lang = -1;
    cli->args.repeat = -1;
    cli->args.connections = cli->args.leases = cli->args.metrics_names = -1;

    code = parse_words(cli, argv + (argc > 0));
    return code == EXIT_FINE && cli->args.shell_text ? use_shell(cli) : code;
}

/* -c TEXT, as flock(1) has it. Always /bin/sh: SHELL is another one in cron than in a terminal. */
static int use_shell(struct cli *cli)
{
    static char *command[] = { (char *)"/bin/sh", (char *)"-c", NULL, NULL };

    if (cli->args.command && *cli->args.command)
        return usage_error(cli, "-c and a COMMAND after -- exclude each other");
    command[2] = (char *)(uintptr_t)cli->args.shell_text;
    cli->args.command = command;
    return EXIT_FINE;
}

static int parse_words(struct cli *cli, char **words)
{
    struct parser parser = { cli, words };
    bool dashes = false;
    int code = EXIT_FINE;

    while (code == EXIT_FINE && !dashes && *parser.next) {
        char *word = *parser.next++;

        if (cli->verb && cli->verb->operand == OPERAND_RAW) {
            cli->args.command = parser.next - 1;
            return EXIT_FINE;
        }
        if (strcmp(word, "--") == 0)
            dashes = true;
        else if (word[0] != '-' && takes_words(cli)) {
            cli->args.command = parser.next - 1; /* no file: this is the first key, or the comma */
            return EXIT_FINE;
        } else if (strncmp(word, "--", 2) == 0)
            code = parse_long(&parser, word);
        else if (word[0] == '-' && word[1])
            code = parse_letters(&parser, word);
        else if (!cli->verb)
            code = parse_verb(&parser, word);
        else
            code = parse_operand(&parser, word);
        if (code == EXIT_FINE && cli->args.name && is_script_run(cli)) {
            cli->args.command = parser.next; /* "-1" is an argument of the script */
            return EXIT_FINE;
        }
    }
    if (code != EXIT_FINE || !dashes)
        return code;

    /* Behind "--": a command for a verb that runs one, else operands like "-x". */
    if (!cli->verb)
        return usage_error(cli, "no verb before '--'");
    if (cli->verb->operand == OPERAND_COMMAND || takes_words(cli)) {
        cli->args.command = parser.next;
        return EXIT_FINE;
    }
    while (code == EXIT_FINE && *parser.next)
        code = parse_operand(&parser, *parser.next++);
    return code;
}

/* ---- verbs and operands ----------------------------------------------------- */

static bool is_script_run(const struct cli *cli)
{
    return cli->verb && cli->verb->operand == OPERAND_SCRIPT && cli->args.action &&
           strcmp(cli->args.action, "run") == 0;
}

/* `script run -e TEXT`: all operands belong to the script. */
static bool takes_words(const struct cli *cli)
{
    return cli->args.expression && is_script_run(cli);
}

/* What other programs call it. */
static const char *known_elsewhere(const char *word)
{
    static const char *const words[][2] = {
        { "list", "ls" },        { "status", "show" },  { "info", "show" },
        { "inspect", "show" },   { "acquire", "lock" }, { "release", "unlock" },
        { "refresh", "renew" },  { "extend", "renew" }, { "exec", "run" },
        { "flock", "run" },      { "with", "run" },     { "leader", "elect" },
        { "campaign", "elect" }, { "kill", "break" },   { "force", "break" },
        { "steal", "break" },    { "monitor", "top" },  { "web", "serve" },
        { "server", "serve" },   { "ui", "serve" },     { "check", "doctor" },
        { "health", "doctor" },  { "rate", "limit" },   { "throttle", "limit" },
        { "cat", "cell" },       { "incr", "counter" }, { "semaphore", "run" },
        { "man", "help" },
    };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i][0]) == 0)
            return words[i][1];
    return NULL;
}

static int parse_verb(struct parser *parser, char *word)
{
    const char *names[64];
    const char *near;

    parser->cli->verb = verb_find(word);
    if (parser->cli->verb)
        return EXIT_FINE;

    for (size_t i = 0; i < verb_count && i < 64; i++)
        names[i] = verbs[i].name;
    near = known_elsewhere(word);
    if (!near)
        near = closest(word, names, verb_count < 64 ? verb_count : 64);
    if (near)
        return usage_error(parser->cli, "unknown verb '%s'; did you mean '%s'?", shown(word), near);
    return usage_error(parser->cli, "unknown verb '%s'", shown(word));
}

/* The operands of OPERAND_DEED: action, name, value; or words of a list. */
static int parse_action_name_value(struct cli *cli, const char *word)
{
    const char **field = !cli->args.action ? &cli->args.action
                         : !cli->args.name ? &cli->args.name
                                           : &cli->args.value;

    if (cli->args.action && strcmp(cli->args.action, "commit") == 0) {
        add_text(&cli->args.words, word);
        return EXIT_FINE;
    }
    if (*field)
        return usage_error(cli, "'%s' is one argument too many", shown(word));
    *field = word;
    return EXIT_FINE;
}

static int parse_operand(struct parser *parser, char *word)
{
    struct cli *cli = parser->cli;
    enum operand operand = cli->verb->operand;

    if (operand == OPERAND_SCRIPT && cli->args.name) {
        add_text(&cli->args.more, word);
        return EXIT_FINE;
    }
    if (operand == OPERAND_DEED || operand == OPERAND_SCRIPT)
        return parse_action_name_value(cli, word);
    if (operand == OPERAND_NONE)
        return usage_error(cli, "'%s' is one argument too many", shown(word));
    if (cli->args.name && operand == OPERAND_COMMAND && cli->args.shell_text)
        return usage_error(cli, "'%s' is one argument too many: put the text of -c in quotes",
                           shown(word));
    if (cli->args.name && operand == OPERAND_COMMAND)
        return usage_error(cli, "'%s' is one argument too many: put -- before the command",
                           shown(word));
    if (cli->args.name && operand == OPERAND_ACTION && !cli->args.node) {
        cli->args.node = word;
        return EXIT_FINE;
    }
    if (cli->args.name)
        return usage_error(cli, "'%s' is one argument too many", shown(word));

    cli->args.name = word;
    if (operand == OPERAND_URL) {
        cli->args.name = must_strdup(word);
        hfi_url_wipe(word);
    }
    return EXIT_FINE;
}

/* ---- options ------------------------------------------------------------------ */

/* The options that are known here: those of the verb, if it is known yet, and the global ones. */
static const struct option_def *option_at(const struct cli *cli, size_t index)
{
    size_t own = cli->verb ? cli->verb->option_count : 0;

    if (index < own)
        return &cli->verb->options[index];
    return index - own < global_option_count ? &global_options[index - own] : NULL;
}

/* flock(1) has two names for some of its options. */
static const struct option_def *option_named(const struct cli *cli, const char *name, size_t len)
{
    static const char *const also[][2] = { { "timeout", "wait" }, { "nb", "nonblock" } };
    const struct option_def *option;

    for (size_t i = 0; (option = option_at(cli, i)); i++)
        if (strlen(option->name) == len && memcmp(option->name, name, len) == 0)
            return option;
    for (size_t i = 0; i < sizeof also / sizeof *also; i++)
        if (strlen(also[i][0]) == len && memcmp(also[i][0], name, len) == 0)
            return option_named(cli, also[i][1], strlen(also[i][1]));
    return NULL;
}

/* What other programs call it: kubectl's and docker's habits, for verbs that print. NULL: nothing like that. */
static const char *option_elsewhere(const struct cli *cli, const char *name)
{
    static const char *const words[][2] = {
        { "o", "--json" },           { "output", "--json" },     { "format", "--json" },
        { "w", WATCH_INSTEAD },      { "watch", WATCH_INSTEAD }, { "f", WATCH_INSTEAD },
        { "follow", WATCH_INSTEAD },
    };

    if (strcmp(name, "V") == 0)
        return "--version";
    if (cli->verb && strcmp(cli->verb->name, "serve") == 0 && strcmp(name, "port") == 0)
        return "--listen ADDRESS:PORT";
    if (!cli->verb || cli->verb->operand == OPERAND_COMMAND)
        return NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(name, words[i][0]) == 0)
            return words[i][1];
    return NULL;
}

static int unknown_option(const struct cli *cli, const char *name)
{
    const char *elsewhere = option_elsewhere(cli, name);
    const char *names[64];
    const struct option_def *option;
    const char *near;
    size_t count = 0;

    while (count < 64 && (option = option_at(cli, count)))
        names[count++] = option->name;
    if (elsewhere)
        return usage_error(cli, "unknown option '--%s'; did you mean '%s'?", shown(name),
                           elsewhere);
    near = closest(name, names, count);
    if (near)
        return usage_error(cli, "unknown option '--%s'; did you mean '--%s'?", shown(name), near);
    return usage_error(cli, "unknown option '--%s'", shown(name));
}

static int parse_long(struct parser *parser, char *word)
{
    const struct option_def *option;
    char *value = strchr(word, '=');
    char *name = word + 2;
    size_t len = value ? (size_t)(value - name) : strlen(name);
    char as[64];

    option = option_named(parser->cli, name, len);
    if (!option) {
        if (value)
            *value = 0;
        return unknown_option(parser->cli, name);
    }

    snprintf(as, sizeof as, "--%s", option->name);
    if (value && option->value == VALUE_NONE)
        return usage_error(parser->cli, "%s takes no value", as);
    return take(parser, option, value ? value + 1 : NULL, as);
}

static int parse_letters(struct parser *parser, char *word)
{
    for (char *at = word + 1; *at; at++) {
        const struct option_def *option;
        size_t index = 0;
        char as[] = { '-', *at, 0 };
        int code;

        while ((option = option_at(parser->cli, index++)))
            if (option->letter == *at)
                break;
        if (!option) {
            const char *elsewhere = option_elsewhere(parser->cli, as + 1);

            return elsewhere ? usage_error(parser->cli, "unknown option '-%s'; did you mean '%s'?",
                                           shown(as + 1), elsewhere)
                             : usage_error(parser->cli, "unknown option '-%s'", shown(as + 1));
        }
        if (option->value != VALUE_NONE)
            return take(parser, option, at[1] ? at + 1 : NULL, as);

        code = take(parser, option, NULL, as);
        if (code != EXIT_FINE)
            return code;
    }
    return EXIT_FINE;
}

/* `value`: what came in the same argument, NULL: nothing did. `as`: how it was written. */
static int take(struct parser *parser, const struct option_def *option, char *value, const char *as)
{
    if (option->value != VALUE_NONE && !value) {
        if (!*parser->next || strcmp(*parser->next, "--") == 0)
            return usage_error(parser->cli, "%s needs a value: %s %s", as, as, option->what);
        value = *parser->next++;
    }
    return set(parser->cli, option, value, as);
}

/* ---- values ------------------------------------------------------------------- */

static int bad_value(const struct cli *cli, const char *as, const char *value, const char *wrong)
{
    return usage_error(cli, "%s '%s' %s", as, shown(value), wrong);
}

bool takes_letter(const struct cli *cli, char letter)
{
    const struct option_def *option;

    for (size_t i = 0; (option = option_at(cli, i)); i++)
        if (option->letter == letter)
            return true;
    return false;
}

/* "5" or "0.25": seconds, as flock(1) and sleep(1) take them. Only for how long to wait: a ttl of "500" could mean either. */
static bool is_seconds(const char *value, int64_t *ret_ms)
{
    int64_t ms = 0, unit = 1000;
    const char *at = value;

    for (; *at >= '0' && *at <= '9' && ms <= HF_DURATION_MAX_MS; at++)
        ms = ms * 10 + (int64_t)(*at - '0') * 1000;
    if (at == value)
        return false;
    if (*at == '.' && at[1])
        for (at++; *at >= '0' && *at <= '9'; at++) {
            unit /= 10;
            ms += (*at - '0') * unit;
        }
    if (*at || ms > HF_DURATION_MAX_MS)
        return false;
    *ret_ms = ms;
    return true;
}

static int set_duration(struct cli *cli, int64_t *field, const char *value, const char *as)
{
    int64_t ms = 0;
    bool seconds = field == &cli->args.wait_ms && is_seconds(value, &ms);
    const char *wrong = seconds ? NULL : hfi_parse_duration(value, &ms);

    if (!wrong && ms == 0)
        wrong = field == &cli->args.wait_ms && takes_letter(cli, 'n')
                    ? "must not be 0; -n does not wait"
                    : "must not be 0";
    if (wrong)
        return bad_value(cli, as, value, wrong);
    *field = ms;
    return EXIT_FINE;
}

static int set_number(struct cli *cli, const struct option_def *option, int64_t *field,
                      const char *value, const char *as)
{
    uint64_t number = 0;
    const char *wrong = hfi_parse_u64(value, (uint64_t)option->min, (uint64_t)option->max, &number);

    if (wrong)
        return usage_error(cli, "%s '%s' %s: from %lld to %lld", as, shown(value), wrong,
                           (long long)option->min, (long long)option->max);
    *field = (int64_t)number;
    return EXIT_FINE;
}

static int set_choice(struct cli *cli, const struct option_def *option, int *field,
                      const char *value, const char *as)
{
    size_t len = strlen(value);
    int index = 0;

    for (const char *at = option->what; at; index++) {
        size_t word_len = strcspn(at, "|");

        if (word_len == len && memcmp(at, value, len) == 0) {
            *field = index;
            return EXIT_FINE;
        }
        at = at[word_len] ? at + word_len + 1 : NULL;
    }
    return usage_error(cli, "%s '%s' is none of %s", as, shown(value), option->what);
}

static void add_text(struct texts *texts, const char *value)
{
    texts->items = realloc(texts->items, (texts->count + 1) * sizeof *texts->items);
    if (!texts->items) {
        say_error("out of memory");
        exit(EXIT_INTERNAL);
    }
    texts->items[texts->count++] = value;
}

static int set(struct cli *cli, const struct option_def *option, char *value, const char *as)
{
    void *field = (char *)&cli->args + option->field;

    switch (option->value) {
    case VALUE_NONE:
        *(bool *)field = true;
        return EXIT_FINE;
    case VALUE_TEXT:
        *(const char **)field = value;
        return EXIT_FINE;
    case VALUE_LIST:
        add_text(field, value);
        return EXIT_FINE;
    case VALUE_SECRETS:
        add_text(field, must_strdup(value));
        hfi_url_wipe(value);
        return EXIT_FINE;
    case VALUE_SECRET:
        *(char **)field = must_strdup(value);
        if (field == &cli->args.store)
            hfi_url_wipe(value);
        else
            memset(value, '*', strlen(value));
        return EXIT_FINE;
    case VALUE_DURATION:
        return set_duration(cli, field, value, as);
    case VALUE_NUMBER:
        return set_number(cli, option, field, value, as);
    case VALUE_CHOICE:
        return set_choice(cli, option, field, value, as);
    }
    return EXIT_INTERNAL;
}
