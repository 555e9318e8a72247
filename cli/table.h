/* SPDX-License-Identifier: MIT */
/*
 * The one table of verbs and options. The parser (args.c), help (help.c) and
 * the shell completions (completion.c) read nothing else, so they cannot disagree.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "cli.h"

enum value {
    VALUE_NONE,   /* a flag: bool */
    VALUE_TEXT,   /* const char * */
    VALUE_LIST,   /* struct texts: one more each time */
    VALUE_SECRET, /* char *, copied; what may be secret in argv is wiped */
    VALUE_SECRETS, /* struct texts of copies: one more each time; secrets of a URL in argv are wiped */
    VALUE_DURATION, /* int64_t ms, never 0 */
    VALUE_NUMBER,   /* int64_t from min to max */
    VALUE_CHOICE    /* int: index into `what`, "a|b|c" */
};

struct option_def {
    char letter;      /* 0: none */
    const char *name; /* without its dashes */
    enum value value;
    const char *what; /* what help calls the value: "D", "NAME", or the choices */
    int64_t min, max; /* of a number */
    size_t field;     /* offset in struct args */
    const char *help;
};

enum operand {
    OPERAND_NONE,
    OPERAND_NAME,       /* one name, needed (also as --name, for names that begin with '-') */
    OPERAND_GLOB,       /* optional */
    OPERAND_URL,        /* optional */
    OPERAND_DIR,        /* needed */
    OPERAND_SHELL,      /* needed */
    OPERAND_VERB,       /* optional */
    OPERAND_EXPERIMENT, /* of the lab, optional */
    OPERAND_ENGINE,     /* optional */
    OPERAND_ACTION, /* one of the words that the synopsis begins with, needed; then optionally a node */
    OPERAND_DEED,    /* such a word and a name, needed; then optionally a value */
    OPERAND_SCRIPT,  /* such a word; a file; then anything: options come before the file */
    OPERAND_COMMAND, /* one name, needed, then -- and a command; verbs say whether that is needed */
    OPERAND_RAW      /* everything after the verb belongs to another program */
};

struct verb {
    const char *name;
    enum operand operand;
    const char *synopsis; /* behind the verb */
    const char *summary;  /* one line, no capital, no dot */
    const char *about;    /* a paragraph or two for its help */
    const struct option_def *options;
    size_t option_count;
    int (*main)(struct cli *cli);
};

extern const struct verb verbs[];
extern const size_t verb_count;
extern const struct option_def global_options[];
extern const size_t global_option_count;

const struct verb *verb_find(const char *name);
/* Does the verb have an option with the same name as this global one? Then the verb's option is
 * meant. */
bool option_hidden(const struct verb *verb, const struct option_def *global);

int verb_run(struct cli *cli);
int verb_once(struct cli *cli);
int verb_elect(struct cli *cli);
int verb_join(struct cli *cli);
int verb_members(struct cli *cli);
int verb_latch(struct cli *cli);
int verb_barrier(struct cli *cli);
int verb_lock(struct cli *cli);
int verb_lock_sql(struct cli *cli);
int verb_renew(struct cli *cli);
int verb_convert(struct cli *cli);
int verb_unlock(struct cli *cli);
int verb_limit(struct cli *cli);
int verb_ls(struct cli *cli);
int verb_show(struct cli *cli);
int verb_wait(struct cli *cli);
int verb_watch(struct cli *cli);
int verb_top(struct cli *cli);
int verb_serve(struct cli *cli);
int verb_lab(struct cli *cli);
int verb_deadlocks(struct cli *cli);
int verb_break(struct cli *cli);
int verb_ask(struct cli *cli);
int verb_resize(struct cli *cli);
int verb_init(struct cli *cli);
int verb_doctor(struct cli *cli);
int verb_engines(struct cli *cli);
int verb_redlock(struct cli *cli);
int verb_cell(struct cli *cli);
int verb_counter(struct cli *cli);
int verb_guard(struct cli *cli);
int verb_script(struct cli *cli);
int verb_bench(struct cli *cli);
int verb_faults(struct cli *cli);
int verb_completion(struct cli *cli);
int verb_help(struct cli *cli);

/* Print the help of one verb, or of the whole command with NULL. */
void help_print(FILE *to, const struct verb *verb);
/* What `holdfast` alone says: short, in groups. */
void help_overview(FILE *to);

#endif
