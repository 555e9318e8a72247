/* SPDX-License-Identifier: MIT */
/*
 * `holdfast completion bash|zsh|fish`: scripts that are generated from the table, so that they
 * offer exactly what the parser accepts. Code that needs more than the table is in
 * completion/helpers.*.
 *
 * Names are read from the store when TAB is pressed. A name is any bytes, chosen by any user of the
 * store, and must never be executed. So names come from `holdfast ls -0`, where no byte of a name
 * can look like its end, and no script expands, evaluates or globs one.
 */
#include "completion.h"
#include "store.h"
#include "table.h"
#include "util/profiles.h"

#include <string.h>

#define NAMES    "holdfast ls -0 2>/dev/null"
#define PROFILES "holdfast completion profiles 2>/dev/null"
/* Words of our own, the first of each line. */
#define EXPERIMENTS "holdfast lab 2>/dev/null | cut -d \" \" -f 1"
#define SCHEMES \
    "file: redis:// rediss:// redlock:// postgresql:// mysql:// etcd:// zk:// memcached://"

/* Which values can be offered for an option. */
enum offer { OFFER_NOTHING, OFFER_NAMES, OFFER_TOKENS, OFFER_STORES };

static enum offer offer_of(const struct option_def *option)
{
    if (option->value == VALUE_NONE || option->value == VALUE_CHOICE)
        return OFFER_NOTHING;
    if (strcmp(option->what, "NAME") == 0)
        return OFFER_NAMES;
    if (strcmp(option->name, "token") == 0)
        return OFFER_TOKENS;
    return strcmp(option->name, "store") == 0 ? OFFER_STORES : OFFER_NOTHING;
}
#define WHOLE (128 * 1024) /* more than any of the scripts has */

typedef void each_option(const struct verb *verb, const struct option_def *option);

/* Call for every option of a verb, the global ones included; with NULL for those alone. */
static void for_options(const struct verb *verb, each_option *call)
{
    for (size_t i = 0; verb && i < verb->option_count; i++)
        call(verb, &verb->options[i]);
    for (size_t i = 0; i < global_option_count; i++)
        if (!option_hidden(verb, &global_options[i]))
            call(verb, &global_options[i]);
}

static bool takes_names(const struct verb *verb)
{
    return verb->operand == OPERAND_NAME || verb->operand == OPERAND_GLOB ||
           verb->operand == OPERAND_COMMAND;
}

/* "a|b|c" as "a b c" */
static void print_words(const char *choices)
{
    for (; *choices; choices++)
        putchar(*choices == '|' ? ' ' : *choices);
}

static bool has_action(const struct verb *verb)
{
    return verb->operand == OPERAND_ACTION || verb->operand == OPERAND_DEED ||
           verb->operand == OPERAND_SCRIPT;
}

/* The actions at the beginning of the synopsis: "a|b NAME" as "a b" */
static void print_actions(const struct verb *verb)
{
    for (const char *at = verb->synopsis; *at && *at != ' '; at++)
        putchar(*at == '|' ? ' ' : *at);
}

/* The text with every byte of `special` behind a backslash, and single quotes as the shells want. */
static void print_escaped(const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr(special, *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

/* ---- bash ---------------------------------------------------------------------------------- */

static void bash_option(const struct verb *verb, const struct option_def *option)
{
    (void)verb;
    printf(" --%s", option->name);
    if (option->letter)
        printf(" -%c", option->letter);
}

/* A line of `case $prev`: what follows an option that takes a value. */
static void bash_value(const struct verb *verb, const struct option_def *option)
{
    static const char *const offers[] = {
        [OFFER_NOTHING] = "",
        [OFFER_NAMES] = "_holdfast_names any < <(" NAMES ");",
        [OFFER_TOKENS] = "_holdfast_tokens;",
        [OFFER_STORES] = "_holdfast_stores;",
    };

    (void)verb;
    if (option->value == VALUE_NONE)
        return;
    printf("    ");
    if (option->letter)
        printf("-%c | ", option->letter);
    printf("--%s) ", option->name);
    if (option->value == VALUE_CHOICE) {
        printf("_holdfast_words '");
        print_words(option->what);
        printf("';");
    }
    printf("%s return ;;\n", offers[offer_of(option)]);
}

static void print_engines(void)
{
    const hf_engine_info *info;

    for (size_t i = 0; (info = hf_engine_get(i)); i++)
        printf("%s%s", i ? " " : "", info->name);
}

static void bash_verb(const struct verb *verb)
{
    printf("  %s)\n    case $prev in\n", verb->name);
    for_options(verb, bash_value);
    printf("    esac\n    words='");
    for_options(verb, bash_option);
    puts("'");
    if (takes_names(verb))
        puts("    [[ $word == -* ]] || { _holdfast_names < <(" NAMES "); return; }");
    else if (verb->operand == OPERAND_URL)
        puts("    [[ $word == -* ]] || { _holdfast_stores; return; }");
    else if (verb->operand == OPERAND_SHELL)
        puts("    [[ $word == -* ]] || words='bash zsh fish'");
    else if (verb->operand == OPERAND_EXPERIMENT)
        puts("    [[ $word == -* ]] || words=$(" EXPERIMENTS ")");
    else if (verb->operand == OPERAND_ENGINE) {
        printf("    [[ $word == -* ]] || words='");
        print_engines();
        puts("'");
    } else if (has_action(verb)) {
        printf("    [[ $word == -* ]] || words='");
        print_actions(verb);
        puts("'");
    } else if (verb->operand == OPERAND_VERB)
        puts("    [[ $word == -* ]] || words=$verbs");
    puts("    ;;");
}

/* The verbs that run a command, with `between` them. */
static void print_runners(const char *between)
{
    const char *before = "";

    for (size_t i = 0; i < verb_count; i++)
        if (verbs[i].operand == OPERAND_COMMAND) {
            printf("%s%s", before, verbs[i].name);
            before = between;
        }
}

static void print_bash(void)
{
    printf("%s_holdfast() {\n"
           "  local -a typed\n"
           "  local word prev head verb= words= i schemes='" SCHEMES "'\n"
           "  local verbs='",
           completion_bash);
    for (size_t i = 0; i < verb_count; i++)
        printf("%s%s", i ? " " : "", verbs[i].name);
    printf("'\n"
           "  COMPREPLY=()\n"
           "  _holdfast_read\n"
           "  for ((i = 1; i < ${#typed[@]} - 1; i++)); do\n"
           "    case ${typed[i]} in\n"
           "    --) [[ ' ");
    print_runners(" ");
    puts(
        " ' == *\" $verb \"* ]] || break\n"
        "      for ((i = 1; i < COMP_CWORD; i++)); do [[ ${COMP_WORDS[i]} == -- ]] && break; done\n"
        "      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1))\n"
        "      else mapfile -t COMPREPLY < <(compgen -c -f -- \"${COMP_WORDS[COMP_CWORD]}\"); fi\n"
        "      return ;;\n"
        "    -S | --store | --color) ((++i)) ;;\n"
        "    -*) ;;\n"
        "    *) [[ $verb ]] || verb=${typed[i]} ;;\n"
        "    esac\n"
        "  done\n"
        "  case $verb in\n"
        "  '')\n"
        "    case $prev in");
    for_options(NULL, bash_value);
    printf("    esac\n    words=\"$verbs");
    for_options(NULL, bash_option);
    puts("\"\n    ;;");
    for (size_t i = 0; i < verb_count; i++)
        bash_verb(&verbs[i]);
    puts("  esac\n"
         "  _holdfast_words \"$words\"\n"
         "}\n"
         "complete -o default -F _holdfast holdfast");
}

/* ---- zsh ------------------------------------------------------------------------------------ */

static void zsh_option(const struct verb *verb, const struct option_def *option)
{
    static const char *const actions[] = { [OFFER_NOTHING] = "",
                                           [OFFER_NAMES] = "_holdfast_any_name",
                                           [OFFER_TOKENS] = "_holdfast_tokens",
                                           [OFFER_STORES] = "_holdfast_stores" };
    const char *join = option->value == VALUE_NONE ? "" : "=";

    (void)verb;
    if (option->letter)
        printf("    '(-%c --%s)'{-%c%s,--%s%s}'", option->letter, option->name, option->letter,
               option->value == VALUE_NONE ? "" : "+", option->name, join);
    else
        printf("    '--%s%s", option->name, join);
    putchar('[');
    print_escaped(option->help, "[]:\\");
    putchar(']');
    if (option->value == VALUE_CHOICE) {
        printf(":%s:(", option->name);
        print_words(option->what);
        putchar(')');
    } else if (option->value != VALUE_NONE) {
        putchar(':');
        print_escaped(option->what, "[]:\\");
        printf(":%s", actions[offer_of(option)]);
    }
    puts("' \\");
}

static void zsh_verb(const struct verb *verb)
{
    printf("  %s)\n", verb->name);
    if (verb->operand == OPERAND_COMMAND)
        puts("    local -i dashes=${words[(i)--]}\n"
             "    if (( dashes < CURRENT )); then\n"
             "      shift dashes words; (( CURRENT -= dashes )); _normal; return\n"
             "    fi");
    puts("    _arguments -s -S \\");
    for_options(verb, zsh_option);
    switch (verb->operand) {
    case OPERAND_COMMAND:
    case OPERAND_NAME:
        puts("    '1:name:_holdfast_names'");
        break;
    case OPERAND_GLOB:
        puts("    '::glob:_holdfast_names'");
        break;
    case OPERAND_URL:
        puts("    '::store:_holdfast_stores'");
        break;
    case OPERAND_DIR:
        puts("    '1:directory:_files -/'");
        break;
    case OPERAND_SHELL:
        puts("    '1:shell:(bash zsh fish)'");
        break;
    case OPERAND_EXPERIMENT:
        puts("    '::experiment:($(" EXPERIMENTS "))'");
        break;
    case OPERAND_ENGINE:
        printf("    '::engine:(");
        print_engines();
        puts(")'");
        break;
    case OPERAND_ACTION:
    case OPERAND_DEED:
    case OPERAND_SCRIPT:
        printf("    '1:action:(");
        print_actions(verb);
        puts(verb->operand == OPERAND_DEED     ? ")' '2:name:' '::value:'"
             : verb->operand == OPERAND_SCRIPT ? ")' '2:file:_files' '*::word:'"
                                               : ")' '::node:'");
        break;
    case OPERAND_VERB:
        puts("    '::verb:_holdfast_verbs'");
        break;
    case OPERAND_NONE:
    case OPERAND_RAW:
        puts("    '*::argument:'");
        break;
    }
    puts("    ;;");
}

static void print_zsh(void)
{
    fputs(completion_zsh, stdout);
    puts("_holdfast_schemes='" SCHEMES "'\n"
         "_holdfast_verbs() {\n"
         "  local -a verbs=(");
    for (size_t i = 0; i < verb_count; i++) {
        printf("    '%s:", verbs[i].name);
        print_escaped(verbs[i].summary, ":\\");
        puts("'");
    }
    puts("  )\n"
         "  _describe verb verbs\n"
         "}\n"
         "_holdfast() {\n"
         "  local curcontext=$curcontext state line\n"
         "  typeset -A opt_args\n"
         "  _arguments -C -s \\");
    for_options(NULL, zsh_option);
    puts("    '1:verb:_holdfast_verbs' '*::argument:->verb'\n"
         "  [[ $state == verb ]] || return\n"
         "  case $line[1] in");
    for (size_t i = 0; i < verb_count; i++)
        zsh_verb(&verbs[i]);
    puts("  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _holdfast ]]; then _holdfast \"$@\"; else compdef _holdfast "
         "holdfast; fi");
}

/* ---- fish ----------------------------------------------------------------------------------- */

static void fish_option(const struct verb *verb, const struct option_def *option)
{
    static const char *const offers[] = {
        [OFFER_NOTHING] = "",
        [OFFER_NAMES] = " -a '(__holdfast_names any | string split0)'",
        [OFFER_TOKENS] = " -a '(__holdfast_tokens)'",
        [OFFER_STORES] = " -a '(" PROFILES " | string split0) " SCHEMES "'",
    };

    printf("complete -c holdfast");
    if (verb)
        printf(" -n '__fish_seen_subcommand_from %s'", verb->name);
    if (option->letter)
        printf(" -s %c", option->letter);
    printf(" -l %s", option->name);
    if (option->value == VALUE_CHOICE) {
        printf(" -x -a '");
        print_words(option->what);
        putchar('\'');
    } else if (option->value != VALUE_NONE) {
        printf(" -x%s", offers[offer_of(option)]);
    }
    printf(" -d \"");
    for (const char *at = option->help; *at; at++)
        printf(strchr("\"\\$", *at) ? "\\%c" : "%c", *at);
    puts("\"");
}

static void fish_verb(const struct verb *verb)
{
    const char *words = takes_names(verb)                     ? "(__holdfast_names | string split0)"
                        : verb->operand == OPERAND_SHELL      ? "bash zsh fish"
                        : verb->operand == OPERAND_EXPERIMENT ? "(" EXPERIMENTS ")"
                                                              : NULL;

    printf("complete -c holdfast -n __fish_use_subcommand -a %s -d '%s'\n", verb->name,
           verb->summary);
    if (words)
        printf("complete -c holdfast -n '__fish_seen_subcommand_from %s' -a '%s'\n", verb->name,
               words);
    if (verb->operand == OPERAND_ENGINE) {
        printf("complete -c holdfast -n '__fish_seen_subcommand_from %s' -a '", verb->name);
        print_engines();
        puts("'");
    }
    if (has_action(verb)) {
        printf("complete -c holdfast -n '__fish_seen_subcommand_from %s' -a '", verb->name);
        print_actions(verb);
        puts("'");
    }
    for (size_t i = 0; i < verb->option_count; i++)
        fish_option(verb, &verb->options[i]);
}

static void print_fish(void)
{
    fputs(completion_fish, stdout);
    puts("complete -c holdfast -f");
    for_options(NULL, fish_option);
    for (size_t i = 0; i < verb_count; i++)
        fish_verb(&verbs[i]);
    printf("complete -c holdfast -n '__fish_seen_subcommand_from help' -a '");
    for (size_t i = 0; i < verb_count; i++)
        printf("%s%s", i ? " " : "", verbs[i].name);
    printf("'\ncomplete -c holdfast -n '__fish_seen_subcommand_from ");
    print_runners(" ");
    puts("; and contains -- -- "
         "(commandline -opc)' -a '(__fish_complete_subcommand --fcs-skip=3)'");
}

/* For the scripts: the name of a profile, with a NUL behind it. */
static void print_profile(const char *name)
{
    fputs(name, stdout);
    putchar(0);
}

int verb_completion(struct cli *cli)
{
    static char whole[WHOLE];
    const char *shell = cli->args.name;

    setvbuf(stdout, whole, _IOFBF, sizeof whole); /* one write: if it fails, errno still says why */
    if (!shell)
        return usage_error(cli, "no shell: bash, zsh or fish");
    if (strcmp(shell, "bash") == 0)
        print_bash();
    else if (strcmp(shell, "zsh") == 0)
        print_zsh();
    else if (strcmp(shell, "fish") == 0)
        print_fish();
    else if (strcmp(shell, "profiles") == 0) {
        hf_error err;

        if (hfi_profiles_list(print_profile, &err) != HF_OK)
            return say_failure(&err);
    } else
        return usage_error(cli, "no completion for '%s', only for bash, zsh and fish",
                           shown(shell));
    return out_finish(cli);
}
